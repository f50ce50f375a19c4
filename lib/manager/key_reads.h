// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyReads: commands read values of some keys; the manager asks the shards that are primary of them.

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/key/position.h"
#include "lib/manager/asker.h"
#include "lib/manager/job_tables.h"
#include "lib/node/outbox.h"
#include "lib/store/table_schema.h"
#include "lib/wire/get_message.h"

namespace weir {

/// A key whose shard does not have it any more, or is gone, is asked for anew, at who has it by then.
///
/// Thread: the manager's
class KeyReads {
public:
    static constexpr uint64_t kAnswerNs =
        4 * kSecond;  ///< then keys that nobody has read are unknown
    static constexpr uint64_t kSilentNs =
        250 * kMillisecond;                  ///< if one that was silent before is all they wait for
    static constexpr size_t kReadsMax = 16;  ///< at a time

    /// Who is primary of a position now; nothing: nobody who is here.
    using PrimaryOf = std::function<std::optional<ShardPeer>(uint64_t position)>;

    explicit KeyReads(Outbox& outbox) noexcept : outbox_(outbox) {}

    /// Errors: why the command cannot have that. Else it gets its reply later.
    [[nodiscard]] Status begin(const Asker& asker, const TableSchema& schema,
                               const std::vector<uint64_t>& keys, uint64_t now_ns);

    /// Errors: Errc::kProtocol if the answer is malformed
    [[nodiscard]] Status take(uint32_t shard, const wire::Frame& frame);

    /// The shard is in the job no more.
    void forget_shard(uint32_t shard);
    /// The table is dropped: who reads it hears that.
    void forget_table(uint32_t table);
    /// The command is gone.
    void forget(transport::ConnectionId connection);

    [[nodiscard]] bool is_reading() const noexcept { return !reads_.empty(); }

    /// Asks for what is to be asked, and replies to who has it all, or has waited long enough.
    ///
    /// is_lost: keys that nobody has are lost for good
    void go_on(uint64_t now_ns, const PrimaryOf& primary_of, bool is_lost,
               size_t message_bytes_max);

private:
    static constexpr uint64_t kAgainNs = 20 * kMillisecond;

    /// Keys of a read that one shard was asked for.
    struct Question {
        uint32_t shard = 0;
        std::vector<uint32_t> keys = {};  ///< their indices
        std::vector<std::byte> answer = {};
    };

    struct Read {
        Asker asker = {};
        uint32_t table = 0;
        PositionMap positions = PositionMap::sparse();
        std::vector<uint64_t> keys = {};
        GetReply reply = {};
        std::vector<uint32_t> open = {};              ///< indices of keys that nobody is asked for
        std::map<uint64_t, Question> questions = {};  ///< by number
        uint64_t begun_ns = 0;
        uint64_t next_ns = 0;  ///< when open ones are asked for
    };

    void ask(Read& read, const PrimaryOf& primary_of);
    static void settle(Read& read, const Question& question);
    [[nodiscard]] uint64_t patience_ns(const Read& read) const;
    static void explain(Read& read, const PrimaryOf& primary_of);

    Outbox& outbox_;
    std::list<Read> reads_;
    uint64_t number_ = 0;        ///< of the last question
    std::set<uint32_t> silent_;  ///< shards that have not answered their last questions in time
};

}  // namespace weir

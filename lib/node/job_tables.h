// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobTables: the tables of the job, as the manager keeps them: which there are, which shards have
/// yet to make them, and which workers wait for that.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/node/asker.h"
#include "lib/node/messages.h"

namespace weir {

/// Where to reach a shard.
struct ShardPeer {
    uint32_t number = 0;
    transport::ConnectionId connection = 0;
};

/// Thread: the manager's
class JobTables {
public:
    explicit JobTables(Outbox& outbox) noexcept : outbox_(outbox) {}

    /// A worker wants a table. A new one is made at all `shards`: its number is returned. The
    /// worker gets its answer when they have.
    std::optional<uint32_t> create(const Asker& asker, TableMessage message,
                                   const std::vector<ShardPeer>& shards);

    /// A worker wants a table that is there already.
    void open(const Asker& asker, std::string_view name);

    /// A shard that joins gets all tables, also those that others are about to make.
    void send_all(const ShardPeer& shard);

    /// A shard has made a table, or cannot.
    ///
    /// Errors: why the shard cannot have a table that the job has: it is of no use
    [[nodiscard]] Status made(uint32_t shard, std::string_view shard_name,
                              const wire::Frame& frame);

    /// The shard is in the job no more: nobody waits for it. `loss`: what is lost with it, which
    /// fails the tables that it has yet to make.
    void forget_shard(uint32_t shard, const Status& loss = {});

    [[nodiscard]] size_t size() const noexcept { return tables_.size(); }

    [[nodiscard]] const std::string& name(size_t table) const {
        return tables_[table].message.name;
    }

private:
    struct Entry {
        TableMessage message;
        std::set<uint32_t> asked = {};   ///< shards that have not answered yet
        bool is_made = false;            ///< all shards that were there have made it
        Errc status = Errc::kOk;         ///< not kOk: the table cannot be made
        std::string why = {};            ///< why not: the first reason, which names the shard
        std::vector<Asker> askers = {};  ///< workers that wait for the table
    };

    void send(const Entry& entry, const ShardPeer& shard);
    void answer_if_made(Entry& entry);

    Outbox& outbox_;
    std::vector<Entry> tables_;  // by number
};

}  // namespace weir

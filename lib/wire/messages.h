// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of control frames: joins, tables, leaves and counters. They are encoded field by
/// field, in the order of declaration (lib/base/byte_codec.h). decode() returns nothing if the
/// body is malformed, or has bytes left over. (Views: lib/ring/view_change.h)

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/filter_traffic.h"

namespace weir {

/// Kind::kJoin: a shard or worker joins the job.
struct JoinMessage {
    /// kOperator: a person's command. It takes no part in the job, and gets neither number nor
    /// view.
    enum class Role : uint8_t { kShard = 1, kWorker = 2, kOperator = 3 };
    Role role = Role::kWorker;
    uint32_t rank = 0;    ///< of the process in the job; for messages to people
    uint32_t number = 0;  ///< of the shard, counted through all servers, or of the worker
    std::string address;  ///< shard: where workers connect to
    uint64_t host = 0;    ///< equal for the processes of one host; means nothing else

    /// Not 0: it joins a running job. A random number, the same for all shards of a server. It has
    /// no rank and no number yet: kAdmit brings them. `number` is the shard's place in its server.
    uint64_t joiner = 0;
    uint32_t shard_count = 1;    ///< of the server that joins
    uint32_t weight = 1;         ///< of that server, as in ViewServer
    uint64_t pool_bytes = 0;     ///< that it has for parameters; 0: it does not say
    bool has_iterations = true;  ///< worker that joins: it takes part in iterations
    /// A random number, by which it proves to shards who it is: PassesMessage.
    uint64_t pass = 0;
    std::string host_name = {};  ///< shard: for people
    static constexpr size_t kHostNameBytesMax = 255;
    /// Shard that joins a running job: a PluginList (lib/store/plugins), whose bytes only the manager
    /// decodes. Empty: none.
    std::string plugins = {};
    static constexpr size_t kPluginsBytesMax = 2048;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<JoinMessage> decode(std::span<const std::byte> body);
};

/// Kind::kAdmit: a shard or worker that asked to join a running job is in it. A shard then gets the
/// tables that there are, and both get the view.
struct AdmitMessage {
    uint32_t number = 0;  ///< of the shard, or of the worker
    uint32_t rank = 0;    ///< of its process, for messages to people

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<AdmitMessage> decode(std::span<const std::byte> body);
};

/// Kind::kLink, with which a member begins a connection to the manager (lib/node/link.h). The
/// manager's answer has no body.
struct LinkMessage {
    uint64_t link = 0;      ///< a random number of the member; not 0
    uint64_t process = 0;   ///< of the life line of its process
    bool is_known = false;  ///< the manager has answered an earlier connection of the link

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<LinkMessage> decode(std::span<const std::byte> body);
};

/// Kind::kHello, with which a worker begins a connection to a shard.
struct HelloMessage {
    uint64_t pass = 0;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<HelloMessage> decode(std::span<const std::byte> body);
};

/// Kind::kHello, later: a push of `table` whose time is far from those before comes next.
struct FarTimeMessage {
    uint32_t table = 0;
    uint64_t time = 0;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<FarTimeMessage> decode(std::span<const std::byte> body);
};

/// Kind::kPasses: the passes of members, with which they joined. Shards get them before the view that
/// has these members; nobody else does. So a connection to a shard is that of the worker, or of the
/// other shard, that it says it is.
struct PassesMessage {
    struct Pass {
        bool is_shard = false;  ///< else a worker
        uint32_t number = 0;
        uint64_t pass = 0;
        friend bool operator==(const Pass&, const Pass&) = default;
    };

    static constexpr size_t kPassBytes = 13;  ///< of the body
    std::vector<Pass> passes;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<PassesMessage> decode(std::span<const std::byte> body);
};

/// Kind::kCreateTable and kOpenTable, and the replies to them. The manager does not decode
/// schemas; shards and workers do.
struct TableMessage {
    static constexpr uint32_t kTablesMax = 65536;  ///< numbers of a job, none given out twice
    static constexpr size_t kNameBytesMax = 256;
    static constexpr size_t kSchemaBytesMax = 2048;
    uint32_t table = 0;  ///< its number, given by the manager
    std::string name;
    std::string schema;  ///< bytes; see lib/store/schema_codec.h
    uint64_t closed =
        0;  ///< iterations that are closed from the beginning: it is read from a checkpoint
    uint64_t checkpoint = 0;  ///< the number of that; 0: none

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<TableMessage> decode(std::span<const std::byte> body);
};

/// Kind::kLeave: a worker is done, or gives up and says why. An empty body means that it is done, and
/// has nothing open.
struct LeaveMessage {
    static constexpr size_t kWhyBytesMax = 600;                    ///< longer text is cut off
    static constexpr size_t kWithdrawnMax = 256;                   ///< further tables are left out
    static constexpr uint64_t kIterationsMax = uint64_t{1} << 16;  ///< of one table
    Errc status = Errc::kOk;
    std::string why;

    /// Iterations of a table of which shards may not have all that the worker pushed, and will not
    /// get it any more; one entry per table, ascending.
    struct Withdrawn {
        uint32_t table = 0;
        uint64_t first_iteration = 1;
        uint64_t last_iteration = 1;
    };

    std::vector<Withdrawn> withdrawn;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<LeaveMessage> decode(std::span<const std::byte> body);
};

/// The reply to Kind::kStats: what a shard has counted since its start, and what it holds now. The manager
/// replies with `open` alone, where kBarrier stands for the barrier, if a worker waits at it.
struct StatsMessage {
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t keys_pushed = 0;
    uint64_t bytes_copied = 0;      ///< values and keys copied through a buffer of the shard
    uint64_t bytes_sent = 0;        ///< in messages, and written into workers' memory
    uint64_t bytes_received = 0;    ///< in messages, and read from workers' memory
    uint64_t keys_held = 0;         ///< keys that have a row here
    uint64_t lists_remembered = 0;  ///< key lists that may be pushed and pulled by their hash
    /// Of the shard's store pool, that of its process and NUMA node. Of the shards that share a
    /// pool only one reports this, so that sums are right; the others report 0.
    uint64_t registered_bytes = 0;
    uint64_t used_bytes = 0;   ///< of that pool, by this shard: tables, lists, fetched bytes
    uint64_t table_bytes = 0;  ///< of used_bytes, what does not come from caches

    FilterTraffic filters = {};  ///< of bodies that came, and of values of pulls that take codecs

    /// An iteration that has begun here and is not closed.
    struct OpenIteration {
        static constexpr size_t kLateMax = 16;   ///< more are not named
        static constexpr uint64_t kBarrier = 0;  ///< no iteration has this number
        uint32_t table = 0;
        uint64_t iteration = 0;
        uint32_t late_count = 0;          ///< workers of which parts are missing
        std::vector<uint32_t> late = {};  ///< the first of them

        [[nodiscard]] size_t bytes() const noexcept { return 20 + 4 * late.size(); }  ///< encoded

        void add_late(uint32_t worker) {
            if (late_count++ < kLateMax) late.push_back(worker);
        }

        friend bool operator==(const OpenIteration&, const OpenIteration&) = default;
    };

    static constexpr size_t kOpenMax = 64;  ///< more are not named
    std::vector<OpenIteration> open = {};   ///< of any table

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<StatsMessage> decode(std::span<const std::byte> body);
};

/// Kind::kComplete: the fields of LearnerReport (lib/ring/moves.h).
struct CompleteMessage {
    uint64_t first = 0;  ///< position of the segment
    uint32_t shard = 0;  ///< the learner
    uint64_t named = 0;  ///< the epoch that named it
    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<CompleteMessage> decode(std::span<const std::byte> body);
};

/// Kind::kFirstIteration from the manager: the question for some tables. The answers are one
/// FirstIterationMessage for each of them. Without tables: the last question is given up.
struct AskFirstIterationMessage {
    static constexpr size_t kTablesMax = 512;  ///< of one message; for more there are more of them
    uint64_t epoch = 0;
    std::vector<uint32_t> tables;
    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<AskFirstIterationMessage> decode(
        std::span<const std::byte> body);
};

/// Kind::kFirstIteration from a shard: it closes no iteration of the table from `first` on before
/// its next view. `epoch` is that of the question.
struct FirstIterationMessage {
    uint64_t epoch = 0;
    uint32_t table = 0;
    uint64_t first = 0;
    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<FirstIterationMessage> decode(
        std::span<const std::byte> body);
};

/// The text in the body of a kShutdown, or of a reply that reports an error.
[[nodiscard]] std::vector<std::byte> encode_text(std::string_view text);
[[nodiscard]] std::optional<std::string> decode_text(std::span<const std::byte> body);

}  // namespace weir

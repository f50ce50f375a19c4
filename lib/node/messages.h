// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of control frames: who joins, who serves what, which tables there are. Encoded field
/// by field in the order in which they stand here (lib/base/byte_codec.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/ring/assignment.h"

namespace weir {

/// Kind::kJoin: a shard or a worker tells the manager who it is.
struct JoinMessage {
    enum class Role : uint8_t { kShard = 1, kWorker = 2 };
    Role role = Role::kWorker;
    uint32_t rank = 0;    ///< of the process in the job, for people
    uint32_t number = 0;  ///< of the shard through all servers, or of the worker
    std::string address;  ///< shard: where workers connect to

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<JoinMessage> decode(std::span<const std::byte> body);
};

/// Kind::kAssignment: the epoch, the ring, and where its shards listen. A job of many shards takes
/// several of these, in order (lib/node/assignment_parts.h); all but the shards are alike in them.
struct AssignmentMessage {
    struct Shard {
        uint32_t rank = 0;
        std::string address;
        friend bool operator==(const Shard&, const Shard&) = default;
    };

    uint32_t epoch = 0;
    RingShape shape;
    uint32_t worker_count = 0;
    uint32_t first = 0;         ///< number of shards[0]
    std::vector<Shard> shards;  ///< at least one, and no more than `shape` has from `first` on

    /// Through all servers.
    [[nodiscard]] uint64_t shard_count() const noexcept {
        return uint64_t{shape.server_count} * shape.shards_per_server;
    }

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<AssignmentMessage> decode(std::span<const std::byte> body);
};

/// Kind::kCreateTable and kOpenTable, and the replies to them. The manager compares schemas as
/// bytes and understands none of them: shards and workers do.
struct TableMessage {
    static constexpr uint32_t kTablesMax = 65536;  ///< of a job
    static constexpr size_t kNameBytesMax = 256;
    static constexpr size_t kSchemaBytesMax = 2048;
    uint32_t table = 0;  ///< its number, given by the manager
    std::string name;
    std::string schema;  ///< bytes; see lib/node/schema_codec.h

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<TableMessage> decode(std::span<const std::byte> body);
};

/// Kind::kLeave: a worker is done, or gives up and says why. An empty body is a worker that is
/// done.
struct LeaveMessage {
    static constexpr size_t kWhyBytesMax = 600;  ///< longer words are cut off
    Errc status = Errc::kOk;
    std::string why;

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<LeaveMessage> decode(std::span<const std::byte> body);
};

/// Kind::kStats, the reply: what a shard has counted since its start.
struct StatsMessage {
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t keys_pushed = 0;
    uint64_t bytes_copied = 0;    ///< values and keys that went through a buffer of ours
    uint64_t bytes_sent = 0;      ///< messages, and what it wrote into workers' memory
    uint64_t bytes_received = 0;  ///< messages, and what it read there
    uint64_t keys_held = 0;
    uint64_t lists_remembered = 0;  ///< key lists that may be pushed and pulled by their hash
    /// Of the store pool of its process and NUMA node; shards that share one: told by the first.
    uint64_t registered_bytes = 0;
    uint64_t used_bytes = 0;  ///< of store pools, by this shard: tables, lists, what it fetches

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<StatsMessage> decode(std::span<const std::byte> body);
};

/// The text of a kShutdown or of an error's reply.
[[nodiscard]] std::vector<std::byte> encode_text(std::string_view text);
[[nodiscard]] std::optional<std::string> decode_text(std::span<const std::byte> body);

}  // namespace weir

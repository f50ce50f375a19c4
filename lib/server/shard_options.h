// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardOptions: what a shard is told when it begins.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/checkpoint/disk_queue.h"
#include "lib/node/lease_line.h"
#include "lib/node/manager_link.h"
#include "lib/replication/streams.h"

namespace weir {

/// How a shard joins a running job: what all shards of its server say alike.
struct ShardJoin {
    uint64_t joiner = 0;  ///< a random number, by which they find together; not 0
    uint32_t shard_count = 1;
    uint32_t weight = 1;      ///< of the server, as in ViewServer
    uint64_t pool_bytes = 0;  ///< of the server
    std::string plugins{};    ///< JoinMessage::plugins
};

struct ShardOptions {
    uint32_t number = 0;  ///< counted through all servers; one that joins: its place in its server
    uint32_t rank = 0;    ///< of its process in the job; for messages to people
    std::optional<ShardJoin> join = {};  ///< none: it begins with the job
    uint64_t host = 0;                   ///< equal for the processes of one host
    std::string host_name{};             ///< for people
    std::string manager_address;
    LinkIdentity link = {};  ///< of the link to the manager
    /// That of its server. None: it never needs one.
    std::shared_ptr<const ServerLease> lease = nullptr;
    /// For checkpoints. None: it writes and reads none.
    std::shared_ptr<checkpoint::DiskQueue> disk = nullptr;
    /// That of the job's checkpoints, for errors. Empty: none, or not known.
    std::string checkpoint_folder = {};
    LendingOptions lending{};  ///< to backups; its memory outlives the shard
    /// Of what an iteration may change where there are backups.
    size_t change_bytes_max = Streams::kChangeBytesMax;
    size_t fetch_bytes_max = size_t{64} << 20;  ///< of requests whose bytes are read or written
    /// Limit of the remembered key lists of all tables together: this shard's part of what its
    /// pool may spend on such lists.
    size_t list_cache_bytes = size_t{256} << 20;
    /// Limit of one worker's requests that wait: for each, a few hundred bytes and the keys and
    /// values in its message. Half of it is for those that wait for an iteration. Beyond it (8,000
    /// full messages), the reply to requests is kBusy.
    size_t waiting_bytes_max = size_t{64} << 20;
    /// Of what peers must not predict: how keys are spread, what cursors of scans say, and its pass.
    /// None: drawn at random. Only simulations that are to be repeated name one.
    std::optional<uint64_t> secret_seed = {};
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a client is told when it is made, and what it counts.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/node/manager_link.h"
#include "lib/wire/filter_traffic.h"

namespace weir {

struct ClientCoreOptions {
    uint32_t worker = 0;  ///< number in the job
    uint32_t rank = 0;    ///< of this process; the manager gets it
    /// Not 0: the worker joins a running job, which gives it number and rank. Any other number.
    uint64_t joiner = 0;
    bool has_iterations = true;  ///< a worker that joins: it takes part in iterations
    std::string manager_address;
    LinkIdentity link = {};  ///< of the link to the manager
    /// To which the job writes checkpoints, as its user named it; empty: to none, or that is not known here.
    std::string checkpoint_folder = {};
    uint64_t join_timeout_ns = 35 * kSecond;
    uint64_t deadline_ns = 30 * kSecond;  ///< of a call, from when it is sent
    /// Limit for remembered routes: this client's share of what caches may take of its pool.
    size_t route_cache_bytes = size_t{256} << 20;
    /// Up to this many bytes of keys or values go in the message to a shard that would otherwise
    /// have to READ them: copying them costs less than a network round trip.
    size_t eager_bytes = 4096;
    /// So many bytes of values at least go through codecs: what fewer may become is not worth its head.
    size_t encoded_bytes_min = 256;
    /// What it makes its pass of (PassesMessage); none: drawn at random.
    std::optional<uint64_t> secret_seed = {};
};

struct ClientCounters {
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t requests = 0;
    uint64_t bytes_copied = 0;  ///< values and keys that were copied into or out of our buffers
    uint64_t errors_lost = 0;   ///< of calls whose outcome nobody has asked for
    FilterTraffic filters;
};

}  // namespace weir

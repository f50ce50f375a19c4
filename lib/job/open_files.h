// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How many files (sockets, mostly) a process's part in a job needs to have open.

#include <cstdint>

#include "lib/base/result.h"
#include "lib/job/devices.h"
#include "lib/job/roles.h"

namespace weir {

/// For processes that join later, and for the program itself.
inline constexpr uint64_t kSpareFiles = 4096;

struct OpenFilesPlan {
    uint32_t replicas = 0;
    uint32_t shards_per_server = 1;
    uint32_t managers = 1;     ///< of the job
    uint32_t transports = 1;   ///< of this process
    bool maps_memory = false;  ///< one of the transports is shm
};

/// What ranks that begin the job need, without those that join it later. Each connection is one
/// descriptor, and each process that is reached over shm another one; each endpoint (of a shard, a
/// worker, a manager or a process) has five and one for each transport. Within a process shm needs
/// none for connections.
[[nodiscard]] uint64_t needed_open_files(const Roles& roles, const OpenFilesPlan& plan) noexcept;

/// Raises the limit of this process to what it needs, and to kSpareFiles more if it may.
/// Errors: those of reserve_open_files()
[[nodiscard]] Status reserve_files(const JobOptions& options, const Roles& roles,
                                   const Devices& devices);

}  // namespace weir

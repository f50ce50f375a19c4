// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the operating system lets this process have: locked memory (RDMA pins what it registers),
/// memory, shared memory, open files; and the words that tell a person how to get more.

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

inline constexpr uint64_t kUnlimited = ~uint64_t{0};

struct LockedMemoryLimit {
    uint64_t soft_bytes = 0;  ///< RLIMIT_MEMLOCK, or kUnlimited
    uint64_t hard_bytes = 0;
    uint64_t pinned_bytes = 0;             ///< counted by RDMA drivers for this process so far
    bool may_lock_all = false;             ///< CAP_IPC_LOCK: the limit does not apply
    uint64_t room_bytes() const noexcept;  ///< what may still be registered; kUnlimited if all
};

[[nodiscard]] LockedMemoryLimit locked_memory_limit();

/// What to type so that `wanted_bytes` more than `limit.pinned_bytes` may be locked, with the exact
/// number: "ulimit -l 1048576".
[[nodiscard]] std::string locked_memory_advice(const LockedMemoryLimit& limit,
                                               uint64_t wanted_bytes);

struct OpenFilesLimit {
    uint64_t soft_count = 0;
    uint64_t hard_count = 0;
    uint64_t open_count = 0;
};

[[nodiscard]] OpenFilesLimit open_files_limit();

/// The machine's memory, as its kernel has it; 0 if it does not say. NUMA nodes' figures need not
/// add up to it: where memory is plugged in and out they follow it late. `root` as below.
[[nodiscard]] uint64_t machine_memory_bytes(std::string_view root = "");

/// Memory that can be taken without swapping: the machine's, or what the tightest control group
/// above this process leaves. `root` is "" or the folder that stands for / in a test.
[[nodiscard]] uint64_t available_memory_bytes(std::string_view root = "");

/// Free space of /dev/shm, which other programs' shared memory needs; 0 if there is none. Ours is
/// anonymous (memfd) and needs memory only.
[[nodiscard]] uint64_t dev_shm_free_bytes();

/// "1.5 GiB", "64 MiB", "4 KiB", "17 bytes": exact if it can be said in whole units, else with one
/// decimal.
[[nodiscard]] std::string bytes_text(uint64_t bytes);

}  // namespace weir

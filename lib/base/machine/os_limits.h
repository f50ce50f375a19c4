// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Limits of the operating system for this process: locked memory (RDMA pins what it registers),
/// memory, shared memory and open files; and the texts that tell a person how to raise them.

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir {

inline constexpr uint64_t kUnlimited = ~uint64_t{0};

struct LockedMemoryLimit {
    uint64_t soft_bytes = 0;  ///< RLIMIT_MEMLOCK, or kUnlimited
    uint64_t hard_bytes = 0;
    uint64_t pinned_bytes = 0;  ///< pinned for this process by RDMA drivers so far (VmPin)
    bool may_lock_all = false;  ///< CAP_IPC_LOCK: the limit does not apply
    uint64_t room_bytes()
        const noexcept;  ///< may still be registered; kUnlimited if no limit applies
};

[[nodiscard]] LockedMemoryLimit locked_memory_limit();

/// Tells a person what to type so that `wanted_bytes` more than `limit.pinned_bytes` may be
/// locked, with the exact number: "ulimit -l 1048576".
[[nodiscard]] std::string locked_memory_advice(const LockedMemoryLimit& limit,
                                               uint64_t wanted_bytes);

struct OpenFilesLimit {
    uint64_t soft_count = 0;
    uint64_t hard_count = 0;
    uint64_t open_count = 0;
};

[[nodiscard]] OpenFilesLimit open_files_limit();

/// Raises the soft limit of open files, if that is lower, so that this process may have `needed`
/// more than it has, and `spare` more as far as the hard limit allows.
/// Errors: kUnavailable if the hard limit allows not even what is needed; says how to raise it
[[nodiscard]] Status reserve_open_files(uint64_t needed, uint64_t spare);

/// Opens /dev/null as those of the descriptors 0 to 2 that are closed (a daemon's, or `2>&-`). Call it
/// before any other descriptor is opened: one that gets the number of a standard stream gets
/// what is printed there, too.
void open_standard_streams() noexcept;

/// The machine's memory as its kernel reports it; 0 if unknown. The figures of the NUMA nodes
/// need not add up to it: after memory was added or removed they follow late. `root` is "" or, in
/// a test, the folder that stands for /.
[[nodiscard]] uint64_t machine_memory_bytes(std::string_view root = "");

/// Memory that can be taken without swapping: the machine's, or less where a control group of
/// this process leaves less. Of a control group's limit a sixteenth, 64 MiB at most, is left over: at
/// the limit the kernel ends the process, for whatever page it touches next. `root` as above.
[[nodiscard]] uint64_t available_memory_bytes(std::string_view root = "");

/// Free space of /dev/shm; 0 if there is none. Other programs' shared memory needs it; Weir's is
/// anonymous (memfd) and does not.
[[nodiscard]] uint64_t dev_shm_free_bytes();

/// "1.5 GiB", "64 MiB", "4 KiB", "17 bytes": exact if it is a whole number of units, else with
/// one decimal.
[[nodiscard]] std::string bytes_text(uint64_t bytes);

}  // namespace weir

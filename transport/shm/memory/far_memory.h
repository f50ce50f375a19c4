// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Copies memory between this process and another one of the same user through the kernel
/// (process_vm_readv), for memory that is not in a memfd.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include <sys/types.h>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport::shm {

/// The process at the other end of a socket. It is not confused with a later process that gets
/// the same pid.
class FarProcess {
public:
    FarProcess() = default;

    /// Returns: kOk; kUnavailable (not permitted, or another PID namespace); kOutOfRange (nothing
    ///         is mapped there); kPeerLost
    [[nodiscard]] Errc read(std::span<std::byte> into, uint64_t from_address) const noexcept;
    [[nodiscard]] Errc write(std::span<const std::byte> from, uint64_t to_address) const noexcept;

    /// Sends SIGKILL. Returns whether that was permitted.
    [[nodiscard]] bool kill() const noexcept;

    [[nodiscard]] bool opened() const noexcept { return pidfd_ != nullptr; }

    /// Readable once the process has ended; -1 if not opened().
    [[nodiscard]] int descriptor() const noexcept { return pidfd_ ? pidfd_->get() : -1; }

private:
    friend class FarProcesses;

    FarProcess(pid_t pid, std::shared_ptr<const Descriptor> pidfd) noexcept
        : pid_(pid), pidfd_(std::move(pidfd)) {}

    template <auto Call>
    [[nodiscard]] Errc move(std::byte* here, size_t length_bytes, uint64_t there) const noexcept;

    pid_t pid_ = 0;
    std::shared_ptr<const Descriptor> pidfd_;
};

/// The processes at the other ends of a device's connections: a descriptor for each process, not
/// for each connection. Thread: any.
class FarProcesses {
public:
    /// `socket` is connected to the process `pid`. Not opened(): it has ended, or cannot be seen.
    [[nodiscard]] FarProcess find(pid_t pid, int socket);

private:
    std::mutex mutex_;
    std::unordered_map<pid_t, std::weak_ptr<const Descriptor>> known_;
};

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Copies between this process and another one of the same user through the kernel, for memory that
/// is in no memfd (process_vm_readv).

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport::shm {

/// A process at the other end of a socket, which stays the same one even if its number is reused.
class FarProcess {
public:
    FarProcess() = default;

    /// `socket` is connected to the process `pid` names.
    FarProcess(pid_t pid, int socket) noexcept;

    /// kOk; kUnavailable (not permitted, or another PID namespace); kOutOfRange (nothing is mapped
    /// there); kPeerLost
    [[nodiscard]] Errc read(std::span<std::byte> into, uint64_t from_address) const noexcept;
    [[nodiscard]] Errc write(std::span<const std::byte> from, uint64_t to_address) const noexcept;

    [[nodiscard]] bool opened() const noexcept { return static_cast<bool>(pidfd_); }

    /// Readable once the process has ended; -1 if it is not opened().
    [[nodiscard]] int descriptor() const noexcept { return pidfd_.get(); }

private:
    template <auto Call>
    [[nodiscard]] Errc move(std::byte* here, size_t length_bytes, uint64_t there) const noexcept;

    pid_t pid_ = 0;
    Descriptor pidfd_;
};

}  // namespace weir::transport::shm

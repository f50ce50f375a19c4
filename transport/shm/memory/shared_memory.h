// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Mapping, and the memfds that processes pass to each other. They are sealed, so that no process
/// can shrink them while another one uses them, and wholly allocated, so that lack of memory is
/// an error here and not a SIGBUS later.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport::shm {

/// Mapped memory with one owner.
class Mapping {
public:
    Mapping() = default;
    /// `bytes` lies in [base, base + base_bytes), which the destructor unmaps.
    Mapping(void* base, size_t base_bytes, std::span<std::byte> bytes) noexcept;
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

    [[nodiscard]] explicit operator bool() const noexcept { return base_ != nullptr; }

private:
    void* base_ = nullptr;
    size_t base_bytes_ = 0;
    std::span<std::byte> bytes_;
};

/// A memfd that this process made, with its mapping.
struct SharedBlock {
    Descriptor fd;
    Mapping mapping;
};

enum class Peers : uint8_t {
    kMayWrite,
    kMayOnlyRead,  ///< from Linux 5.1 on: later mappings cannot be writable
};

/// Makes zeroed shared memory. `what_for` goes into the error.
/// Errors: kNoMemory (the text says what to do), kUnavailable (the kernel cannot seal memory)
[[nodiscard]] Result<SharedBlock> make_shared(uint64_t length_bytes, Peers peers,
                                              std::string_view what_for);

/// Makes zeroed memory for this process only; pages are allocated on first use. Errors: kNoMemory
[[nodiscard]] Result<Mapping> make_private(uint64_t length_bytes, std::string_view what_for);

[[nodiscard]] bool sealed_against_shrinking(int fd) noexcept;

struct ReceivedBlock {
    int fd = -1;
    uint64_t offset_bytes = 0;
    uint64_t length_bytes = 0;
    bool writable = false;
    bool populate = false;  ///< allocate and map all pages now
};

/// Maps memory that a peer passed to us, after checking it.
/// Errors: kProtocol (not sealed against shrinking, too short); kNoMemory; kIo
[[nodiscard]] Result<Mapping> map_received(const ReceivedBlock& block);

}  // namespace weir::transport::shm

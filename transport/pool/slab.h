// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Slab: one stretch of anonymous shared memory (a memfd that can no longer change its size), from
/// the largest pages that there are, on one NUMA node. All of it has an address from the start, so
/// that devices and peers need to hear of it only once. Memory is behind the front part of it,
/// backed(), which extend() makes longer. Lack of memory is thus an error here, and not a SIGBUS
/// for whoever touches a page later.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.h"

namespace weir::transport {

enum class HugePagePolicy : uint8_t {
    kAuto,    ///< 1 GiB pages, else 2 MiB, else the normal ones, transparently huge if allowed
    kNever,   ///< normal pages, not even transparently huge
    kAlways,  ///< huge pages that were set aside, or an error
};

inline constexpr int kAnyNode = -1;

struct SlabOptions {
    std::string name;         ///< for people: /proc/PID/maps and messages
    uint64_t size_bytes = 0;  ///< rounded up to whole pages
    int numa_node = kAnyNode;
    HugePagePolicy huge_pages = HugePagePolicy::kAuto;
    bool prefault = false;  ///< fill in the page table too, so that the first touch costs nothing
    /// How much of it is backed at once; the rest is left to extend(). Huge pages that were set
    /// aside, and what is to be touched at once, is backed as a whole.
    uint64_t backed_bytes = ~uint64_t{0};
};

/// Move-only. Thread: any, one at a time.
class Slab {
public:
    /// Errors: kNoMemory (memory, shared memory, address space or huge pages: the text has what to
    /// do)
    [[nodiscard]] static Result<Slab> make(const SlabOptions& options);

    Slab(Slab&& other) noexcept;
    Slab& operator=(Slab&& other) noexcept;
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;
    ~Slab();

    /// Takes memory for the next `bytes` (as far as the slab goes, in whole pages).
    /// Errors: kNoMemory, as make(); nothing has changed
    [[nodiscard]] Status extend(uint64_t bytes);

    [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

    /// The front part of memory() that may be used.
    [[nodiscard]] std::span<std::byte> backed() const noexcept {
        return memory_.first(backed_bytes_);
    }

    [[nodiscard]] int fd() const noexcept { return fd_; }

    [[nodiscard]] uint64_t page_bytes() const noexcept { return page_bytes_; }

    /// What is not as it was wanted ("NUMA node 1: ..."), for people; mostly empty.
    [[nodiscard]] const std::string& note() const noexcept { return note_; }

private:
    Slab() = default;
    [[nodiscard]] static Result<Slab> make_with_pages(const SlabOptions& options,
                                                      uint64_t page_bytes);
    [[nodiscard]] Status open(const SlabOptions& options, uint64_t size_bytes);
    [[nodiscard]] Status map(const SlabOptions& options);
    [[nodiscard]] Status back(uint64_t bytes);
    void touch() const;

    std::string name_;
    std::span<std::byte> memory_;
    uint64_t backed_bytes_ = 0;
    int fd_ = -1;
    uint64_t page_bytes_ = 0;
    std::string note_;
};

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Slab: one stretch of memory, of the largest pages available, on one NUMA node. It is shared
/// memory (a memfd of fixed size) where peers reach it, and private memory where they do not: many
/// kernels give transparently huge pages only to the latter. Its addresses are taken from the
/// start, so that devices and peers learn them only once. Only the front part, backed(), has
/// memory; extend() makes it longer. So lack of memory is an error here, and neither a SIGBUS nor
/// the end of the process when a page is first touched.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.h"

namespace weir::transport {

enum class HugePagePolicy : uint8_t {
    kAuto,    ///< 1 GiB pages, else 2 MiB, else normal, transparently huge if allowed
    kNever,   ///< normal pages, not even transparently huge
    kAlways,  ///< huge pages that were set aside, or an error
};

inline constexpr int kAnyNode = -1;

struct SlabOptions {
    std::string name;         ///< for people: /proc/PID/maps and messages
    uint64_t size_bytes = 0;  ///< rounded up to whole pages
    int numa_node = kAnyNode;
    HugePagePolicy huge_pages = HugePagePolicy::kAuto;
    bool shared = true;             ///< false: private memory, which a forked child does not have
    bool others_only_read = false;  ///< other processes cannot map it for writing
    /// Fill in the page table of what is backed, so that the first touch costs nothing. Private
    /// memory always does.
    bool prefault = false;
    /// How much of it is backed at once; extend() does the rest. With reserved huge pages all of
    /// it is backed at once.
    uint64_t backed_bytes = ~uint64_t{0};
};

/// Move-only. Thread: any, one at a time.
class Slab {
public:
    /// Errors:  kNoMemory (memory, shared memory, address space or huge pages: the text has what
    ///          to do)
    [[nodiscard]] static Result<Slab> make(const SlabOptions& options);

    Slab(Slab&& other) noexcept;
    Slab& operator=(Slab&& other) noexcept;
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;
    ~Slab();

    /// Backs the next `bytes`, in whole pages, at most up to the end of the slab.
    /// Errors:  kNoMemory, as make(); nothing has changed then
    [[nodiscard]] Status extend(uint64_t bytes);

    [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

    /// The front part of memory() that may be used.
    [[nodiscard]] std::span<std::byte> backed() const noexcept {
        return memory_.first(backed_bytes_);
    }

    /// -1 if the memory is private.
    [[nodiscard]] int fd() const noexcept { return fd_; }

    /// Of the pages that it surely has. Transparently huge ones come and go.
    [[nodiscard]] uint64_t page_bytes() const noexcept { return page_bytes_; }

    /// What differs from the options ("NUMA node 1: ..."), for people; usually empty.
    [[nodiscard]] const std::string& note() const noexcept { return note_; }

private:
    Slab() = default;
    [[nodiscard]] static Result<Slab> make_with_pages(const SlabOptions& options,
                                                      uint64_t page_bytes);
    [[nodiscard]] Status open(const SlabOptions& options, uint64_t size_bytes);
    [[nodiscard]] Status map(const SlabOptions& options);
    [[nodiscard]] Status seal(const SlabOptions& options) const;
    [[nodiscard]] Status back(uint64_t bytes);
    [[nodiscard]] int back_shared(uint64_t bytes) const;
    [[nodiscard]] int back_private(uint64_t bytes) const;
    [[nodiscard]] int touch(uint64_t bytes) const;

    std::string name_;
    std::span<std::byte> memory_;
    uint64_t backed_bytes_ = 0;
    int fd_ = -1;
    bool prefault_ = false;
    uint64_t page_bytes_ = 0;
    std::string note_;
};

}  // namespace weir::transport

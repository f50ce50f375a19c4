// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pages: memory that the kernel has ready before it is used, and memory that begins at a page.

#include <cstddef>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace weir {

/// What a disk wants the address, the offset and the length of a direct transfer to be a multiple of,
/// if not less; the size of a page, or a part of it.
inline constexpr size_t kPageBytes = 4096;

/// Has the kernel find the pages of `memory` now, all at once, and not each one when it is touched
/// first, which takes many times as long. What is in them stays. Does nothing where it cannot.
void populate(std::span<std::byte> memory) noexcept;

/// The same for memory that is used from its beginning on, up to `end` now, in steps of a few pages: who
/// waits for one step hardly notices, and more at once would cost as much a page. `populated`: what this
/// returned for the same memory before, or 0.
[[nodiscard]] size_t populate_up_to(std::span<std::byte> memory, size_t end,
                                    size_t populated) noexcept;

/// As std::allocator, but what it gives begins at a page, and is not zeroed.
template <class T>
struct PageAllocator {
    using value_type = T;

    PageAllocator() = default;

    template <class Other>
    PageAllocator(const PageAllocator<Other>&) noexcept {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] T* allocate(size_t count) {
        return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kPageBytes}));
    }

    void deallocate(T* at, size_t /*count*/) noexcept {
        ::operator delete (at, std::align_val_t{kPageBytes});
    }

    template <class U>
    void construct(U* at) noexcept {
        ::new (static_cast<void*>(at)) U;
    }

    template <class U, class... From>
    void construct(U* at, From&&... from) {
        ::new (static_cast<void*>(at)) U(std::forward<From>(from)...);
    }

    friend bool operator==(const PageAllocator&, const PageAllocator&) noexcept { return true; }
};

/// A disk can read it without a copy. Bytes that are not given a value have any.
using PageBytes = std::vector<std::byte, PageAllocator<std::byte>>;

}  // namespace weir

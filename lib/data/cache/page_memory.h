// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PageMemory: zeroed memory that goes back to the system at once when it is freed, so that a limit of
/// resident memory is kept. (malloc() keeps what is freed.)

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include <sys/mman.h>

namespace weir::data {

class PageMemory {
public:
    PageMemory() = default;

    /// Throws std::bad_alloc.
    explicit PageMemory(size_t bytes) : bytes_(bytes) {
        if (bytes == 0) return;
        void* const made =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<std::byte*>(made);
        (void)::madvise(data_, bytes, MADV_HUGEPAGE);  // fewer faults; only whole ones inside
    }

    PageMemory(PageMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

    PageMemory& operator=(PageMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    PageMemory(const PageMemory&) = delete;
    PageMemory& operator=(const PageMemory&) = delete;

    ~PageMemory() {
        if (data_ != nullptr) ::munmap(data_, bytes_);
    }

    /// What lies in the bytes that stay remains. Throws std::bad_alloc, and changes nothing then.
    void resize(size_t bytes) {
        if (bytes_ == 0 || bytes == 0) {
            *this = PageMemory(bytes);
            return;
        }
        void* const moved = ::mremap(data_, bytes_, bytes, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<std::byte*>(moved);
        bytes_ = bytes;
    }

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }

    /// `count` numbers from a byte on that is aligned for them.
    template <class T>
    [[nodiscard]] std::span<T> list(uint64_t begin_byte, uint64_t count) const noexcept {
        return {reinterpret_cast<T*>(data_ + begin_byte), count};
    }

private:
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace weir::data

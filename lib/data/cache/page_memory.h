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
#include <unistd.h>

namespace weir::data {

/// TSan does not know that memory which one thread has given back to the system, and another one has got from it, is no
/// longer the same: with it, memory comes from malloc().
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHasPages = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kHasPages = false;
#else
inline constexpr bool kHasPages = true;
#endif
#else
inline constexpr bool kHasPages = true;
#endif

class PageMemory {
public:
    PageMemory() = default;

    /// Throws std::bad_alloc.
    explicit PageMemory(size_t bytes) : bytes_(bytes) {
        if (bytes == 0) return;
        if constexpr (!kHasPages) {
            data_ = new std::byte[bytes]{};
            return;
        }
        void* const made =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<std::byte*>(made);
        (void)::madvise(data_, bytes, MADV_HUGEPAGE);  // fewer faults; only whole ones inside
    }

    PageMemory(PageMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

    PageMemory& operator=(PageMemory&& other) noexcept {
        PageMemory old(std::move(*this));  // goes at once
        data_ = std::exchange(other.data_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
        return *this;
    }

    PageMemory(const PageMemory&) = delete;
    PageMemory& operator=(const PageMemory&) = delete;

    ~PageMemory() {
        if (data_ == nullptr) return;
        if constexpr (kHasPages) {
            ::munmap(data_, bytes_);
        } else {
            delete[] data_;
        }
    }

    /// What it had may be lost. Throws std::bad_alloc.
    void resize(size_t bytes) {
        const auto page = static_cast<size_t>(::getpagesize());
        const auto whole_pages = [page](size_t some) { return (some + page - 1) / page * page; };
        if (!kHasPages || bytes == 0 || bytes > whole_pages(bytes_)) {
            *this = PageMemory();
            *this = PageMemory(bytes);
            return;
        }
        const size_t kept = whole_pages(bytes);
        if (whole_pages(bytes_) > kept) ::munmap(data_ + kept, whole_pages(bytes_) - kept);
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

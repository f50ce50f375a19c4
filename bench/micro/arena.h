// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Arena: memory for benchmarks. It is touched beforehand, and in huge pages if there are any, so
/// that a benchmark does not measure the first touch. Weir and the limits use the same kind of
/// memory.

#include <cstddef>
#include <cstring>

#include <sys/mman.h>

#include "lib/base/check.h"
#include "lib/store/memory.h"

namespace weir::bench {

/// Hands out pieces of its memory one after another; reset() frees all of them. Thread: one.
class Arena final : public Memory {
public:
    explicit Arena(size_t bytes) : bytes_(bytes) {
        void* data =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        WEIR_CHECK(data != MAP_FAILED);
        madvise(data, bytes, MADV_HUGEPAGE);
        data_ = static_cast<std::byte*>(data);
        std::memset(data_, 1, bytes);
    }

    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    ~Arena() override { munmap(data_, bytes_); }

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        const size_t begin = (used_ + alignment - 1) / alignment * alignment;
        if (begin > bytes_ || bytes > bytes_ - begin) return nullptr;
        used_ = begin + bytes;
        return static_cast<std::byte*>(std::memset(data_ + begin, 0, bytes));
    }

    void deallocate(std::byte* data, size_t bytes, size_t) noexcept override {
        if (data + bytes == data_ + used_) used_ -= bytes;  // frees the last piece only
    }

    template <class T>
    [[nodiscard]] T* array(size_t count) noexcept {
        auto* data = allocate(count * sizeof(T), size_t{2} << 20);
        WEIR_CHECK(data != nullptr);
        return reinterpret_cast<T*>(data);
    }

    void reset() noexcept { used_ = 0; }

private:
    std::byte* data_ = nullptr;
    size_t bytes_;
    size_t used_ = 0;
};

}  // namespace weir::bench

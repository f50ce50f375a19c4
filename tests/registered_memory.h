// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RegisteredMemory: heap memory of which every piece is registered with a device, as that of a
/// pool is. It counts what it hands out and can be short. Large pieces come from the kernel, as zeros
/// that cost nothing until they are touched: filling them was a third of the time of random histories.

#include <algorithm>
#include <cstring>
#include <map>

#include <sys/mman.h>

#include "lib/store/memory.h"
#include "tests/sanitizers.h"
#include "transport/transport.h"

namespace weir::testing {

/// Frees what is left at its end, which must come before that of the device. Thread: one.
class RegisteredMemory final : public Memory {
public:
    RegisteredMemory(transport::Device& device, transport::Access access,
                     size_t limit_bytes = ~size_t{0})
        : device_(device), access_(access), limit_bytes_(limit_bytes) {}

    ~RegisteredMemory() override {
        while (!pieces_.empty()) {
            const auto [memory, piece] = *pieces_.begin();
            deallocate(memory, piece.bytes, piece.alignment);
        }
    }

    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        if (bytes > limit_bytes_ || bytes_in_use_ > limit_bytes_ - bytes) return nullptr;
        std::byte* const memory = is_large(bytes) ? map(bytes) : heap_.allocate(bytes, alignment);
        if (memory == nullptr) return nullptr;
        pieces_[memory] = {*device_.register_memory({{memory, bytes}, -1, 0}, access_), bytes,
                           alignment};
        ++allocations_;
        bytes_in_use_ += bytes;
        bytes_in_use_max_ = std::max(bytes_in_use_max_, bytes_in_use_);
        return memory;
    }

    void deallocate(std::byte* memory, size_t bytes, size_t alignment) noexcept override {
        if (memory == nullptr) return;
        device_.deregister_memory(pieces_.at(memory).region);
        pieces_.erase(memory);
        if (is_large(bytes)) {
            (void)::munmap(memory, bytes);  // whoever still reads it ends
        } else {
            std::memset(memory, 0xa5, bytes);  // whoever still reads it sees that
            heap_.deallocate(memory, bytes, alignment);
        }
        bytes_in_use_ -= bytes;
        ++deallocations_;
    }

    /// From now on; what is in use stays.
    [[nodiscard]] MemoryUse use() const override { return {0, bytes_in_use_}; }

    void set_limit(size_t limit_bytes) noexcept { limit_bytes_ = limit_bytes; }

    [[nodiscard]] size_t bytes_in_use() const noexcept { return bytes_in_use_; }

    [[nodiscard]] size_t bytes_in_use_max() const noexcept { return bytes_in_use_max_; }

    [[nodiscard]] size_t allocations() const noexcept { return allocations_; }

    [[nodiscard]] size_t deallocations() const noexcept { return deallocations_; }

private:
    struct Piece {
        transport::RegionId region = 0;
        size_t bytes = 0;
        size_t alignment = 0;
    };

    /// A sanitizer watches the heap only.
    [[nodiscard]] static bool is_large(size_t bytes) noexcept {
        return !kHasSanitizer && bytes >= size_t{32} << 10;
    }

    [[nodiscard]] static std::byte* map(size_t bytes) noexcept {
        void* const memory =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
    }

    transport::Device& device_;
    transport::Access access_;
    size_t limit_bytes_;
    size_t bytes_in_use_ = 0;
    HeapMemory heap_;
    std::map<std::byte*, Piece> pieces_;
    size_t bytes_in_use_max_ = 0;
    size_t allocations_ = 0;
    size_t deallocations_ = 0;
};

}  // namespace weir::testing

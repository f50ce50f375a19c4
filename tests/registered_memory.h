// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RegisteredMemory: heap memory of which every piece is registered with a device, as that of a
/// pool is. It counts what it hands out and can be short.

#include <algorithm>
#include <cstring>
#include <map>

#include "lib/store/memory.h"
#include "transport/transport.h"

namespace weir::testing {

/// Frees what is left at its end, which must come before that of the device. Thread: one.
class RegisteredMemory final : public Memory {
public:
    RegisteredMemory(transport::Device& device, transport::Access access,
                     size_t limit_bytes = ~size_t{0})
        : device_(device), access_(access), heap_(limit_bytes) {}

    ~RegisteredMemory() override {
        while (!pieces_.empty()) {
            const auto [memory, piece] = *pieces_.begin();
            deallocate(memory, piece.bytes, piece.alignment);
        }
    }

    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        std::byte* const memory = heap_.allocate(bytes, alignment);
        if (memory == nullptr) return nullptr;
        pieces_[memory] = {*device_.register_memory({{memory, bytes}, -1, 0}, access_), bytes,
                           alignment};
        ++allocations_;
        bytes_in_use_max_ = std::max(bytes_in_use_max_, heap_.bytes_in_use());
        return memory;
    }

    void deallocate(std::byte* memory, size_t bytes, size_t alignment) noexcept override {
        if (memory == nullptr) return;
        device_.deregister_memory(pieces_.at(memory).region);
        pieces_.erase(memory);
        std::memset(memory, 0xa5, bytes);  // whoever still reads it sees that
        heap_.deallocate(memory, bytes, alignment);
        ++deallocations_;
    }

    /// From now on; what is in use stays.
    [[nodiscard]] MemoryUse use() const override { return {0, heap_.bytes_in_use()}; }

    void set_limit(size_t limit_bytes) noexcept { heap_.set_limit(limit_bytes); }

    [[nodiscard]] size_t bytes_in_use() const noexcept { return heap_.bytes_in_use(); }

    [[nodiscard]] size_t bytes_in_use_max() const noexcept { return bytes_in_use_max_; }

    [[nodiscard]] size_t allocations() const noexcept { return allocations_; }

    [[nodiscard]] size_t deallocations() const noexcept { return deallocations_; }

private:
    struct Piece {
        transport::RegionId region = 0;
        size_t bytes = 0;
        size_t alignment = 0;
    };

    transport::Device& device_;
    transport::Access access_;
    HeapMemory heap_;
    std::map<std::byte*, Piece> pieces_;
    size_t bytes_in_use_max_ = 0;
    size_t allocations_ = 0;
    size_t deallocations_ = 0;
};

}  // namespace weir::testing

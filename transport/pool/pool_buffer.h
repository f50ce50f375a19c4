// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PoolBuffer: owns a piece of a MemoryPool and gives it back.

#include <cstddef>
#include <span>
#include <utility>

#include "lib/base/result.h"
#include "transport/pool/memory_pool.h"

namespace weir::transport {

/// Move-only; empty after being moved from. The pool outlives it. Thread: one at a time.
class PoolBuffer {
public:
    static constexpr size_t kAlignment = 64;

    PoolBuffer() noexcept = default;

    /// `size_bytes` of registered memory at a multiple of kAlignment. Errors: kNoMemory
    [[nodiscard]] static Result<PoolBuffer> make(MemoryPool& pool, size_t size_bytes,
                                                 bool zeroed = false) {
        WEIR_ASSIGN(std::byte* const memory,
                    pool.allocate(PoolRequest{size_bytes, kAlignment, zeroed}));
        return PoolBuffer(pool, {memory, size_bytes});
    }

    PoolBuffer(PoolBuffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}

    PoolBuffer& operator=(PoolBuffer&& other) noexcept {
        PoolBuffer taken(std::move(other));
        std::swap(pool_, taken.pool_);
        std::swap(bytes_, taken.bytes_);
        return *this;
    }

    PoolBuffer(const PoolBuffer&) = delete;
    PoolBuffer& operator=(const PoolBuffer&) = delete;

    ~PoolBuffer() {
        if (pool_ != nullptr) pool_->deallocate(bytes_.data());
    }

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

    [[nodiscard]] std::byte* data() const noexcept { return bytes_.data(); }

    [[nodiscard]] size_t size_bytes() const noexcept { return bytes_.size(); }

    [[nodiscard]] explicit operator bool() const noexcept { return pool_ != nullptr; }

private:
    PoolBuffer(MemoryPool& pool, std::span<std::byte> bytes) noexcept
        : pool_(&pool), bytes_(bytes) {}

    MemoryPool* pool_ = nullptr;
    std::span<std::byte> bytes_;
};

}  // namespace weir::transport

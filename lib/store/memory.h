// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory: where tables get their memory from: a registered pool in a server, the heap in a test.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace weir {

/// Counters for people and for `weir ... --json`.
struct MemoryUse {
    uint64_t registered_bytes = 0;  ///< with the network's devices; verbs locks all of it
    uint64_t used_bytes = 0;        ///< allocated through this Memory
};

/// Thread: the shard that owns the table; implementations may allow more.
class Memory {
public:
    virtual ~Memory() = default;
    /// Zeroed bytes at a multiple of `alignment` (a power of two), or nullptr if there are none
    /// left.
    [[nodiscard]] virtual std::byte* allocate(size_t bytes, size_t alignment) noexcept = 0;

    /// The same for memory beyond what is needed now: caches do not make room for it.
    [[nodiscard]] virtual std::byte* allocate_spare(size_t bytes, size_t alignment) noexcept {
        return allocate(bytes, alignment);
    }

    /// Does a bounded part of what allocate() would have to do for an allocation of so many bytes
    /// beyond finding a free piece, if it is much. Returns whether it did: then call it again
    /// before.
    virtual bool prepare(size_t /*bytes*/) noexcept { return false; }

    /// Takes back what allocate() gave for the same `bytes` and `alignment`.
    virtual void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept = 0;

    /// Makes two allocations, of `at` and of `bytes` - `at` bytes, out of the one of `bytes` at
    /// `data`. False, and nothing has changed, if this Memory cannot do that. `at` is a multiple
    /// of Block::kAlignment, greater than 0 and smaller than `bytes`.
    [[nodiscard]] virtual bool split(std::byte* /*data*/, size_t /*bytes*/,
                                     size_t /*at*/) noexcept {
        return false;
    }

    /// What is registered and used. If several Memory objects share a pool, only one of them
    /// reports its registered bytes, so that sums are right. Zeros if nothing is registered.
    [[nodiscard]] virtual MemoryUse use() const { return {}; }

    /// How much more can be allocated, as far as is known: other programs and other shards take
    /// memory, too. For saying at once that something large cannot fit.
    [[nodiscard]] virtual uint64_t room_bytes() const {
        return std::numeric_limits<uint64_t>::max();
    }

protected:
    Memory() = default;
    Memory(const Memory&) = default;
    Memory& operator=(const Memory&) = default;
    Memory(Memory&&) = default;
    Memory& operator=(Memory&&) = default;
};

/// The heap, up to a limit.
class HeapMemory final : public Memory {
public:
    explicit HeapMemory(size_t limit_bytes = ~size_t{0}) noexcept : limit_bytes_(limit_bytes) {}

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override;
    void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept override;

    void set_limit(size_t limit_bytes) noexcept { limit_bytes_ = limit_bytes; }

    [[nodiscard]] size_t bytes_in_use() const noexcept { return bytes_in_use_; }

    [[nodiscard]] uint64_t room_bytes() const override { return limit_bytes_ - bytes_in_use_; }

private:
    size_t limit_bytes_;
    size_t bytes_in_use_ = 0;
};

/// Owns one allocation; empty if there was no memory left. The Memory must outlive it.
class Block {
public:
    static constexpr size_t kAlignment = 64;  ///< a cache line

    Block() noexcept = default;

    Block(Memory& memory, size_t bytes) noexcept
        : Block(memory, bytes, memory.allocate(bytes, kAlignment)) {}

    /// Allocates by allocate_spare().
    [[nodiscard]] static Block spare(Memory& memory, size_t bytes) noexcept {
        return {memory, bytes, memory.allocate_spare(bytes, kAlignment)};
    }

    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    Block(Block&& other) noexcept
        : memory_(other.memory_),
          data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}

    Block& operator=(Block&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    ~Block() {
        if (data_ != nullptr) memory_->deallocate(data_, bytes_, kAlignment);
    }

    [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

    [[nodiscard]] std::byte* data() const noexcept { return data_; }

    [[nodiscard]] size_t bytes() const noexcept { return data_ == nullptr ? 0 : bytes_; }

    /// Cuts the block in two, and returns the part from `at` on. Empty, and this block is whole,
    /// if its Memory cannot do that. `at`: as for Memory::split().
    [[nodiscard]] Block cut(size_t at) noexcept {
        if (!memory_->split(data_, bytes_, at)) return {};
        Block rest(*memory_, bytes_ - at, data_ + at);
        bytes_ = at;
        return rest;
    }

    template <class T>
    [[nodiscard]] T* as() const noexcept {
        return reinterpret_cast<T*>(data_);
    }

private:
    Block(Memory& memory, size_t bytes, std::byte* data) noexcept
        : memory_(&memory), data_(data), bytes_(bytes) {}

    Memory* memory_ = nullptr;
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace weir

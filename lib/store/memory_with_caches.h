// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemoryWithCaches: memory that caches share with other uses, and give back when it runs short.

#include <cstddef>
#include <vector>

#include "lib/store/memory.h"

namespace weir {

/// The caches of all shards or clients that share a pool may take 1 / kCacheShare of it together.
/// At 1 GiB, a list of 5e6 keys (60 MB at a worker, 20 MB at a server) leaves room for others,
/// and most of a small pool is left for what cannot be thrown away.
inline constexpr size_t kCacheShare = 4;

/// A cache: holds memory only because its content may be wanted again.
class Reclaimable {
public:
    virtual ~Reclaimable() = default;
    Reclaimable(const Reclaimable&) = delete;
    Reclaimable& operator=(const Reclaimable&) = delete;

    /// Frees at least `bytes`, or all that no open request uses, oldest first. Returns how many
    /// bytes it freed.
    virtual size_t give_back(size_t bytes) noexcept = 0;

protected:
    Reclaimable() = default;
};

/// Allocates from another Memory. When that has none left, the caches give memory back until the
/// allocation succeeds. Caches of other threads keep theirs: asking them would need locks on the
/// data path.
///
/// Thread: that of the caches; deallocate() as the other Memory allows
class MemoryWithCaches final : public Memory {
public:
    /// `memory` must outlive this object.
    explicit MemoryWithCaches(Memory& memory) noexcept : memory_(memory) {}

    /// Caches that were added first give back first. `cache` must stay valid until the last
    /// allocate().
    void add(Reclaimable& cache) { caches_.push_back(&cache); }

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override;

    [[nodiscard]] std::byte* allocate_spare(size_t bytes, size_t alignment) noexcept override {
        return memory_.allocate_spare(bytes, alignment);
    }

    bool prepare(size_t bytes) noexcept override { return memory_.prepare(bytes); }

    void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept override {
        if (gives_back_) memory_.deallocate(data, bytes, alignment);
    }

    [[nodiscard]] bool split(std::byte* data, size_t bytes, size_t at) noexcept override {
        return memory_.split(data, bytes, at);
    }

    /// From now on, nothing that was allocated here is given back: a peer may still reach it.
    void stop_giving_back() noexcept { gives_back_ = false; }

    [[nodiscard]] MemoryUse use() const override { return memory_.use(); }

    [[nodiscard]] uint64_t room_bytes() const override { return memory_.room_bytes(); }

private:
    [[nodiscard]] size_t give_back(size_t bytes) noexcept;

    Memory& memory_;
    std::vector<Reclaimable*> caches_;
    bool gives_back_ = true;
};

}  // namespace weir

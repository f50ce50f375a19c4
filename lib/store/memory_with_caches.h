// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemoryWithCaches: memory in which caches live that give way to everything else.

#include <cstddef>
#include <vector>

#include "lib/store/memory.h"

namespace weir {

/// Of a pool, the remembered lists of all shards or clients that share it take at most one of so
/// many parts: at 1 GiB a list of 5e6 keys, which takes 60 MB at a worker and 20 MB at a server,
/// still has company, and most of a small pool is left for what cannot be thrown away.
inline constexpr size_t kCacheShare = 4;

/// Holds memory only because what is in it may be wanted again.
class Reclaimable {
public:
    virtual ~Reclaimable() = default;
    Reclaimable(const Reclaimable&) = delete;
    Reclaimable& operator=(const Reclaimable&) = delete;

    /// Frees at least `bytes`, or all that nothing under way uses, oldest first. Returns how much.
    virtual size_t give_back(size_t bytes) noexcept = 0;

protected:
    Reclaimable() = default;
};

/// Passes on to another Memory; when that has none left, the caches give back until it has.
/// Caches of other threads keep what they have: asking them would need locks on the data path.
///
/// Thread: one, that of the caches; deallocate() as the other Memory allows.
class MemoryWithCaches final : public Memory {
public:
    /// `memory` must outlive this object.
    explicit MemoryWithCaches(Memory& memory) noexcept : memory_(memory) {}

    /// Those that were added first give first. `cache` must stay until the last allocate().
    void add(Reclaimable& cache) { caches_.push_back(&cache); }

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override;

    [[nodiscard]] std::byte* allocate_spare(size_t bytes, size_t alignment) noexcept override {
        return memory_.allocate_spare(bytes, alignment);
    }

    void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept override {
        if (gives_back_) memory_.deallocate(data, bytes, alignment);
    }

    /// From now on nothing that was allocated here goes back: a peer may still reach it.
    void stop_giving_back() noexcept { gives_back_ = false; }

    [[nodiscard]] MemoryUse use() const override { return memory_.use(); }

private:
    [[nodiscard]] size_t give_back(size_t bytes) noexcept;

    Memory& memory_;
    std::vector<Reclaimable*> caches_;
    bool gives_back_ = true;
};

}  // namespace weir

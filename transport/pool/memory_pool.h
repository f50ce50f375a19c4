// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemoryPool: memory that is registered before it is handed out. It consists of slabs on one NUMA
/// node, of shared memory where peers may reach it, each registered once with every device. Inside the slabs jemalloc
/// manages small pieces, and large ones are cut first fit. A slab that no device pins takes
/// memory from the system in steps, as it is used.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/machine/os_limits.h"
#include "lib/base/result.h"
#include "transport/pool/first_fit.h"
#include "transport/pool/jemalloc_arena.h"
#include "transport/pool/slab.h"
#include "transport/transport.h"

namespace weir::transport {

inline constexpr int kCurrentNode = -2;  ///< the node of the thread that makes the pool

struct PoolOptions {
    std::string name = "pool";
    uint64_t slab_bytes = uint64_t{1} << 30;  ///< of the first slab, and of those that are added
    /// If memory of that size cannot be allocated or locked, halves of it are tried, down to
    /// this.
    uint64_t slab_bytes_min = uint64_t{4} << 20;
    uint64_t limit_bytes = kUnlimited;  ///< of all slabs together
    int numa_node = kCurrentNode;       ///< or kAnyNode
    Access access = Access::kRemote;    ///< kLocal for parameters: no peer reaches them
    HugePagePolicy huge_pages = HugePagePolicy::kAuto;
    /// Take all memory of the first slab and touch every page when the pool is made. Further slabs
    /// are touched as they grow.
    bool prefault = false;
    bool use_jemalloc = true;  ///< if the build has it; first fit for large pieces

    /// The options that WEIR_POOL_MIB, WEIR_HUGE_PAGES and WEIR_PREFAULT give.
    /// Errors:  kInvalidArgument naming the variable
    [[nodiscard]] static Result<PoolOptions> from_config(const Config& config, std::string name,
                                                         Access access);
};

struct PoolRequest {
    size_t size_bytes = 0;
    size_t alignment = 64;  ///< a power of two, at most 2 MiB
    bool zeroed = false;
};

struct PoolStatistics {
    uint64_t reserved_bytes = 0;   ///< of all slabs: what is registered
    uint64_t backed_bytes = 0;     ///< of that, taken from the system so far
    uint64_t allocated_bytes = 0;  ///< in pieces that are handed out
    size_t slab_count = 0;
    std::string bookkeeping;  ///< "jemalloc" or "first fit", and why
};

/// Thread: any. While one thread takes more memory from the system (kStepBytes, or what one piece
///         needs), the other threads wait. A service takes what it needs at its start, or by
///         prepare().
/// It must outlive the use of its pieces: those that were not given back are unmapped with it.
class MemoryPool {
public:
    static constexpr size_t kAlignmentMax = size_t{2} << 20;
    /// A slab grows in steps of a huge page, which take 0.1 ms, or a few ms where the system has to
    /// find the memory first.
    static constexpr uint64_t kStepBytes = kAlignmentMax;

    /// The devices must outlive the pool.
    /// Errors:  kNoMemory if not even slab_bytes_min can be allocated or registered, with what to
    ///          do; kInvalidArgument for sizes that contradict each other; errors of the devices
    [[nodiscard]] static Result<std::unique_ptr<MemoryPool>> make(const PoolOptions& options,
                                                                  std::span<Device* const> devices);

    ~MemoryPool();
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;

    /// Memory of at least size_bytes (0 counts as 1). If no free piece is large enough, the pool
    /// first takes more memory from the system, or adds a slab.
    /// Errors:  kNoMemory: the limit of the pool, of memory or of locked memory, with what to do
    [[nodiscard]] Result<std::byte*> allocate(const PoolRequest& request);
    /// As above; nullptr on any error.
    [[nodiscard]] std::byte* allocate(size_t size_bytes, size_t alignment = 64);
    /// Takes a step of memory from the system if a piece of this size needs more. Returns whether
    /// it did: allocate() takes all that is missing at once, so call it again before.
    [[nodiscard]] bool prepare(size_t size_bytes);
    /// Gives back a piece of allocate(); nullptr is allowed.
    void deallocate(std::byte* memory);

    /// Makes two pieces of one: the second begins `at` bytes after its start, a multiple of 64.
    /// False for pieces that are too small to be worth it.
    [[nodiscard]] bool split(std::byte* memory, size_t at);

    /// Whether the whole of `memory` lies in the backed part of one slab, and so may be used with
    /// every device.
    [[nodiscard]] bool contains(std::span<const std::byte> memory) const;

    [[nodiscard]] PoolStatistics statistics() const;

    /// The size of the first slab: what was asked for, or less if that could not be allocated.
    [[nodiscard]] uint64_t first_slab_bytes() const noexcept { return options_.slab_bytes; }

private:
    struct Registered {
        Slab slab;
        std::vector<RegionId> regions;  // one for every device, in their order
    };

    using Slabs = std::map<const std::byte*, Registered>;  // by start

    MemoryPool(const PoolOptions& options, std::span<Device* const> devices);

    /// Adds a slab of `bytes`, or a smaller one, down to `bytes_min`, of which that much is
    /// backed.
    [[nodiscard]] Status add_slab(uint64_t bytes, uint64_t bytes_min);
    [[nodiscard]] Status try_slab(uint64_t bytes, uint64_t backed_bytes);
    /// Extends a slab whose unbacked part has room for the request, by at most `bytes_max`. False
    /// if there is no such slab.
    [[nodiscard]] Result<bool> extend_for(const PoolRequest& request,
                                          uint64_t bytes_max = kUnlimited);
    [[nodiscard]] Status extend(Slab& slab, uint64_t least_bytes);
    [[nodiscard]] Result<std::vector<RegionId>> register_slab(const Slab& slab);
    [[nodiscard]] Status add_slab_for(const PoolRequest& request);
    [[nodiscard]] static uint64_t piece_bytes(const PoolRequest& request);
    [[nodiscard]] std::byte* take(const PoolRequest& request);
    [[nodiscard]] Slabs::node_type take_empty_slab(const std::byte* memory);
    void deregister(const Registered& registered);
    [[nodiscard]] const Registered* slab_of(const std::byte* address) const;

    PoolOptions options_;
    std::vector<Device*> devices_;
    bool grows_ = false;        // no device needs whole slabs: they take memory in steps
    mutable std::mutex mutex_;  // guards everything below
    Slabs slabs_;
    FirstFit pieces_;
    std::unique_ptr<JemallocArena> arena_;      // nullptr: first fit for all pieces
    std::map<const std::byte*, size_t> large_;  // cut from pieces_ directly; start -> size
    uint64_t reserved_bytes_ = 0;
    uint64_t allocated_bytes_ = 0;
    const std::byte* first_slab_ = nullptr;
    std::string bookkeeping_;
};

}  // namespace weir::transport

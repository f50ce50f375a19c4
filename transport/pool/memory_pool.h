// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemoryPool: memory that is registered from birth. Slabs of shared memory on one NUMA node, each
/// registered once with every device; inside, jemalloc keeps the books of small pieces, and large
/// ones are cut first fit.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/os_limits.h"
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
    /// If so much cannot be had or locked, half of it is tried, and so on down to this.
    uint64_t slab_bytes_min = uint64_t{4} << 20;
    uint64_t limit_bytes = kUnlimited;  ///< of all slabs together
    int numa_node = kCurrentNode;       ///< or kAnyNode
    Access access = Access::kRemote;    ///< kLocal for parameters: no peer ever sees them
    HugePagePolicy huge_pages = HugePagePolicy::kAuto;
    bool prefault = false;     ///< touch every page when a slab is made
    bool use_jemalloc = true;  ///< if it is there; first fit for everything else

    /// By WEIR_POOL_MIB, WEIR_HUGE_PAGES and WEIR_PREFAULT. Errors: kInvalidArgument naming those
    [[nodiscard]] static Result<PoolOptions> from_config(const Config& config, std::string name,
                                                         Access access);
};

struct PoolRequest {
    size_t size_bytes = 0;
    size_t alignment = 64;  ///< a power of two, at most 2 MiB
    bool zeroed = false;
};

struct PoolStatistics {
    struct Registered {
        std::string device;
        uint64_t bytes = 0;
    };

    std::string name;
    uint64_t reserved_bytes = 0;         ///< of all slabs
    uint64_t allocated_bytes = 0;        ///< in pieces that are handed out
    uint64_t allocated_bytes_max = 0;    ///< the most there ever were
    std::vector<Registered> registered;  ///< by every device, in the order in which they were given
    size_t slab_count = 0;
    uint64_t page_bytes = 0;  ///< of the first slab
    int numa_node = kAnyNode;
    std::string bookkeeping;         ///< "jemalloc" or "first fit", and why
    std::vector<std::string> notes;  ///< what is not as it was wanted, for people
};

/// Thread: any. Adding a slab makes the others wait; a service adds what it needs at its start.
/// Outlives what it handed out: pieces that were not given back go with it.
class MemoryPool {
public:
    static constexpr size_t kAlignmentMax = size_t{2} << 20;

    /// The devices outlive the pool.
    /// Errors:  kNoMemory if not even slab_bytes_min can be had or registered, with what to do;
    ///          kInvalidArgument for options that make no sense; what devices answer
    [[nodiscard]] static Result<std::unique_ptr<MemoryPool>> make(const PoolOptions& options,
                                                                  std::span<Device* const> devices);

    ~MemoryPool();
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;

    /// Memory of at least size_bytes (0 counts as 1). A full pool gets another slab first.
    /// Errors: kNoMemory: the limit of the pool, of memory or of locked memory, with what to do
    [[nodiscard]] Result<std::byte*> allocate(const PoolRequest& request);
    /// The same in short: nullptr if there is none.
    [[nodiscard]] std::byte* allocate(size_t size_bytes, size_t alignment = 64);
    /// Gives back what allocate() gave; nullptr is allowed.
    void deallocate(std::byte* memory);

    /// Whether the whole of `memory` lies in one slab and so is registered with every device.
    [[nodiscard]] bool contains(std::span<const std::byte> memory) const;
    [[nodiscard]] bool contains(const void* address) const;

    [[nodiscard]] PoolStatistics statistics() const;

    [[nodiscard]] const std::string& name() const noexcept { return options_.name; }

    /// Size when it was made: what was asked for, or what could be had.
    [[nodiscard]] uint64_t first_slab_bytes() const noexcept { return options_.slab_bytes; }

private:
    struct Registered {
        Slab slab;
        std::vector<RegionId> regions;  // one for every device, in their order
    };

    using Slabs = std::map<const std::byte*, Registered>;  // by start

    MemoryPool(const PoolOptions& options, std::span<Device* const> devices);

    /// Adds a slab of `bytes`, or smaller down to `bytes_min`.
    [[nodiscard]] Status add_slab(uint64_t bytes, uint64_t bytes_min);
    [[nodiscard]] Status try_slab(uint64_t bytes);
    [[nodiscard]] Result<std::vector<RegionId>> register_slab(const Slab& slab);
    [[nodiscard]] Status grow_for(const PoolRequest& request);
    [[nodiscard]] std::byte* take(const PoolRequest& request);
    [[nodiscard]] Slabs::node_type take_empty_slab(const std::byte* memory);
    void deregister(const Registered& registered);
    void note(std::string text);
    [[nodiscard]] const Registered* slab_of(const std::byte* address) const;

    PoolOptions options_;
    std::vector<Device*> devices_;
    mutable std::mutex mutex_;  // guards everything below
    Slabs slabs_;
    FirstFit pieces_;
    std::unique_ptr<JemallocArena> arena_;      // nullptr: first fit for all
    std::map<const std::byte*, size_t> large_;  // pieces straight from pieces_, with their sizes
    uint64_t reserved_bytes_ = 0;
    uint64_t allocated_bytes_ = 0;
    uint64_t allocated_bytes_max_ = 0;
    uint64_t first_page_bytes_ = 0;
    const std::byte* first_slab_ = nullptr;
    std::string bookkeeping_;
    std::vector<std::string> notes_;
};

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/memory_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/machine/topology.h"

namespace weir::transport {
namespace {

// jemalloc rounds large sizes up by as much as a quarter, too much for tables
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSizeMax = uint64_t{1} << 46;  // no machine has more

}  // namespace

Result<PoolOptions> PoolOptions::from_config(const Config& config, std::string name,
                                             Access access) {
    PoolOptions options;
    options.name = std::move(name);
    options.access = access;
    WEIR_ASSIGN(const uint64_t pool_mib, config.number("WEIR_POOL_MIB"));
    options.slab_bytes = pool_mib * kMiB;
    options.slab_bytes_min = std::min(options.slab_bytes_min, options.slab_bytes);
    WEIR_ASSIGN(const std::string huge, config.choice("WEIR_HUGE_PAGES"));
    options.huge_pages = huge == "never"    ? HugePagePolicy::kNever
                         : huge == "always" ? HugePagePolicy::kAlways
                                            : HugePagePolicy::kAuto;
    WEIR_ASSIGN(const std::string prefault, config.choice("WEIR_PREFAULT"));
    options.prefault = prefault == "yes";
    return options;
}

Result<std::unique_ptr<MemoryPool>> MemoryPool::make(const PoolOptions& options,
                                                     std::span<Device* const> devices) {
    if (options.slab_bytes == 0 || options.slab_bytes_min == 0 ||
        options.slab_bytes_min > options.slab_bytes || options.slab_bytes > options.limit_bytes) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("pool '{}': sizes must be 0 < slab_bytes_min ({}) <= slab_bytes "
                                 "({}) <= limit_bytes ({})",
                                 options.name, options.slab_bytes_min, options.slab_bytes,
                                 options.limit_bytes));
    }
    std::unique_ptr<MemoryPool> pool(new MemoryPool(options, devices));
    WEIR_TRY(pool->add_slab(options.slab_bytes, options.slab_bytes_min));
    pool->first_slab_ = pool->slabs_.begin()->first;
    const Slab& first = pool->slabs_.begin()->second.slab;
    // A size that failed now would fail later, too.
    pool->options_.slab_bytes = std::min<uint64_t>(options.slab_bytes, first.memory().size());
    pool->bookkeeping_ = "first fit (asked for)";
    if (options.use_jemalloc) {
        Result<std::unique_ptr<JemallocArena>> arena = JemallocArena::make(pool->pieces_);
        pool->bookkeeping_ =
            arena ? "jemalloc" : fmt::format("first fit ({})", arena.error().message());
        if (arena) pool->arena_ = *std::move(arena);
    }
    return pool;
}

MemoryPool::MemoryPool(const PoolOptions& options, std::span<Device* const> devices)
    : options_(options), devices_(devices.begin(), devices.end()) {
    // with a single node there is nothing to bind, and some kernels refuse to
    if (options_.numa_node == kCurrentNode) options_.numa_node = current_numa_node();
    if (numa_node_count() == 1 && options_.numa_node == current_numa_node()) {
        options_.numa_node = kAnyNode;
    }
    grows_ = std::ranges::none_of(devices, &Device::pins_memory);
}

MemoryPool::~MemoryPool() {
    arena_.reset();
    for (const auto& [start, registered] : slabs_)
        deregister(registered);
}

Status MemoryPool::add_slab(uint64_t bytes, uint64_t bytes_min) {
    Status refused;  // the error for the full size, whose advice helps most
    // Only the first slab is taken as a whole beforehand: what needs a further one must not wait
    // until all of that is touched.
    const bool whole = !grows_ || (options_.prefault && slabs_.empty());
    for (uint64_t now = bytes;; now = std::max(bytes_min, now / 2)) {
        Status added = try_slab(now, whole ? now : std::min(bytes_min, now));
        if (added) {
            if (!refused) {
                log(LogLevel::kWarning, "{}; a region of {} is used instead",
                    refused.error().message(), bytes_text(now));
            }
            return {};
        }
        if (added.code() != Errc::kNoMemory) return added;
        if (refused) refused = std::move(added);
        if (now > bytes_min) continue;
        if (bytes == bytes_min) return refused;
        return Error(Errc::kNoMemory, fmt::format("{}; a region of {} is refused, too",
                                                  refused.error().message(), bytes_text(now)));
    }
}

Status MemoryPool::try_slab(uint64_t bytes, uint64_t backed_bytes) {
    WEIR_ASSIGN(Slab slab, Slab::make({.name = options_.name,
                                       .size_bytes = bytes,
                                       .numa_node = options_.numa_node,
                                       .huge_pages = options_.huge_pages,
                                       .shared = options_.access != Access::kLocal,
                                       .others_only_read = options_.access == Access::kRemoteRead,
                                       .prefault = options_.prefault,
                                       .backed_bytes = backed_bytes}));
    WEIR_ASSIGN(std::vector<RegionId> regions, register_slab(slab));
    if (!slab.note().empty()) log(LogLevel::kWarning, "pool '{}': {}", options_.name, slab.note());
    const std::span<std::byte> memory = slab.memory();
    pieces_.add(slab.backed());
    reserved_bytes_ += memory.size();
    slabs_.emplace(memory.data(), Registered{std::move(slab), std::move(regions)});
    return {};
}

Result<std::vector<RegionId>> MemoryPool::register_slab(const Slab& slab) {
    const LockedMemoryLimit limit = locked_memory_limit();
    std::vector<RegionId> regions;
    for (Device* const device : devices_) {
        Result<RegionId> region =
            device->register_memory({slab.memory(), slab.fd(), 0}, options_.access);
        if (region) {
            regions.push_back(*region);
            continue;
        }
        for (size_t i = 0; i < regions.size(); ++i)
            devices_[i]->deregister_memory(regions[i]);
        const Error& error = region.error();
        if (error.code() != Errc::kNoMemory) return error;
        std::string text =
            fmt::format("pool '{}': {} cannot be registered with {}: {}", options_.name,
                        bytes_text(slab.memory().size()), device->name(), error.message());
        // The device's text names the ulimit to set, which does not help against the hard limit.
        const uint64_t needed_bytes = limit.pinned_bytes + slab.memory().size();
        if (!limit.may_lock_all && needed_bytes > limit.hard_bytes) {
            text += "; " + locked_memory_advice(limit, slab.memory().size());
        }
        return Error(Errc::kNoMemory, std::move(text));
    }
    return regions;
}

Result<std::byte*> MemoryPool::allocate(const PoolRequest& request) {
    WEIR_CHECK(std::has_single_bit(request.alignment) && request.alignment <= kAlignmentMax);
    const std::lock_guard lock(mutex_);
    PoolRequest wanted = request;
    wanted.size_bytes = std::max<size_t>(request.size_bytes, 1);
    wanted.alignment = std::max(request.alignment, FirstFit::kUnitBytes);
    std::byte* memory = take(wanted);
    if (memory == nullptr) {
        WEIR_ASSIGN(const bool extended, extend_for(wanted));
        if (extended) memory = take(wanted);
    }
    if (memory == nullptr) {
        WEIR_TRY(add_slab_for(wanted));
        memory = take(wanted);
    }
    if (memory == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("pool '{}': jemalloc has no memory for its own tables; stop other "
                                 "programs, or raise the memory limit of this job",
                                 options_.name));
    }
    return memory;
}

std::byte* MemoryPool::allocate(size_t size_bytes, size_t alignment) {
    const Result<std::byte*> memory = allocate(PoolRequest{size_bytes, alignment, false});
    return memory ? *memory : nullptr;
}

std::byte* MemoryPool::take(const PoolRequest& request) {
    if (arena_ && request.size_bytes < kLargeBytes) {
        std::byte* const memory = arena_->allocate(request.size_bytes, request.alignment);
        if (memory == nullptr) return nullptr;
        allocated_bytes_ += arena_->size_of(memory);
        if (request.zeroed) std::memset(memory, 0, request.size_bytes);
        return memory;
    }
    const bool large = request.size_bytes >= kLargeBytes;
    const size_t size_bytes =
        round_up(request.size_bytes, large ? kPageBytes : FirstFit::kUnitBytes);
    const FirstFit::Piece piece = pieces_.allocate(
        size_bytes, large ? std::max<size_t>(request.alignment, kPageBytes) : request.alignment);
    if (piece.start == nullptr) return nullptr;
    large_.emplace(piece.start, size_bytes);
    allocated_bytes_ += size_bytes;
    if (request.zeroed) {
        // peers that may write can have written into memory that was never handed out
        const bool trusted = !allows(options_.access, Access::kRemoteWrite);
        std::memset(piece.start, 0, size_bytes - (trusted ? piece.fresh_bytes : 0));
    }
    return piece.start;
}

/// The least size of a free piece from which the request can be served.
uint64_t MemoryPool::piece_bytes(const PoolRequest& request) {
    // jemalloc takes extents for many pieces at once, and a few pages more
    if (request.size_bytes < kLargeBytes) return 4 * kMiB + request.alignment;
    return round_up(request.size_bytes, kPageBytes);
}

bool MemoryPool::prepare(size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    const size_t bytes = round_up(size_bytes, kPageBytes);
    // Smaller pieces need a step at most.
    if (size_bytes < kStepBytes || !grows_ || pieces_.has_free(bytes, kPageBytes)) return false;
    // After an error, allocate() says what is wrong.
    const Result<bool> extended = extend_for({.size_bytes = bytes}, kStepBytes);
    if (!extended) return false;
    const uint64_t slab_bytes = std::max<uint64_t>(options_.slab_bytes, bytes);
    return *extended ||
           (bytes <= kSizeMax && slab_bytes <= options_.limit_bytes - reserved_bytes_ &&
            try_slab(slab_bytes, options_.slab_bytes_min).has_value());
}

Result<bool> MemoryPool::extend_for(const PoolRequest& request, uint64_t bytes_max) {
    if (request.size_bytes > kSizeMax) return false;
    const uint64_t least_bytes = piece_bytes(request);
    const bool small = request.size_bytes < kLargeBytes;
    for (auto& [start, registered] : slabs_) {
        Slab& slab = registered.slab;
        const uint64_t left_bytes = slab.memory().size() - slab.backed().size();
        if (left_bytes == 0) continue;
        // The piece may begin in the free memory at the end of the backed part. Slabs start at a
        // multiple of every alignment.
        const auto free =
            static_cast<uint64_t>(pieces_.free_before(slab.backed().data() + slab.backed().size()) -
                                  slab.backed().data());
        const uint64_t end =
            round_up(free, std::max<uint64_t>(request.alignment, kPageBytes)) + least_bytes;
        if (end > slab.memory().size() && !small) continue;
        // A small request may be served from a smaller extent than jemalloc usually takes.
        const uint64_t missing_bytes = end - std::min<uint64_t>(end, slab.backed().size());
        WEIR_TRY(extend(slab, std::min({missing_bytes, left_bytes, bytes_max})));
        return true;
    }
    return false;
}

/// Makes the backed part of the slab longer, by `least_bytes` or a step.
Status MemoryPool::extend(Slab& slab, uint64_t least_bytes) {
    const uint64_t before = slab.backed().size();
    Status extended = slab.extend(round_up(std::max(kStepBytes, least_bytes), kAlignmentMax));
    if (extended.code() == Errc::kNoMemory)
        extended = slab.extend(std::max(least_bytes, kPageBytes));
    WEIR_TRY(std::move(extended));
    pieces_.extend(slab.backed().subspan(before));
    return {};
}

Status MemoryPool::add_slab_for(const PoolRequest& request) {
    if (request.size_bytes > kSizeMax) {
        return Error(Errc::kNoMemory,
                     fmt::format("pool '{}': {} wanted: more than any machine has; ask for less",
                                 options_.name, bytes_text(request.size_bytes)));
    }
    const uint64_t least = piece_bytes(request);  // a slab starts at a multiple of kAlignmentMax
    const uint64_t room = options_.limit_bytes - std::min(options_.limit_bytes, reserved_bytes_);
    if (least > room) {
        return Error(
            Errc::kNoMemory,
            fmt::format("pool '{}': {} wanted, but {} of the limit of {} are taken and no "
                        "free piece is that large; free buffers or raise PoolOptions::limit_bytes",
                        options_.name, bytes_text(request.size_bytes), bytes_text(reserved_bytes_),
                        bytes_text(options_.limit_bytes)));
    }
    const uint64_t bytes = std::min(std::max(options_.slab_bytes, least), room);
    return add_slab(bytes, std::max(least, std::min(options_.slab_bytes_min, bytes)));
}

void MemoryPool::deallocate(std::byte* memory) {
    if (memory == nullptr) return;
    Slabs::node_type released;
    std::unique_lock lock(mutex_);
    const auto large = large_.find(memory);
    if (large == large_.end()) {
        WEIR_CHECK(arena_ != nullptr && slab_of(memory) != nullptr);
        allocated_bytes_ -= arena_->size_of(memory);
        arena_->deallocate(memory);
        return;
    }
    allocated_bytes_ -= large->second;
    pieces_.deallocate(memory, large->second);
    large_.erase(large);
    released = take_empty_slab(memory);
    lock.unlock();  // deregistering may wait for threads that wait for us
    if (!released.empty()) deregister(released.mapped());
}

bool MemoryPool::split(std::byte* memory, size_t at) {
    const std::lock_guard lock(mutex_);
    const auto large = large_.find(memory);
    if (large == large_.end()) return false;  // jemalloc's
    WEIR_CHECK(at > 0 && at < large->second && at % FirstFit::kUnitBytes == 0);
    large_.emplace(memory + at, large->second - at);
    large->second = at;
    return true;
}

/// Removes and returns the slab of `memory` if it need not be kept.
MemoryPool::Slabs::node_type MemoryPool::take_empty_slab(const std::byte* memory) {
    const Registered* const registered = slab_of(memory);
    const std::span<std::byte> slab = registered->slab.memory();
    // ordinary slabs are kept: registering is slow, and memory that was needed once is often
    // needed again
    if (slab.data() == first_slab_ || slab.size() <= options_.slab_bytes) return {};
    if (!pieces_.remove(registered->slab.backed())) return {};
    reserved_bytes_ -= slab.size();
    return slabs_.extract(slab.data());
}

void MemoryPool::deregister(const Registered& registered) {
    for (size_t i = 0; i < registered.regions.size(); ++i)
        devices_[i]->deregister_memory(registered.regions[i]);
}

const MemoryPool::Registered* MemoryPool::slab_of(const std::byte* address) const {
    const auto after = slabs_.upper_bound(address);
    if (after == slabs_.begin()) return nullptr;
    const Registered& registered = std::prev(after)->second;
    const std::span<std::byte> slab = registered.slab.memory();
    return address < slab.data() + slab.size() ? &registered : nullptr;
}

bool MemoryPool::contains(std::span<const std::byte> memory) const {
    const std::lock_guard lock(mutex_);
    const Registered* const registered = slab_of(memory.data());
    if (registered == nullptr) return false;
    const std::span<std::byte> backed = registered->slab.backed();
    const auto offset = static_cast<size_t>(memory.data() - backed.data());
    return offset < backed.size() && memory.size() <= backed.size() - offset;
}

PoolStatistics MemoryPool::statistics() const {
    const std::lock_guard lock(mutex_);
    PoolStatistics result;
    result.reserved_bytes = reserved_bytes_;
    for (const auto& [start, registered] : slabs_)
        result.backed_bytes += registered.slab.backed().size();
    result.allocated_bytes = allocated_bytes_;
    result.slab_count = slabs_.size();
    result.bookkeeping = bookkeeping_;
    return result;
}

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Topology and memory binding by hwloc; compiled only if it was found.
#include <algorithm>
#include <cerrno>
#include <memory>

#include <fmt/core.h>
#include <hwloc.h>

#include "lib/base/machine/topology.h"

namespace weir {
namespace {

struct Destroy {
    void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};

using Handle = std::unique_ptr<hwloc_topology, Destroy>;

Handle load() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) return nullptr;
    Handle topology(raw);
    // no devices, no bridges: only what this file reads
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(raw) != 0) return nullptr;
    return topology;
}

std::vector<int> numbers(hwloc_const_bitmap_t set) {
    std::vector<int> result;
    for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i))
        result.push_back(i);
    return result;
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
    return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

std::vector<Cache> caches_of(hwloc_topology_t topology) {
    std::vector<Cache> caches;
    for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L3ICACHE; ++type) {
        const auto cache_type = static_cast<hwloc_obj_type_t>(type);
        for (hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, cache_type, nullptr);
             cache != nullptr; cache = hwloc_get_next_obj_by_type(topology, cache_type, cache)) {
            const auto& found = cache->attr->cache;
            const char kind = found.type == HWLOC_OBJ_CACHE_DATA          ? 'd'
                              : found.type == HWLOC_OBJ_CACHE_INSTRUCTION ? 'i'
                                                                          : 'u';
            const int level = static_cast<int>(found.depth);
            const auto same = std::find_if(caches.begin(), caches.end(), [&](const Cache& c) {
                return c.level == level && c.kind == kind && c.size_bytes == found.size;
            });
            if (same != caches.end()) {
                ++same->count;
            } else {
                caches.push_back({level, kind, found.size, 1});
            }
        }
    }
    std::sort(caches.begin(), caches.end(), [](const Cache& a, const Cache& b) {
        return a.level != b.level ? a.level < b.level : a.kind < b.kind;
    });
    return caches;
}

std::vector<NumaNode> nodes_of(hwloc_topology_t topology) {
    std::vector<NumaNode> nodes;
    for (hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, nullptr);
         node != nullptr; node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) {
        nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory,
                         numbers(node->cpuset)});
    }
    return nodes;
}

std::vector<Core> cores_of(hwloc_topology_t topology, const std::vector<int>& allowed) {
    std::vector<Core> cores;
    for (hwloc_obj_t core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, nullptr);
         core != nullptr; core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) {
        Core entry;
        for (const int cpu : numbers(core->cpuset)) {
            if (std::binary_search(allowed.begin(), allowed.end(), cpu)) entry.cpus.push_back(cpu);
        }
        if (!entry.cpus.empty()) cores.push_back(std::move(entry));
    }
    return cores;
}

}  // namespace

Topology read_topology() {
    Topology result = read_topology_from_sys("");  // huge pages, affinity
    const Handle topology = load();
    if (!topology) {
        result.source = "/sys (hwloc could not load the topology)";
        return result;
    }
    result.source = "hwloc";
    result.socket_count = count_of(topology.get(), HWLOC_OBJ_PACKAGE);
    result.core_count = count_of(topology.get(), HWLOC_OBJ_CORE);
    result.cpu_count = count_of(topology.get(), HWLOC_OBJ_PU);
    std::vector<NumaNode> nodes = nodes_of(topology.get());
    std::vector<Core> cores = cores_of(topology.get(), result.allowed_cpus);
    std::vector<Cache> caches = caches_of(topology.get());
    // In some containers and virtual machines hwloc sees less than /sys: keep what /sys has then.
    if (!nodes.empty()) result.nodes = std::move(nodes);
    if (!cores.empty()) result.allowed_cores = std::move(cores);
    if (!caches.empty()) result.caches = std::move(caches);
    return result;
}

Status bind_memory(std::span<std::byte> memory, int node) {
    const Handle topology = load();
    if (!topology) return Error(Errc::kUnavailable, "hwloc could not load the topology");
    if (hwloc_get_numanode_obj_by_os_index(topology.get(), static_cast<unsigned>(node)) ==
        nullptr) {
        return Error(
            Errc::kUnavailable,
            fmt::format("NUMA node {}: this machine has no such node; `weir info` lists its nodes",
                        node));
    }
    const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> set(hwloc_bitmap_alloc(),
                                                                            &hwloc_bitmap_free);
    if (!set || hwloc_bitmap_only(set.get(), static_cast<unsigned>(node)) != 0) {
        return Error(Errc::kNoMemory, "no memory for a set of NUMA nodes");
    }
    if (hwloc_set_area_membind(topology.get(), memory.data(), memory.size(), set.get(),
                               HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) != 0) {
        return Error(Errc::kUnavailable,
                     fmt::format("NUMA node {}: memory cannot be bound to it", node), errno);
    }
    return {};
}

}  // namespace weir

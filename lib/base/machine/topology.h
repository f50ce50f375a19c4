// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Topology: the sockets, cores, caches, NUMA nodes and huge pages of this machine, read by hwloc
/// or, in a build without it, from /sys. Binds threads and memory to them, too.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace weir {

struct NumaNode {
    int index = 0;  ///< the operating system's number
    uint64_t memory_bytes = 0;
    std::vector<int> cpus;
};

struct Cache {
    int level = 0;
    char kind = 'u';  ///< 'd' data, 'i' instructions, 'u' both
    uint64_t size_bytes = 0;
    int count = 0;  ///< how many of this level, kind and size there are
};

struct HugePages {
    uint64_t page_bytes = 0;
    uint64_t total_count = 0;
    uint64_t free_count = 0;
};

/// A core that this process may use, and its hardware threads that it may use, in order.
struct Core {
    std::vector<int> cpus;
};

struct Topology {
    std::string source;  ///< "hwloc", or "/sys" and why not hwloc
    int socket_count = 0;
    int core_count = 0;
    int cpu_count = 0;              ///< hardware threads that are online
    std::vector<int> allowed_cpus;  ///< those that affinity and control groups leave this process
    std::vector<Core> allowed_cores;
    std::vector<NumaNode> nodes;                ///< those that have memory
    std::vector<Cache> caches;                  ///< level by level, data before instructions
    std::vector<HugePages> huge_pages;          ///< by size, smallest first
    std::string transparent_huge_pages;         ///< "always", "madvise", "never"; "" unknown
    std::string transparent_huge_pages_shared;  ///< the same for shared memory
};

/// Reads the whole topology, which takes milliseconds. What is unknown stays empty or 0.
[[nodiscard]] Topology read_topology();

/// As read_topology(), but always from /sys. `root` is "" or, in a test, the folder that stands
/// for /.
[[nodiscard]] Topology read_topology_from_sys(std::string_view root);

/// The CPUs for `count` pinned threads: one of each core first, then the cores' other hardware
/// threads. Empty if fewer than `count` CPUs are allowed.
[[nodiscard]] std::vector<int> cpus_for_threads(const Topology& topology, size_t count);

/// CPUs that the affinity of the calling thread allows.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Binds the calling thread to a CPU.
/// Errors:  kInvalidArgument if this process may not use it
[[nodiscard]] Status pin_this_thread(int cpu);

/// Lets the calling thread run on these CPUs and no others. This can undo a launcher's binding,
/// but not a control group's.
/// Errors:  kInvalidArgument if this process may not use all of them; the binding is then
///          unchanged
[[nodiscard]] Status bind_this_thread(std::span<const int> cpus);

/// How many NUMA nodes have memory; at least 1.
[[nodiscard]] int numa_node_count();

/// The node that the calling thread runs on now; 0 where the kernel does not know nodes.
[[nodiscard]] int current_numa_node() noexcept;

/// Makes pages of `memory` come from `node` when they are first touched.
/// Errors:  kUnavailable if there is no such node or the system refuses; kNoMemory
[[nodiscard]] Status bind_memory(std::span<std::byte> memory, int node);

}  // namespace weir

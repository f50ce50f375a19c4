// SPDX-License-Identifier: Apache-2.0
/// \file
/// The functions of topology_hwloc.cc for a build without hwloc.
#include <cerrno>

#include <fmt/core.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/machine/topology.h"

namespace weir {

Topology read_topology() {
    Topology result = read_topology_from_sys("");
    result.source = "/sys (this build has no hwloc)";
    return result;
}

Status bind_memory(std::span<std::byte> memory, int node) {
    constexpr int kNodesMax = 1024;
    constexpr int kBits = 8 * sizeof(unsigned long);
    if (node < 0 || node >= kNodesMax) {
        return Error(
            Errc::kUnavailable,
            fmt::format("NUMA node {}: this machine has no such node; `weir info` lists its nodes",
                        node));
    }
    unsigned long nodes[kNodesMax / kBits] = {};
    nodes[node / kBits] = 1UL << (node % kBits);
    if (syscall(SYS_mbind, memory.data(), memory.size(), MPOL_BIND, nodes, kNodesMax + 1, 0) != 0) {
        return Error(Errc::kUnavailable,
                     fmt::format("NUMA node {}: memory cannot be bound to it", node), errno);
    }
    return {};
}

}  // namespace weir

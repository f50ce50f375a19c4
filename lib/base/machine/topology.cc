// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/topology.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

#include "lib/base/machine/sys_file.h"

namespace weir {
namespace {

/// A set of CPU numbers below kCpusMax, as the system calls take it.
class CpuSet {
public:
    CpuSet() : set_(CPU_ALLOC(kCpusMax)) { CPU_ZERO_S(size_bytes(), set_); }

    ~CpuSet() { CPU_FREE(set_); }

    CpuSet(const CpuSet&) = delete;
    CpuSet& operator=(const CpuSet&) = delete;

    static constexpr int kCpusMax = 8192;

    [[nodiscard]] static size_t size_bytes() noexcept { return CPU_ALLOC_SIZE(kCpusMax); }

    [[nodiscard]] cpu_set_t* get() noexcept { return set_; }

private:
    cpu_set_t* set_;
};

}  // namespace

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    CpuSet set;
    if (sched_getaffinity(0, CpuSet::size_bytes(), set.get()) != 0) return cpus;
    for (int cpu = 0; cpu < CpuSet::kCpusMax; ++cpu) {
        if (CPU_ISSET_S(cpu, CpuSet::size_bytes(), set.get())) cpus.push_back(cpu);
    }
    return cpus;
}

Status pin_this_thread(int cpu) {
    if (cpu < 0 || cpu >= CpuSet::kCpusMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("CPU {}: this machine has no such CPU; `weir info` lists those "
                                 "that this process may use",
                                 cpu));
    }
    CpuSet set;
    CPU_SET_S(cpu, CpuSet::size_bytes(), set.get());
    const int error = pthread_setaffinity_np(pthread_self(), CpuSet::size_bytes(), set.get());
    if (error == 0) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("CPU {}: a thread cannot be pinned to it (this process may use {})",
                             cpu, cpu_list_text(allowed_cpus())),
                 error);
}

Status bind_this_thread(std::span<const int> cpus) {
    CpuSet before;
    if (sched_getaffinity(0, CpuSet::size_bytes(), before.get()) != 0)
        return Error(Errc::kUnavailable, "cannot read which CPUs a thread may use", errno);
    CpuSet set;
    for (const int cpu : cpus) {
        if (cpu >= 0 && cpu < CpuSet::kCpusMax) CPU_SET_S(cpu, CpuSet::size_bytes(), set.get());
    }
    // The kernel silently leaves out CPUs that may not be used, so compare what it made of the
    // set.
    const bool bound = sched_setaffinity(0, CpuSet::size_bytes(), set.get()) == 0;
    const std::vector<int> got = bound ? allowed_cpus() : std::vector<int>();
    for (const int cpu : cpus) {
        if (std::find(got.begin(), got.end(), cpu) != got.end()) continue;
        if (bound) (void)sched_setaffinity(0, CpuSet::size_bytes(), before.get());
        return Error(Errc::kInvalidArgument,
                     fmt::format("CPU {}: this machine has no such CPU, or this process may not "
                                 "use it (it may use {})",
                                 cpu, cpu_list_text(allowed_cpus())));
    }
    return {};
}

std::vector<int> cpus_for_threads(const Topology& topology, size_t count) {
    std::vector<int> cpus;
    for (size_t sibling = 0; cpus.size() < count; ++sibling) {
        const size_t before = cpus.size();
        for (const Core& core : topology.allowed_cores) {
            if (sibling < core.cpus.size() && cpus.size() < count) {
                cpus.push_back(core.cpus[sibling]);
            }
        }
        if (cpus.size() == before) return {};  // all CPUs are given out
    }
    return cpus;
}

int numa_node_count() {
    const auto nodes =
        parse_cpu_list(read_sys_text("/sys/devices/system/node/has_memory").value_or(""));
    return std::max(1, static_cast<int>(nodes.size()));
}

int current_numa_node() noexcept {
    unsigned cpu = 0;
    unsigned node = 0;
    return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
}
}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/topology.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/base/fake_root.h"

TEST_SUITE("topology") {
    using namespace weir;

    /// Two sockets with two cores each, two hardware threads per core, two nodes, some 2-MiB pages.
    void write_two_sockets(const test::FakeRoot& root) {
        const std::string system = "/sys/devices/system";
        root.write(system + "/cpu/online", "0-7");
        for (int cpu = 0; cpu < 8; ++cpu) {
            const int socket = (cpu / 2) % 2;  // 0,1,4,5 and 2,3,6,7
            const int core = cpu % 2;
            const int sibling = (cpu + 4) % 8;
            const std::string folder = fmt::format("{}/cpu/cpu{}", system, cpu);
            root.write(folder + "/topology/physical_package_id", fmt::format("{}", socket));
            root.write(folder + "/topology/core_id", fmt::format("{}", core));
            const std::string pair =
                fmt::format("{},{}", std::min(cpu, sibling), std::max(cpu, sibling));
            root.write(folder + "/cache/index0/level", "1");
            root.write(folder + "/cache/index0/type", "Data");
            root.write(folder + "/cache/index0/size", "48K");
            root.write(folder + "/cache/index0/shared_cpu_list", pair);
            root.write(folder + "/cache/index3/level", "3");
            root.write(folder + "/cache/index3/type", "Unified");
            root.write(folder + "/cache/index3/size", "32M");
            root.write(folder + "/cache/index3/shared_cpu_list",
                       socket == 0 ? "0-1,4-5" : "2-3,6-7");
        }
        root.write(system + "/node/node0/cpulist", "0-1,4-5");
        root.write(system + "/node/node0/meminfo", "Node 0 MemTotal:       1024 kB");
        root.write(system + "/node/node1/cpulist", "2-3,6-7");
        root.write(system + "/node/node1/meminfo", "Node 1 MemTotal:       2048 kB");
        root.write(system + "/node/node2/cpulist", "");
        root.write(system + "/node/node2/meminfo", "Node 2 MemTotal:       0 kB");
        const std::string huge = "/sys/kernel/mm/hugepages/hugepages-";
        root.write(huge + "1048576kB/nr_hugepages", "0");
        root.write(huge + "1048576kB/free_hugepages", "0");
        root.write(huge + "2048kB/nr_hugepages", "512");
        root.write(huge + "2048kB/free_hugepages", "100");
        root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
        root.write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]");
    }

    TEST_CASE("sockets, cores, nodes, caches and huge pages are read from /sys") {
        const test::FakeRoot root;
        write_two_sockets(root);
        const Topology found = read_topology_from_sys(root.path());
        CHECK(found.socket_count == 2);
        CHECK(found.core_count == 4);
        CHECK(found.cpu_count == 8);
        REQUIRE(found.nodes.size() == 2);  // the third has no memory
        CHECK(found.nodes[1].index == 1);
        CHECK(found.nodes[1].memory_bytes == 2048 * 1024);
        CHECK(found.nodes[1].cpus == std::vector<int>{2, 3, 6, 7});
        REQUIRE(found.caches.size() == 2);
        CHECK(found.caches[0].kind == 'd');
        CHECK(found.caches[0].count == 4);
        CHECK(found.caches[1].size_bytes == 32 << 20);
        CHECK(found.caches[1].count == 2);
        REQUIRE(found.huge_pages.size() == 2);
        CHECK(found.huge_pages[0].page_bytes == 2 << 20);
        CHECK(found.huge_pages[0].total_count == 512);
        CHECK(found.huge_pages[0].free_count == 100);
        CHECK(found.transparent_huge_pages == "madvise");
        CHECK(found.transparent_huge_pages_shared == "never");
    }

    TEST_CASE("threads get cores of their own first, then the cores' other hardware threads") {
        const test::FakeRoot root;
        write_two_sockets(root);
        const Topology found = read_topology_from_sys(root.path());
        CHECK(cpus_for_threads(found, 3) == std::vector<int>{0, 1, 2});
        CHECK(cpus_for_threads(found, 6) == std::vector<int>{0, 1, 2, 3, 4, 5});
        CHECK(cpus_for_threads(found, 9).empty());
    }

    TEST_CASE("an empty /sys gives an empty answer, not an error") {
        const test::FakeRoot root;
        const Topology found = read_topology_from_sys(root.path());
        CHECK(found.cpu_count == 0);
        CHECK(found.nodes.empty());
        CHECK(found.huge_pages.empty());
    }

    TEST_CASE("this machine has CPUs, cores and memory, and both sources agree on them") {
        const Topology found = read_topology();
        const Topology plain = read_topology_from_sys("");
        CHECK_FALSE(found.source.empty());
        CHECK(found.source != plain.source);
        CHECK(found.cpu_count >= 1);
        CHECK(found.cpu_count == plain.cpu_count);
        CHECK(found.core_count == plain.core_count);
        CHECK(found.allowed_cpus == allowed_cpus());
        CHECK_FALSE(found.allowed_cores.empty());
        REQUIRE_FALSE(found.nodes.empty());
        CHECK(found.nodes[0].memory_bytes > (1 << 20));
    }

    TEST_CASE("a pinned thread runs where it was pinned, and other threads are not touched") {
        const std::vector<int> before = allowed_cpus();
        REQUIRE_FALSE(before.empty());
        const int cpu = before.back();
        std::thread([&] {
            CHECK(pin_this_thread(cpu));
            CHECK(allowed_cpus() == std::vector<int>{cpu});
            CHECK(sched_getcpu() == cpu);
        }).join();
        CHECK(allowed_cpus() == before);
    }

    TEST_CASE(
        "a thread bound to one CPU can be bound to others again, but not to some it never had") {
        const std::vector<int> before = allowed_cpus();
        std::thread([&] {
            CHECK(pin_this_thread(before.front()));
            CHECK(bind_this_thread(before));
            CHECK(allowed_cpus() == before);
            CHECK(pin_this_thread(before.back()));
            for (const int nowhere : {8000, -1, 1 << 20}) {
                const Status refused = bind_this_thread(std::vector<int>{before.front(), nowhere});
                CHECK(refused.code() == Errc::kInvalidArgument);
                CHECK(allowed_cpus() == std::vector<int>{before.back()});
            }
        }).join();
    }

    TEST_CASE("the error for a missing CPU names it and the CPUs that may be used") {
        const Status refused = pin_this_thread(8000);
        REQUIRE_FALSE(refused);
        CHECK(refused.code() == Errc::kInvalidArgument);
        CHECK(refused.error().text().find("CPU 8000") != std::string::npos);
        CHECK_FALSE(pin_this_thread(-1));
        CHECK_FALSE(pin_this_thread(1 << 20));
    }

    /// The node that holds the page of `address`; nullopt if the page was never touched.
    std::optional<int> numa_node_of(const void* address) {
        // move_pages() without targets only asks; unlike get_mempolicy() it never touches the page.
        void* page = const_cast<void*>(address);
        int node = -1;
        if (syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &node, 0) != 0) return std::nullopt;
        return node < 0 ? std::nullopt : std::optional(node);  // -ENOENT: not touched
    }

    TEST_CASE("touched memory lies on a node, also after it was bound there") {
        const size_t bytes = 1 << 20;
        void* const raw =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(raw != MAP_FAILED);
        const std::span memory(static_cast<std::byte*>(raw), bytes);
        CHECK_FALSE(numa_node_of(raw).has_value());  // not touched
        const int node = read_topology().nodes.at(0).index;
        const Status bound = bind_memory(memory, node);
        if (!bound) MESSAGE("skipped: " << bound.error().message());
        memory[0] = std::byte{1};
        const std::optional<int> found = numa_node_of(raw);
        if (bound && found) CHECK(*found == node);
        const Status nowhere = bind_memory(memory, 900);
        CHECK(nowhere.code() == Errc::kUnavailable);
        munmap(raw, bytes);
        CHECK(numa_node_count() >= 1);
        CHECK(current_numa_node() >= 0);
    }
}

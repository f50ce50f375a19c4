// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/os_limits.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "lib/base/bytes.h"
#include "lib/base/machine/sys_file.h"
#include "tests/base/fake_root.h"

TEST_SUITE("os_limits") {
    using namespace weir;

    TEST_CASE("sizes are printed in the largest whole unit, or with one decimal") {
        CHECK(bytes_text(0) == "0 bytes");
        CHECK(bytes_text(1023) == "1023 bytes");
        CHECK(bytes_text(4096) == "4 KiB");
        CHECK(bytes_text(64 * kMiB) == "64 MiB");
        CHECK(bytes_text(1536 * kMiB) == "1.5 GiB");
        CHECK(bytes_text(uint64_t{1} << 52) == "4 PiB");
    }

    TEST_CASE("the locked-memory limit is the one that was set, and room counts what is pinned") {
        rlimit before{};
        REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
        rlimit lower = before;
        lower.rlim_cur = 65536;
        REQUIRE(setrlimit(RLIMIT_MEMLOCK, &lower) == 0);
        CHECK(locked_memory_limit().soft_bytes == 65536);
        REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);

        LockedMemoryLimit limit;
        limit.soft_bytes = 8 * kMiB;
        limit.pinned_bytes = 3 * kMiB;
        CHECK(limit.room_bytes() == 5 * kMiB);
        limit.pinned_bytes = 9 * kMiB;
        CHECK(limit.room_bytes() == 0);
        limit.may_lock_all = true;
        CHECK(limit.room_bytes() == kUnlimited);
    }

    TEST_CASE("the advice names the exact ulimit, in KiB and rounded up") {
        LockedMemoryLimit limit;
        limit.soft_bytes = 8 * kMiB;
        limit.hard_bytes = kUnlimited;
        limit.pinned_bytes = kMiB;
        CHECK(locked_memory_advice(limit, 64 * kMiB).find("`ulimit -l 66560`") !=
              std::string::npos);
        CHECK(locked_memory_advice(limit, 64 * kMiB + 1).find("`ulimit -l 66561`") !=
              std::string::npos);
    }

    TEST_CASE("the advice says how to raise a hard limit that is too low") {
        LockedMemoryLimit limit;
        limit.soft_bytes = limit.hard_bytes = 8 * kMiB;
        const std::string advice = locked_memory_advice(limit, 64 * kMiB);
        CHECK(advice.find("8 MiB") != std::string::npos);
        CHECK(advice.find("hard memlock 65536") != std::string::npos);
        CHECK(advice.find("limits.conf") != std::string::npos);
    }

    TEST_CASE("the machine's memory is read from the kernel") {
        const test::FakeRoot root;
        CHECK(machine_memory_bytes(root.path()) == 0);
        root.write("/proc/meminfo", "MemTotal: 2048 kB\nMemAvailable:   1024 kB");
        CHECK(machine_memory_bytes(root.path()) == 2 * kMiB);
    }

    TEST_CASE("available memory is the machine's if no control group has a lower limit") {
        const test::FakeRoot root;
        root.write("/proc/meminfo", "MemTotal: 2048 kB\nMemAvailable:   1024 kB");
        CHECK(available_memory_bytes(root.path()) == kMiB);
    }

    TEST_CASE("available memory obeys the tightest control group above the process") {
        const test::FakeRoot root;
        root.write("/proc/meminfo", "MemAvailable:   1048576 kB");
        root.write("/proc/self/cgroup", "0::/job/step");
        root.write("/sys/fs/cgroup/job/memory.max", "104857600");
        root.write("/sys/fs/cgroup/job/memory.current", "94371840");
        root.write("/sys/fs/cgroup/job/step/memory.max", "max");
        root.write("/sys/fs/cgroup/job/step/memory.current", "4096");
        const uint64_t left_over = 100 * kMiB / 16;
        CHECK(available_memory_bytes(root.path()) == 10 * kMiB - left_over);
        // the kernel frees cached file pages when programs need memory
        root.write("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 20971520");
        CHECK(available_memory_bytes(root.path()) == 30 * kMiB - left_over);
        root.write("/sys/fs/cgroup/job/memory.current",
                   "124857600");  // less than is to be left over
        CHECK(available_memory_bytes(root.path()) == 0);
    }

    TEST_CASE("available memory obeys control groups of the first version") {
        const test::FakeRoot root;
        root.write("/proc/meminfo", "MemAvailable:   1048576 kB");
        root.write("/proc/self/cgroup", "4:memory:/a\n0::/");
        root.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8388608");
        root.write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "6291456");
        CHECK(available_memory_bytes(root.path()) == 2 * kMiB - kMiB / 2);
    }

    TEST_CASE("this machine has memory, open files and a number for /dev/shm") {
        CHECK(available_memory_bytes() > kMiB);
        CHECK(available_memory_bytes() < kUnlimited);
        const OpenFilesLimit files = open_files_limit();
        CHECK(files.open_count >= 3);
        CHECK(files.open_count <= files.soft_count);
    }

    TEST_CASE("lists of CPUs are read and written") {
        CHECK(parse_cpu_list("0-3,8,10-11") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
        CHECK(parse_cpu_list("5") == std::vector<int>{5});
        CHECK(parse_cpu_list("").empty());
        CHECK(parse_cpu_list("0-99999999999").empty());
        CHECK(parse_cpu_list("3,x") == std::vector<int>{3});
        CHECK(cpu_list_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
        CHECK(cpu_list_text({}).empty());
    }
}

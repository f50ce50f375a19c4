// SPDX-License-Identifier: Apache-2.0
/// \file
/// Pools that no device pins take memory from the system only as it is used.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "tests/transport/pool/limited_device.h"
#include "transport/pool/memory_pool.h"

TEST_SUITE("growth") {
    using namespace weir;
    using namespace weir::transport;
    using transport::test::LimitedDevice;

    constexpr uint64_t kPoolBytes = 256 * kMiB;

    std::unique_ptr<MemoryPool> make_pool(LimitedDevice & device, bool use_jemalloc = true,
                                          bool prefault = false) {
        Device* const devices[] = {&device};
        Result<std::unique_ptr<MemoryPool>> pool =
            MemoryPool::make({.name = "test",
                              .slab_bytes = kPoolBytes,
                              .limit_bytes = kPoolBytes,
                              .huge_pages = HugePagePolicy::kNever,
                              .prefault = prefault,
                              .use_jemalloc = use_jemalloc},
                             devices);
        REQUIRE_MESSAGE(pool.has_value(), pool.error().message());
        return *std::move(pool);
    }

    const MemoryBlock& block_of(const LimitedDevice& device) {
        REQUIRE(device.regions().size() == 1);
        return device.regions().begin()->second.block;
    }

    /// How much memory the system has allocated to the pool so far.
    uint64_t taken_bytes(const LimitedDevice& device) {
        struct stat state {};

        REQUIRE(fstat(block_of(device).fd, &state) == 0);
        return static_cast<uint64_t>(state.st_blocks) * 512;
    }

    /// Filters this thread's system calls by `program`. False where there is no seccomp.
    bool filter_system_calls(std::span<sock_filter> program) {
        const sock_fprog filter{static_cast<uint16_t>(program.size()), program.data()};
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
    }

    /// Makes this thread's calls of fallocate() fail as they do when no memory is left.
    bool refuse_fallocate() {
        sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        return filter_system_calls(program);
    }

    TEST_CASE("a pool that no device pins takes memory from the system as it is used") {
        for (const bool use_jemalloc : {true, false}) {
            CAPTURE(use_jemalloc);
            LimitedDevice device;
            device.pins = false;
            const auto pool = make_pool(device, use_jemalloc);
            CHECK(block_of(device).bytes.size() == kPoolBytes);  // one registration for all
            CHECK(taken_bytes(device) <= 4 * kMiB);
            uint64_t most = taken_bytes(device);
            uint64_t used_bytes = 0;
            for (size_t size = 100; size < 20 * kMiB; size = size * 3 / 2) {
                std::byte* const piece = pool->allocate(size);
                REQUIRE(piece != nullptr);
                CHECK(pool->contains({piece, size}));
                std::memset(piece, 1, size);
                used_bytes += size;
                const uint64_t taken = taken_bytes(device);
                CHECK(taken == pool->statistics().backed_bytes);  // no page faults took more
                CHECK(taken - most <= std::max<uint64_t>(size + 2 * kMiB, most));
                most = taken;
            }
            CHECK(most < used_bytes + used_bytes / 4 + MemoryPool::kStepBytes);
            CHECK(pool->statistics().reserved_bytes == kPoolBytes);
            CHECK(pool->statistics().slab_count == 1);
        }
    }

    TEST_CASE("memory for a large piece can be taken in steps before") {
        LimitedDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        constexpr size_t kPiece = 40 * kMiB;
        uint64_t most = taken_bytes(device);
        size_t steps = 0;
        for (; pool->prepare(kPiece); ++steps) {
            REQUIRE(steps < 100);
            CHECK(taken_bytes(device) > most);
            CHECK(taken_bytes(device) <= most + MemoryPool::kStepBytes);
            most = taken_bytes(device);
        }
        CHECK(steps > 1);
        REQUIRE(pool->allocate(kPiece) != nullptr);
        CHECK(taken_bytes(device) == most);          // all was there
        CHECK_FALSE(pool->prepare(4 * kPoolBytes));  // what it cannot get, it does not begin
        CHECK(taken_bytes(device) == most);
        CHECK_FALSE(pool->prepare(1000));
        LimitedDevice pinning;
        CHECK_FALSE(make_pool(pinning)->prepare(kPiece));
    }

    TEST_CASE("a pool that a device pins, or with prefault, takes all its memory at once") {
        LimitedDevice pinning;
        const auto pinned = make_pool(pinning);
        CHECK(taken_bytes(pinning) == kPoolBytes);
        LimitedDevice other;
        other.pins = false;
        const auto touched = make_pool(other, true, true);
        CHECK(taken_bytes(other) == kPoolBytes);
        CHECK(touched->statistics().backed_bytes == kPoolBytes);
    }

    TEST_CASE("a piece can span several steps, and all of a pool can be used") {
        for (const bool use_jemalloc : {true, false}) {
            CAPTURE(use_jemalloc);
            LimitedDevice device;
            device.pins = false;
            const auto pool = make_pool(device, use_jemalloc);
            std::byte* const first = pool->allocate(3 * kMiB);
            REQUIRE(first != nullptr);
            std::byte* const large = pool->allocate(kPoolBytes - 4 * kMiB, 2 * kMiB);
            REQUIRE(large != nullptr);
            CHECK(pool->contains({large, kPoolBytes - 4 * kMiB}));
            // the mebibyte between the two is still free
            std::byte* const small = pool->allocate(kMiB);
            CHECK(small != nullptr);
            CHECK(pool->allocate(kMiB) == nullptr);
            pool->deallocate(first);
            pool->deallocate(small);
            pool->deallocate(large);
            CHECK(pool->allocate(kPoolBytes - 3 * kMiB) != nullptr);
            CHECK(device.regions().size() == 1);
        }
    }

    TEST_CASE("the last bytes of a pool can be used for small pieces") {
        LimitedDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        REQUIRE(pool->allocate(kPoolBytes - 2 * kMiB) != nullptr);
        CHECK(pool->allocate(64 * kKiB) != nullptr);
        CHECK(pool->statistics().slab_count == 1);
    }

    TEST_CASE("a pool does not contain memory that it has not taken yet") {
        LimitedDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        const std::span<std::byte> all = block_of(device).bytes;
        const uint64_t backed_bytes = pool->statistics().backed_bytes;
        CHECK(pool->contains(all.first(backed_bytes)));
        CHECK_FALSE(pool->contains(all.first(backed_bytes + 1)));
        CHECK_FALSE(pool->contains(all.subspan(backed_bytes, 1)));
    }

    TEST_CASE("zeroed memory is zero also in later steps") {
        for (const Access access : {Access::kLocal, Access::kRemote}) {
            LimitedDevice device;
            device.pins = false;
            Device* const devices[] = {&device};
            const auto pool =
                MemoryPool::make({.slab_bytes = kPoolBytes, .access = access}, devices);
            REQUIRE(pool);
            for (const size_t size : {kMiB, 9 * kMiB, 30 * kMiB}) {
                const Result<std::byte*> piece = (*pool)->allocate(PoolRequest{size, 64, true});
                REQUIRE(piece);
                CHECK((*piece)[0] == std::byte{0});
                CHECK(std::memcmp(*piece, *piece + 1, size - 1) == 0);
                std::memset(*piece, 0xff, size);
            }
        }
    }

    TEST_CASE("if the system has no more memory an allocation fails, and no later access does") {
        LimitedDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        bool refusing = false;
        Result<std::byte*> refused = nullptr;
        bool small_served = false;
        std::thread([&] {
            refusing = refuse_fallocate();
            if (!refusing) return;
            refused = pool->allocate(PoolRequest{20 * kMiB});
            small_served = pool->allocate(1000) != nullptr;  // from memory taken before
        }).join();
        if (!refusing) {
            MESSAGE("SKIPPED: this system has no seccomp filters");
            return;
        }
        REQUIRE_FALSE(refused);
        CHECK(refused.code() == Errc::kNoMemory);
        const std::string text = refused.error().message();
        CHECK_MESSAGE(
            text.find(
                "pool 'test': 16 MiB wanted: no shared memory is left after 4 MiB; "
                "stop other programs, raise the memory limit of this job, or use more nodes") !=
                std::string::npos,
            text);
        CHECK(small_served);
        CHECK(taken_bytes(device) == pool->statistics().backed_bytes);
        CHECK(pool->statistics().slab_count == 1);
        CHECK(pool->allocate(20 * kMiB) != nullptr);  // memory is available again
    }

    /// How much of `memory` lies in transparently huge pages.
    uint64_t huge_bytes(std::span<const std::byte> memory) {
        const auto begin = reinterpret_cast<uintptr_t>(memory.data());
        std::ifstream maps("/proc/self/smaps");
        uint64_t huge_kib = 0;
        bool is_ours = false;
        for (std::string line; std::getline(maps, line);) {
            unsigned long from = 0;
            unsigned long to = 0;
            unsigned long kib = 0;
            if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
                is_ours = from < begin + memory.size() && to > begin;
            if (is_ours && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1)
                huge_kib += kib;
        }
        return huge_kib * kKiB;
    }

    std::unique_ptr<MemoryPool> make_local(LimitedDevice & device, HugePagePolicy huge_pages) {
        device.pins = false;
        Device* const devices[] = {&device};
        auto pool = MemoryPool::make({.name = "test",
                                      .slab_bytes = kPoolBytes,
                                      .limit_bytes = kPoolBytes,
                                      .access = Access::kLocal,
                                      .huge_pages = huge_pages},
                                     devices);
        REQUIRE_MESSAGE(pool.has_value(), pool.error().message());
        return *std::move(pool);
    }

    TEST_CASE(
        "memory that no peer accesses is private, and in huge pages unless they are disabled") {
        for (const HugePagePolicy policy : {HugePagePolicy::kAuto, HugePagePolicy::kNever}) {
            LimitedDevice device;
            const auto pool = make_local(device, policy);
            CHECK(block_of(device).bytes.size() == kPoolBytes);
            if (policy == HugePagePolicy::kNever) CHECK(block_of(device).fd == -1);
            std::byte* const piece = pool->allocate(20 * kMiB, 2 * kMiB);
            REQUIRE(piece != nullptr);
            std::memset(piece, 1, 20 * kMiB);
            const uint64_t huge = huge_bytes(block_of(device).bytes);
            std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
            const std::string allowed{std::istreambuf_iterator<char>(setting), {}};
            if (policy == HugePagePolicy::kNever) {
                CHECK(huge == 0);
            } else if (!setting || allowed.find("[never]") != std::string::npos) {
                MESSAGE("SKIPPED: this system has no transparently huge pages");
            } else if (block_of(device).fd == -1) {
                CHECK(huge >= 20 * kMiB);
            }
        }
    }

    TEST_CASE("a forked child does not inherit memory that no peer accesses") {
        LimitedDevice device;
        const auto pool = make_local(device, HugePagePolicy::kNever);
        std::byte* const piece = pool->allocate(kMiB);
        REQUIRE(piece != nullptr);
        // Not fork(), which takes all locks of jemalloc first: too many for TSan.
        const pid_t child = _Fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            unsigned char there = 0;
            void* const page =
                reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(piece) & ~4095UL);
            _exit(mincore(page, 1, &there) == 0 ? 1 : 0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }

    /// Makes this thread's calls of madvise(MADV_POPULATE_WRITE) fail with `error`.
    bool refuse_populate(uint32_t error) {
        sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_POPULATE_WRITE, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        return filter_system_calls(program);
    }

    TEST_CASE("private memory that the system refuses is an error, and no later access fails") {
        LimitedDevice device;
        const auto pool = make_local(device, HugePagePolicy::kNever);
        bool refusing = false;
        Result<std::byte*> refused = nullptr;
        bool small_served = false;
        std::thread([&] {
            refusing = refuse_populate(ENOMEM);
            if (!refusing) return;
            refused = pool->allocate(PoolRequest{20 * kMiB});
            small_served = pool->allocate(1000) != nullptr;
        }).join();
        if (!refusing) {
            MESSAGE("SKIPPED: this system has no seccomp filters");
            return;
        }
        REQUIRE_FALSE(refused);
        CHECK(refused.code() == Errc::kNoMemory);
        const std::string text = refused.error().message();
        CHECK_MESSAGE(
            text.find("pool 'test': 16 MiB wanted: no memory is left after 4 MiB; stop other "
                      "programs, raise the memory limit of this job, or use more nodes") !=
                std::string::npos,
            text);
        CHECK(small_served);
        CHECK(pool->statistics().backed_bytes == 4 * kMiB);
        CHECK(pool->allocate(20 * kMiB) != nullptr);  // memory is available again
    }

    TEST_CASE("without MADV_POPULATE_WRITE, pages are touched one by one") {
        LimitedDevice device;
        const auto pool = make_local(device, HugePagePolicy::kNever);
        bool old_kernel = false;
        std::byte* piece = nullptr;
        std::thread([&] {
            old_kernel = refuse_populate(EINVAL);
            if (old_kernel) piece = pool->allocate(20 * kMiB);
        }).join();
        if (!old_kernel) {
            MESSAGE("SKIPPED: this system has no seccomp filters");
            return;
        }
        REQUIRE(piece != nullptr);
        std::vector<unsigned char> there(20 * kMiB / 4096);
        REQUIRE(mincore(piece, 20 * kMiB, there.data()) == 0);
        CHECK(std::ranges::all_of(there, [](unsigned char page) { return (page & 1) != 0; }));
    }

    TEST_CASE("in a pool with prefault, further slabs grow in steps") {
        for (const Access access : {Access::kLocal, Access::kRemote}) {
            LimitedDevice device;
            device.pins = false;
            Device* const devices[] = {&device};
            const auto pool = MemoryPool::make({.slab_bytes = kPoolBytes,
                                                .access = access,
                                                .huge_pages = HugePagePolicy::kNever,
                                                .prefault = true},
                                               devices);
            REQUIRE(pool);
            CHECK((*pool)->statistics().backed_bytes == kPoolBytes);
            REQUIRE((*pool)->allocate(kPoolBytes) != nullptr);
            std::byte* const piece = (*pool)->allocate(5 * kMiB);
            REQUIRE(piece != nullptr);
            CHECK((*pool)->statistics().slab_count == 2);
            CHECK((*pool)->statistics().backed_bytes <= kPoolBytes + 8 * kMiB);
            std::vector<unsigned char> there(5 * kMiB / 4096);
            REQUIRE(mincore(piece, 5 * kMiB, there.data()) == 0);
            CHECK(std::ranges::all_of(there, [](unsigned char page) { return (page & 1) != 0; }));
        }
    }
}

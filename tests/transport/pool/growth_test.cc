// SPDX-License-Identifier: Apache-2.0
/// \file
/// Pools that no device pins: they take memory from the system as it is used.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/bytes.h"
#include "tests/transport/pool/fake_device.h"
#include "transport/pool/memory_pool.h"

TEST_SUITE("growth") {
    using namespace weir;
    using namespace weir::transport;
    using transport::test::FakeDevice;

    constexpr uint64_t kPoolBytes = 256 * kMiB;

    std::unique_ptr<MemoryPool> make_pool(FakeDevice & device, bool use_jemalloc = true,
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

    const MemoryBlock& block_of(const FakeDevice& device) {
        REQUIRE(device.regions().size() == 1);
        return device.regions().begin()->second.block;
    }

    /// What the system has given for the pool so far.
    uint64_t taken_bytes(const FakeDevice& device) {
        struct stat state {};

        REQUIRE(fstat(block_of(device).fd, &state) == 0);
        return static_cast<uint64_t>(state.st_blocks) * 512;
    }

    /// Lets this thread's calls of fallocate() fail as on a system that has no memory left.
    bool refuse_fallocate() {
        sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{std::size(program), program};
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
    }

    TEST_CASE("a pool that no device pins takes memory from the system as it is used") {
        for (const bool use_jemalloc : {true, false}) {
            CAPTURE(use_jemalloc);
            FakeDevice device;
            device.pins = false;
            const auto pool = make_pool(device, use_jemalloc);
            CHECK(block_of(device).bytes.size() == kPoolBytes);  // registered once, as a whole
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
                CHECK(taken == pool->statistics().backed_bytes);  // what was used was there before
                CHECK(taken - most <= std::max<uint64_t>(size + 2 * kMiB, most));
                most = taken;
            }
            CHECK(most < used_bytes + used_bytes / 4 + MemoryPool::kStepBytesMax);
            CHECK(pool->statistics().reserved_bytes == kPoolBytes);
            CHECK(pool->statistics().slab_count == 1);
        }
    }

    TEST_CASE("a pool that a device pins, or that is to be touched at once, is there as a whole") {
        FakeDevice pinning;
        const auto pinned = make_pool(pinning);
        CHECK(taken_bytes(pinning) == kPoolBytes);
        FakeDevice other;
        other.pins = false;
        const auto touched = make_pool(other, true, true);
        CHECK(taken_bytes(other) == kPoolBytes);
        CHECK(touched->statistics().backed_bytes == kPoolBytes);
    }

    TEST_CASE("one piece spans steps, and all of a pool can be used") {
        for (const bool use_jemalloc : {true, false}) {
            CAPTURE(use_jemalloc);
            FakeDevice device;
            device.pins = false;
            const auto pool = make_pool(device, use_jemalloc);
            std::byte* const first = pool->allocate(3 * kMiB);
            REQUIRE(first != nullptr);
            std::byte* const large = pool->allocate(kPoolBytes - 4 * kMiB, 2 * kMiB);
            REQUIRE(large != nullptr);
            CHECK(pool->contains({large, kPoolBytes - 4 * kMiB}));
            // the mebibyte between the two is left, and serves small pieces
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

    TEST_CASE("the last bytes of a pool serve small pieces too") {
        FakeDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        REQUIRE(pool->allocate(kPoolBytes - 2 * kMiB) != nullptr);
        CHECK(pool->allocate(64 * kKiB) != nullptr);
        CHECK(pool->statistics().slab_count == 1);
    }

    TEST_CASE("memory that is not there yet is not contained") {
        FakeDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        const std::span<std::byte> all = block_of(device).bytes;
        const uint64_t backed_bytes = pool->statistics().backed_bytes;
        CHECK(pool->contains(all.first(backed_bytes)));
        CHECK_FALSE(pool->contains(all.first(backed_bytes + 1)));
        CHECK_FALSE(pool->contains(all.subspan(backed_bytes, 1)));
    }

    TEST_CASE("memory of later steps is zero where it is asked for") {
        for (const Access access : {Access::kLocal, Access::kRemote}) {
            FakeDevice device;
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

    TEST_CASE("where the system has no more memory an allocation fails, and nobody dies later") {
        FakeDevice device;
        device.pins = false;
        const auto pool = make_pool(device);
        bool refusing = false;
        Result<std::byte*> refused = nullptr;
        bool small_served = false;
        std::thread([&] {
            refusing = refuse_fallocate();
            if (!refusing) return;
            refused = pool->allocate(PoolRequest{20 * kMiB});
            small_served = pool->allocate(1000) != nullptr;  // from what is there
        }).join();
        if (!refusing) {
            MESSAGE("SKIPPED: this system has no seccomp filters");
            return;
        }
        REQUIRE_FALSE(refused);
        CHECK(refused.code() == Errc::kNoMemory);
        const std::string text = refused.error().message();
        CHECK_MESSAGE(
            text.find("pool 'test': 16 MiB wanted: no shared memory is left after 4 MiB; "
                      "stop other programs or set a smaller WEIR_POOL_MIB") != std::string::npos,
            text);
        CHECK(small_served);
        CHECK(taken_bytes(device) == pool->statistics().backed_bytes);
        CHECK(pool->statistics().slab_count == 1);
        CHECK(pool->allocate(20 * kMiB) != nullptr);  // when there is memory again
    }
}

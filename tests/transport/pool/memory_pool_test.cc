// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/memory_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "tests/log_lines.h"
#include "tests/seed.h"
#include "tests/transport/pool/limited_device.h"
#include "transport/pool/pool_buffer.h"

TEST_SUITE("memory_pool") {
    using namespace weir;
    using namespace weir::transport;
    using transport::test::LimitedDevice;

    PoolOptions small_options(bool use_jemalloc = true) {
        return {.name = "test",
                .slab_bytes = 8 * kMiB,
                .slab_bytes_min = kMiB,
                .huge_pages = HugePagePolicy::kNever,
                .use_jemalloc = use_jemalloc};
    }

    std::unique_ptr<MemoryPool> make_pool(const PoolOptions& options, Device& device) {
        Device* const devices[] = {&device};
        Result<std::unique_ptr<MemoryPool>> pool = MemoryPool::make(options, devices);
        REQUIRE_MESSAGE(pool.has_value(), pool.error().message());
        return *std::move(pool);
    }

    /// Uses memcmp(), which is faster than a loop over bytes: these tests compare megabytes.
    bool all_are(std::span<const std::byte> bytes, std::byte value) {
        return bytes.empty() || (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1,
                                                                  bytes.size() - 1) == 0);
    }

    bool all_zero(std::span<const std::byte> bytes) {
        return all_are(bytes, std::byte{0});
    }

    TEST_CASE("a pool is registered once, as a sealed memfd, and deregistered at the end") {
        LimitedDevice device;
        {
            PoolOptions options = small_options();
            options.access = Access::kRemoteRead;
            const auto pool = make_pool(options, device);
            REQUIRE(device.regions().size() == 1);
            const LimitedDevice::Region& region = device.regions().begin()->second;
            CHECK(region.access == Access::kRemoteRead);
            CHECK(region.block.bytes.size() == 8 * kMiB);
            CHECK(region.block.fd_offset == 0);
            CHECK(ftruncate(region.block.fd, 4096) != 0);
            const int seals = fcntl(region.block.fd, F_GET_SEALS);
            CHECK((seals & F_SEAL_SHRINK) != 0);
            // the descriptor can be mapped, and has what is written here
            std::byte* const memory = pool->allocate(4096);
            REQUIRE(memory != nullptr);
            std::memset(memory, 0x5a, 4096);
            void* const peer = mmap(nullptr, 8 * kMiB, PROT_READ, MAP_SHARED, region.block.fd, 0);
            REQUIRE(peer != MAP_FAILED);
            const auto offset = static_cast<size_t>(memory - region.block.bytes.data());
            CHECK(std::memcmp(static_cast<std::byte*>(peer) + offset, memory, 4096) == 0);
            munmap(peer, 8 * kMiB);
            // but not for writing; more of it can still be backed
            CHECK(mmap(nullptr, 8 * kMiB, PROT_WRITE, MAP_SHARED, region.block.fd, 0) ==
                  MAP_FAILED);
            std::byte* const more = pool->allocate(4 * kMiB);
            REQUIRE(more != nullptr);
            std::memset(more, 0x5a, 4 * kMiB);
            pool->deallocate(more);
            pool->deallocate(memory);
        }
        CHECK(device.regions().empty());
    }

    TEST_CASE("pieces of all sizes are aligned, disjoint and within registered memory") {
        for (const bool use_jemalloc : {true, false}) {
            CAPTURE(use_jemalloc);
            LimitedDevice device;
            const auto pool = make_pool(small_options(use_jemalloc), device);
            std::vector<std::pair<std::byte*, size_t>> pieces;
            for (size_t size = 0; size < 3 * kMiB; size = size * 3 + 1) {
                for (const size_t alignment : {size_t{1}, size_t{64}, size_t{4096}}) {
                    std::byte* const piece = pool->allocate(size, alignment);
                    REQUIRE(piece != nullptr);
                    CHECK(reinterpret_cast<uintptr_t>(piece) % std::max<size_t>(alignment, 64) ==
                          0);
                    CHECK(pool->contains({piece, size}));
                    std::memset(piece, static_cast<int>(pieces.size()), size);
                    pieces.emplace_back(piece, size);
                }
            }
            for (size_t i = 0; i < pieces.size(); ++i) {
                const auto [piece, size] = pieces[i];
                CHECK(std::count(piece, piece + size, static_cast<std::byte>(i)) ==
                      static_cast<std::ptrdiff_t>(size));
                pool->deallocate(piece);
            }
            const PoolStatistics statistics = pool->statistics();
            CHECK(statistics.allocated_bytes == 0);
            CHECK(statistics.reserved_bytes == device.registered_bytes());
            std::byte on_the_stack{};
            CHECK_FALSE(pool->contains({&on_the_stack, 1}));
            CHECK_FALSE(pool->contains({}));
        }
    }

    TEST_CASE("a span that leaves its slab is not contained") {
        LimitedDevice device;
        const auto pool = make_pool(small_options(), device);
        const std::span<std::byte> slab = device.regions().begin()->second.block.bytes;
        CHECK(pool->contains(slab));
        CHECK_FALSE(pool->contains({slab.data(), slab.size() + 1}));
        CHECK_FALSE(pool->contains({slab.data() + slab.size() - 1, 2}));
        CHECK_FALSE(pool->contains({slab.data() + 1, ~size_t{0}}));
    }

    TEST_CASE("zeroed memory is zero, fresh or used before, from jemalloc or not") {
        for (const bool use_jemalloc : {true, false}) {
            for (const Access access : {Access::kLocal, Access::kRemote}) {
                LimitedDevice device;
                PoolOptions options = small_options(use_jemalloc);
                options.access = access;
                const auto pool = make_pool(options, device);
                for (int round = 0; round < 3; ++round) {
                    for (const size_t size : {size_t{100}, size_t{70000}, size_t{3 * kMiB}}) {
                        Result<PoolBuffer> buffer = PoolBuffer::make(*pool, size, true);
                        REQUIRE(buffer);
                        CHECK(all_zero(buffer->bytes()));
                        std::memset(buffer->data(), 0xff, size);
                    }
                }
            }
        }
    }

    TEST_CASE("memory that a peer wrote before it was allocated is zeroed too") {
        LimitedDevice device;
        const auto pool = make_pool(small_options(), device);
        const std::span<std::byte> slab = device.regions().begin()->second.block.bytes;
        std::memset(slab.data(), 0xee, slab.size());
        const Result<PoolBuffer> buffer = PoolBuffer::make(*pool, 4 * kMiB, true);
        REQUIRE(buffer);
        CHECK(all_zero(buffer->bytes()));
    }

    TEST_CASE("the allocator's metadata survive a peer that overwrites the whole pool") {
        for (const bool use_jemalloc : {true, false}) {
            LimitedDevice device;
            const auto pool = make_pool(small_options(use_jemalloc), device);
            std::vector<std::byte*> pieces;
            for (size_t size = 1; size < kMiB; size *= 2)
                pieces.push_back(pool->allocate(size));
            const std::span<std::byte> slab = device.regions().begin()->second.block.bytes;
            std::memset(slab.data(), 0xff, slab.size());
            for (std::byte* const piece : pieces)
                pool->deallocate(piece);
            std::byte* const again = pool->allocate(4 * kMiB);
            CHECK(pool->contains({again, 1}));
            pool->deallocate(again);
            CHECK(pool->statistics().allocated_bytes == 0);
        }
    }

    TEST_CASE("a full pool grows by registered slabs, and frees the slab of one large piece") {
        for (const bool use_jemalloc : {true, false}) {
            LimitedDevice device;
            const auto pool = make_pool(small_options(use_jemalloc), device);
            std::vector<PoolBuffer> buffers;
            for (int i = 0; i < 20; ++i) {
                Result<PoolBuffer> buffer = PoolBuffer::make(*pool, 900'000);
                REQUIRE(buffer);
                CHECK(pool->contains(buffer->bytes()));
                buffers.push_back(*std::move(buffer));
            }
            const size_t slabs = device.regions().size();
            CHECK(slabs >= 3);
            {
                const Result<PoolBuffer> large = PoolBuffer::make(*pool, 20 * kMiB + 5);
                REQUIRE(large);
                CHECK(pool->contains(large->bytes()));
                CHECK(device.regions().size() == slabs + 1);
            }
            CHECK(device.regions().size() == slabs);
            buffers.clear();
            CHECK(pool->statistics().allocated_bytes == 0);
            CHECK(pool->statistics().slab_count == slabs);  // ordinary slabs are kept
            CHECK(pool->allocate(7 * kMiB) != nullptr);     // and free again as a whole
            CHECK(device.regions().size() == slabs);
        }
    }

    TEST_CASE("other threads get memory while a large piece's slab is deregistered") {
        LimitedDevice device;
        const auto pool = make_pool(small_options(true), device);
        std::byte* const large = pool->allocate(20 * kMiB);
        REQUIRE(large != nullptr);
        bool served = false;
        device.on_deregister = [&] {
            std::thread other([&] { served = pool->allocate(100) != nullptr; });
            other.join();
        };
        pool->deallocate(large);
        device.on_deregister = nullptr;
        CHECK(served);
    }

    TEST_CASE("a pool does not grow beyond its limit, and says so") {
        LimitedDevice device;
        PoolOptions options = small_options();
        options.limit_bytes = options.slab_bytes;
        const auto pool = make_pool(options, device);
        CHECK(pool->allocate(6 * kMiB) != nullptr);
        CHECK(pool->allocate(6 * kMiB) == nullptr);
        const Result<PoolBuffer> refused = PoolBuffer::make(*pool, 6 * kMiB);
        REQUIRE_FALSE(refused);
        CHECK(refused.code() == Errc::kNoMemory);
        CHECK(refused.error().text().find("limit of 8 MiB") != std::string::npos);
        CHECK(device.registered_bytes() == 8 * kMiB);
        CHECK_FALSE(PoolBuffer::make(*pool, ~size_t{0}));
        CHECK_FALSE(PoolBuffer::make(*pool, ~size_t{0} / 2));
        CHECK(pool->allocate(kMiB) != nullptr);  // the pool still works
    }

    TEST_CASE("if little memory may be locked, the pool is smaller and warns") {
        const ::weir::testing::LogLines log;
        LimitedDevice device(3 * kMiB);
        const auto pool = make_pool(small_options(), device);
        CHECK(device.registered_bytes() == 2 * kMiB);
        CHECK(pool->statistics().reserved_bytes == 2 * kMiB);
        const std::vector<std::string> lines = log.lines();
        REQUIRE(lines.size() == 1);
        const std::string& note = lines.back();
        const uint64_t kib = (locked_memory_limit().pinned_bytes + 8 * kMiB) / 1024;
        CHECK_MESSAGE(note.find("8 MiB cannot be registered with fake") != std::string::npos, note);
        CHECK_MESSAGE(note.find("a region of 2 MiB is used instead") != std::string::npos, note);
        CHECK_MESSAGE(note.find(fmt::format("ulimit -l {}", kib)) != std::string::npos, note);
        CHECK(pool->allocate(kMiB) != nullptr);
        CHECK(pool->allocate(4 * kMiB) == nullptr);
    }

    TEST_CASE("if hardly any memory may be locked, the error names the ulimit to set") {
        LimitedDevice device(kMiB / 2);
        Device* const devices[] = {&device};
        const auto pool = MemoryPool::make(small_options(), devices);
        REQUIRE_FALSE(pool);
        CHECK(pool.code() == Errc::kNoMemory);
        const std::string& text = pool.error().text();
        const uint64_t kib = (locked_memory_limit().pinned_bytes + 8 * kMiB) / 1024;
        CHECK_MESSAGE(text.find(fmt::format("ulimit -l {}", kib)) != std::string::npos, text);
        CHECK_MESSAGE(text.find("a region of 1 MiB is refused, too") != std::string::npos, text);
        CHECK(device.regions().empty());
    }

    TEST_CASE("a registration that one device refuses is undone at the others") {
        LimitedDevice willing;
        LimitedDevice broken(0, Errc::kIo);
        Device* const devices[] = {&willing, &broken};
        const auto pool = MemoryPool::make(small_options(), devices);
        REQUIRE_FALSE(pool);
        CHECK(pool.code() == Errc::kIo);
        CHECK(willing.regions().empty());
    }

    TEST_CASE("if no shared memory is left, the pool is smaller or the error says what to do") {
        rlimit before{};
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
        rlimit low = before;
        low.rlim_cur = 2 * kMiB;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
        LimitedDevice device;
        Device* const devices[] = {&device};
        const auto smaller = MemoryPool::make(small_options(), devices);
        PoolOptions options = small_options();
        options.slab_bytes_min = 4 * kMiB;
        const auto none = MemoryPool::make(options, devices);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
        REQUIRE(smaller);
        CHECK((*smaller)->statistics().reserved_bytes == 2 * kMiB);
        REQUIRE_FALSE(none);
        CHECK(none.code() == Errc::kNoMemory);
        CHECK(none.error().text().find("ulimit -f 8192") != std::string::npos);
    }

    TEST_CASE("more memory than the machine has is refused before anything is taken") {
        const Result<Slab> slab = Slab::make({.name = "giant", .size_bytes = uint64_t{1} << 45});
        REQUIRE_FALSE(slab);
        CHECK(slab.code() == Errc::kNoMemory);
        CHECK(slab.error().text().find("raise the memory limit of this job") != std::string::npos);
        CHECK_FALSE(Slab::make({.name = "empty", .size_bytes = 0}));
    }

    TEST_CASE("demanded huge pages that the system lacks are an error that says how to get them") {
        SlabOptions options{.name = "huge", .size_bytes = 64 * kMiB};
        options.huge_pages = HugePagePolicy::kAlways;
        const Result<Slab> slab = Slab::make(options);
        if (slab) {
            CHECK(slab->page_bytes() >= 2 * kMiB);
        } else {
            CHECK(slab.code() == Errc::kNoMemory);
            CHECK(slab.error().text().find("nr_hugepages") != std::string::npos);
        }
    }

    TEST_CASE("a slab with prefault takes all its memory at once, and can have a NUMA node") {
        const Result<Slab> slab =
            Slab::make({.name = "slab", .size_bytes = 3 * kMiB, .numa_node = 0, .prefault = true});
        REQUIRE(slab);
        CHECK(slab->memory().size() == 3 * kMiB);
        CHECK(all_zero(slab->memory()));
        std::vector<unsigned char> in_memory(3 * kMiB / 4096);
        REQUIRE(mincore(slab->memory().data(), slab->memory().size(), in_memory.data()) == 0);
        CHECK(std::all_of(in_memory.begin(), in_memory.end(), [](auto c) { return (c & 1) != 0; }));
        Result<Slab> nowhere = Slab::make({.name = "slab", .size_bytes = kMiB, .numa_node = 800});
        REQUIRE(nowhere);
        CHECK(nowhere->note().find("NUMA node 800") != std::string::npos);
    }

    TEST_CASE("many pools are made and destroyed without a leak") {
        LimitedDevice device;
        const auto open_before = open_files_limit().open_count;
        for (int i = 0; i < 300; ++i) {
            PoolOptions options = small_options();
            options.slab_bytes = kMiB;
            const auto pool = make_pool(options, device);
            for (int j = 0; j < 10; ++j)
                REQUIRE(pool->allocate(1000) != nullptr);  // deliberately not deallocated
        }
        CHECK(device.regions().empty());
        CHECK(open_files_limit().open_count == open_before);
    }

    TEST_CASE("threads share a pool") {
        WEIR_TEST_SEED(seed, 77);
        LimitedDevice device;
        const auto pool = make_pool(small_options(), device);
        std::vector<std::thread> threads;
        std::atomic<int> wrong{0};
        for (unsigned t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                Random random(seed + t);
                std::vector<PoolBuffer> mine;
                for (int i = 0; i < 2000; ++i) {
                    if (mine.size() > 20) {
                        const size_t victim = random.below(mine.size());
                        wrong += all_are(mine[victim].bytes(), std::byte(t + 1)) ? 0 : 1;
                        std::swap(mine[victim], mine.back());
                        mine.pop_back();
                    }
                    Result<PoolBuffer> buffer = PoolBuffer::make(*pool, random.below(20000));
                    if (!buffer) {
                        ++wrong;
                        continue;
                    }
                    const std::span<std::byte> bytes = buffer->bytes();
                    if (!bytes.empty())
                        std::memset(bytes.data(), static_cast<int>(t + 1), bytes.size());
                    mine.push_back(*std::move(buffer));
                }
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        CHECK(wrong == 0);
        CHECK(pool->statistics().allocated_bytes == 0);
    }

    TEST_CASE("a buffer can be moved, and frees its memory once") {
        LimitedDevice device;
        const auto pool = make_pool(small_options(), device);
        PoolBuffer empty;
        CHECK_FALSE(empty);
        CHECK(empty.bytes().empty());
        Result<PoolBuffer> made = PoolBuffer::make(*pool, 1000);
        REQUIRE(made);
        PoolBuffer first = *std::move(made);
        std::byte* const data = first.data();
        PoolBuffer second(std::move(first));
        CHECK(second.data() == data);
        CHECK(second.size_bytes() == 1000);
        empty = std::move(second);
        CHECK(empty.data() == data);
        CHECK(pool->statistics().allocated_bytes >= 1000);
        empty = PoolBuffer();
        CHECK(pool->statistics().allocated_bytes == 0);
    }

    TEST_CASE("size, pages and first touch of a pool come from the configuration") {
        Environment::Map variables{{"WEIR_POOL_MIB", "2"}, {"WEIR_HUGE_PAGES", "never"}};
        const auto options =
            PoolOptions::from_config(Config(Environment(variables)), "worker", Access::kRemote);
        REQUIRE(options);
        CHECK(options->slab_bytes == 2 * kMiB);
        CHECK(options->slab_bytes_min == 2 * kMiB);
        CHECK(options->huge_pages == HugePagePolicy::kNever);
        CHECK_FALSE(options->prefault);
        variables.insert_or_assign("WEIR_PREFAULT", "yes");
        CHECK(PoolOptions::from_config(Config(Environment(variables)), "worker", Access::kRemote)
                  ->prefault);
        variables.insert_or_assign("WEIR_POOL_MIB", "many");
        CHECK_FALSE(
            PoolOptions::from_config(Config(Environment(variables)), "worker", Access::kRemote));
    }

    TEST_CASE("invalid options are refused") {
        LimitedDevice device;
        Device* const devices[] = {&device};
        PoolOptions options = small_options();
        options.limit_bytes = kMiB;
        CHECK(MemoryPool::make(options, devices).code() == Errc::kInvalidArgument);
        options = small_options();
        options.slab_bytes_min = 0;
        CHECK(MemoryPool::make(options, devices).code() == Errc::kInvalidArgument);
    }

    TEST_CASE("a large piece that was split is given back in parts") {
        LimitedDevice device;
        const auto pool = make_pool(small_options(), device);
        std::byte* const piece = pool->allocate(4 * kMiB);
        REQUIRE(piece != nullptr);
        const uint64_t whole = pool->statistics().allocated_bytes;
        REQUIRE(pool->split(piece, kMiB + 64));
        REQUIRE(pool->split(piece + kMiB + 64, kMiB));
        pool->deallocate(piece + kMiB + 64);
        CHECK(pool->statistics().allocated_bytes == whole - kMiB);
        pool->deallocate(piece);
        pool->deallocate(piece + 2 * kMiB + 64);
        CHECK(pool->statistics().allocated_bytes == 0);
        std::byte* const small = pool->allocate(256);
        REQUIRE(small != nullptr);
        if (pool->statistics().bookkeeping == "jemalloc") CHECK_FALSE(pool->split(small, 64));
        pool->deallocate(small);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/regions.h"

#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/transport/shm/helpers.h"
#include "transport/shm/memory/peer_regions.h"
#include "transport/shm/memory/quiescence.h"

namespace weir::transport::shm {

namespace {

std::unique_ptr<ShmRegionTable> make_table() {
    auto table = ShmRegionTable::make();
    REQUIRE(table.has_value());
    return std::move(table).value();
}

RegionNote note_of(uint64_t key, uint64_t length_bytes, bool has_fd) {
    RegionNote note;
    note.key = key;
    note.base_address = 4096;
    note.length_bytes = length_bytes;
    note.access = static_cast<uint32_t>(Access::kRemote);
    note.has_fd = has_fd ? 1 : 0;
    return note;
}

/// A peer's live page that shows `keys` as registered.
Mapping live_page_with(const std::vector<uint64_t>& keys) {
    auto page = make_private(kLivePageBytes, "a test");
    REQUIRE(page.has_value());
    for (const uint64_t key : keys) {
        reinterpret_cast<uint32_t*>(page->bytes().data())[slot_of(key)] = tag_of(key);
    }
    return std::move(page).value();
}

}  // namespace

TEST_SUITE("regions") {
    TEST_CASE("memory is found only inside of what was registered") {
        const auto table = make_table();
        std::vector<std::byte> memory(1000);
        const std::span<std::byte> all(memory);
        REQUIRE(table->add({all.subspan(100, 200)}, Access::kRemote).has_value());
        REQUIRE(table->add({all.subspan(300, 200)}, Access::kLocal).has_value());
        const auto snapshot = table->snapshot();
        CHECK(snapshot->find(all.subspan(100, 200)) != nullptr);
        CHECK(snapshot->find(all.subspan(299, 1)) != nullptr);
        CHECK(snapshot->find(all.subspan(300, 200))->access == Access::kLocal);
        CHECK(snapshot->find(all.subspan(99, 10)) == nullptr);
        CHECK(snapshot->find(all.subspan(250, 100)) == nullptr);  // across two
        CHECK(snapshot->find(all.subspan(499, 2)) == nullptr);
        CHECK(snapshot->find(all.subspan(600, 1)) == nullptr);
        CHECK_FALSE(table->add({}, Access::kLocal).has_value());
    }

    TEST_CASE("of regions that overlap, one that peers may reach is found") {
        const auto table = make_table();
        std::vector<std::byte> memory(1000);
        const std::span<std::byte> all(memory);
        REQUIRE(table->add({all}, Access::kRemoteRead).has_value());
        REQUIRE(table->add({all.subspan(10, 100)}, Access::kLocal).has_value());
        REQUIRE(table->add({all.subspan(20, 5)}, Access::kLocal).has_value());
        const auto snapshot = table->snapshot();
        CHECK(snapshot->find(all.subspan(21, 2))->access == Access::kRemoteRead);
        CHECK(snapshot->find(all.subspan(50, 500))->bytes.size() == 1000);
    }

    TEST_CASE("a removed region is gone, and its slot gets another key") {
        const auto table = make_table();
        std::vector<std::byte> memory(100);
        const auto first = table->add({memory}, Access::kRemote);
        REQUIRE(first.has_value());
        const uint64_t before = table->generation();
        CHECK(table->remove(*first));
        CHECK_FALSE(table->remove(*first));
        CHECK(table->generation() != before);
        CHECK(table->snapshot()->find(memory) == nullptr);
        const auto second = table->add({memory}, Access::kRemote);
        REQUIRE(second.has_value());
        CHECK(slot_of(*second) == slot_of(*first));
        CHECK(*second != *first);
        CHECK(table->snapshot()->find_key(*first) == nullptr);
        CHECK(table->snapshot()->find_key(*second) != nullptr);
    }

    TEST_CASE("there is a limit, and it is an error") {
        const auto table = make_table();
        std::vector<std::byte> memory(8);
        // Filling the table one by one takes quadratic time, so only the limit is tested.
        std::vector<RegionId> ids;
        for (uint32_t i = 0; i < 300; ++i) {
            const auto id = table->add({memory}, Access::kLocal);
            REQUIRE(id.has_value());
            CHECK(slot_of(*id) < kRegionsMax);
            ids.push_back(*id);
        }
        for (const RegionId id : ids)
            CHECK(table->remove(id));
        CHECK(table->snapshot()->regions().empty());
    }

    TEST_CASE("only memfds that cannot shrink are handed to peers") {
        const auto table = make_table();
        const SharedBlock sealed = testing::sealed_memory(8192);
        const auto good = table->add({sealed.mapping.bytes(), sealed.fd.get(), 0}, Access::kRemote);
        REQUIRE(good.has_value());
        CHECK(table->snapshot()->find_key(*good)->fd != nullptr);
        CHECK(table->remove(*good));
        const Descriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        const auto other = table->add({sealed.mapping.bytes(), loose.get(), 0}, Access::kRemote);
        REQUIRE(other.has_value());
        CHECK(table->snapshot()->find_key(*other)->fd == nullptr);
    }

    TEST_CASE("a peer's regions are mapped while they live") {
        const uint64_t key = make_key(5, 77);
        const SharedBlock memory = testing::sealed_memory(3 * 4096);
        memory.mapping.bytes()[4096 + 10] = std::byte{9};
        Mapping page = live_page_with({key});
        auto* const words = reinterpret_cast<uint32_t*>(page.bytes().data());
        PeerRegions regions(std::move(page), {});
        CHECK(regions.find(key) == nullptr);
        RegionNote note = note_of(key, 4096, true);
        note.fd_offset = 4096;
        REQUIRE(regions.add(note, memory.fd.get()).has_value());
        REQUIRE(regions.find(key) != nullptr);
        CHECK(regions.find(key)->mapping.bytes()[10] == std::byte{9});
        CHECK(regions.find(make_key(5, 78)) == nullptr);
        CHECK_FALSE(regions.add(note, memory.fd.get()).has_value());  // twice
        words[5] = 0;
        CHECK(regions.find(key) == nullptr);
        CHECK_FALSE(regions.has_retired());
        regions.sweep();
        CHECK(regions.has_retired());
        regions.unmap_retired();
        CHECK_FALSE(regions.has_retired());
    }

    TEST_CASE("malformed notes and memory that does not hold what was said are refused") {
        const uint64_t key = make_key(5, 77);
        PeerLimits limits;
        limits.regions_max = 2;
        limits.mapped_bytes_max = 3 * 4096;
        const SharedBlock memory = testing::sealed_memory(2 * 4096);
        const auto refused = [&](const RegionNote& note, int fd) {
            PeerRegions regions(live_page_with({key}), limits);
            return !regions.add(note, fd).has_value();
        };
        CHECK_FALSE(refused(note_of(key, 4096, true), memory.fd.get()));
        CHECK_FALSE(refused(note_of(key, 4096, false), -1));
        CHECK(refused(note_of(key, 4096, false), memory.fd.get()));
        CHECK(refused(note_of(key, 4096, true), -1));
        CHECK(refused(note_of(key, 0, true), memory.fd.get()));
        CHECK(refused(note_of(key, 2 * 4096 + 1, true), memory.fd.get()));
        CHECK(refused(note_of(key, ~uint64_t{0}, true), memory.fd.get()));
        CHECK(refused(note_of(make_key(kRegionsMax, 1), 4096, true), memory.fd.get()));
        CHECK(refused(note_of(make_key(1, 0), 4096, true), memory.fd.get()));
        RegionNote note = note_of(key, 4096, true);
        note.fd_offset = ~uint64_t{0} - 100;
        CHECK(refused(note, memory.fd.get()));
        note = note_of(key, 4096, true);
        note.access = 4;
        CHECK(refused(note, memory.fd.get()));
        note.access = 0;
        CHECK(refused(note, memory.fd.get()));
        int pipe_ends[2];
        REQUIRE(pipe(pipe_ends) == 0);
        CHECK(refused(note_of(key, 4096, true), pipe_ends[0]));
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        const Descriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        REQUIRE(ftruncate(unsealed.get(), 8192) == 0);
        CHECK(refused(note_of(key, 4096, true), unsealed.get()));
    }

    TEST_CASE("a peer cannot make us map without end") {
        PeerLimits limits;
        limits.regions_max = 2;
        limits.mapped_bytes_max = 3 * 4096;
        const SharedBlock memory = testing::sealed_memory(2 * 4096);
        const std::vector<uint64_t> keys = {make_key(1, 1), make_key(2, 1), make_key(3, 1)};
        PeerRegions regions(live_page_with(keys), limits);
        CHECK(regions.add(note_of(keys[0], 8192, true), memory.fd.get()).has_value());
        CHECK_FALSE(regions.add(note_of(keys[1], 8192, true), memory.fd.get()).has_value());
        CHECK(regions.add(note_of(keys[1], 4096, true), memory.fd.get()).has_value());
        CHECK_FALSE(regions.add(note_of(keys[2], 8, false), -1).has_value());
    }
}

TEST_SUITE("quiescence") {
    TEST_CASE("waiting ends when the other thread leaves, and not before") {
        Quiescence quiescence;
        const auto reader = quiescence.join();
        std::atomic<bool> entered{false};
        std::atomic<bool> waits{false};
        std::atomic<bool> left{false};
        std::thread other([&] {
            reader->enter();
            entered = true;
            while (!waits)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            left = true;
            reader->leave();
        });
        while (!entered)
            std::this_thread::yield();
        waits = true;
        CHECK(quiescence.wait(60 * kSecond));
        CHECK(left);
        other.join();
    }

    TEST_CASE("nobody waits for itself, and not for ever for others") {
        Quiescence quiescence;
        const auto reader = quiescence.join();
        reader->enter();
        CHECK(quiescence.wait(10 * kSecond));
        bool waited = true;
        std::thread([&] { waited = quiescence.wait(5 * kMillisecond); }).join();
        CHECK_FALSE(waited);
        quiescence.part(reader);
        CHECK(quiescence.wait(0));
    }
}

}  // namespace weir::transport::shm

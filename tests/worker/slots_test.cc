// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/calls/slots.h"

#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("slots") {
    using weir::Slots;

    TEST_CASE("a slot is found by its id until it is released, and never by an old id") {
        Slots<int> slots;
        uint64_t first = 0;
        *slots.acquire(first) = 7;
        CHECK(first != 0);
        CHECK(*slots.find(first) == 7);
        slots.release(first);
        CHECK(slots.find(first) == nullptr);
        uint64_t second = 0;
        CHECK(*slots.acquire(second) == 0);
        CHECK(second != first);
        CHECK(slots.find(first) == nullptr);
        CHECK(slots.in_use() == 1);
    }

    TEST_CASE("slots stay where they are when more are made, and are made anew when released") {
        Slots<std::vector<int>> slots;
        std::vector<std::pair<uint64_t, std::vector<int>*>> made(1000);
        for (auto& [id, at] : made) {
            at = slots.acquire(id);
            at->push_back(7);
        }
        for (const auto& [id, at] : made)
            REQUIRE(slots.find(id) == at);
        const uint64_t never = made.back().first + 1;
        CHECK(slots.find(never) == nullptr);
        slots.release(made[500].first);
        uint64_t again = 0;
        CHECK(slots.acquire(again) == made[500].second);
        CHECK(slots.find(again)->empty());
    }

    TEST_CASE("after a burst the first slots are used again") {
        Slots<int> slots;
        std::vector<uint64_t> ids(1000);
        for (uint64_t& id : ids)
            (void)slots.acquire(id);
        for (const uint64_t id : ids)
            slots.release(id);
        uint64_t again = 0;
        (void)slots.acquire(again);
        CHECK(again % Slots<int>::kCountMax == ids[0] % Slots<int>::kCountMax);
        CHECK(again != ids[0]);
        CHECK(slots.find(ids[0]) == nullptr);
        CHECK(slots.find(ids[999]) == nullptr);
        uint64_t next = 0;
        (void)slots.acquire(next);
        slots.release(again);
        size_t count = 0;
        slots.for_each([&](uint64_t id, int&) {
            CHECK(id == next);
            ++count;
        });
        CHECK(count == 1);
    }

    TEST_CASE("the low 32 bits find the slot in use, and no earlier user of it") {
        Slots<int> slots;
        uint64_t old = 0;
        (void)slots.acquire(old);
        slots.release(old);
        uint64_t id = 0;
        *slots.acquire(id) = 9;
        uint64_t found = 0;
        REQUIRE(slots.find_low(static_cast<uint32_t>(id), found) != nullptr);
        CHECK(found == id);
        CHECK(slots.find_low(static_cast<uint32_t>(old), found) == nullptr);
        CHECK(slots.find_low(12345, found) == nullptr);
    }
}

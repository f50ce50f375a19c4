// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/connection_table.h"

#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;

}  // namespace

TEST_SUITE("verbs connection table") {
    TEST_CASE("a connection id is never used again, a slot is") {
        WEIR_TEST_SEED(seed, 4711);
        Random random(seed);
        VerbsConnectionTable table;
        std::set<ConnectionId> ever;
        std::vector<VerbsConnection*> alive;
        for (int i = 0; i < 2000; ++i) {
            if (alive.size() < 20 && random.below(2) == 0) {
                VerbsConnection& c = table.add(Side::kAccepting, {}, {});
                REQUIRE(ever.insert(c.id).second);
                alive.push_back(&c);
            } else if (!alive.empty()) {
                const size_t which = random.below(alive.size());
                const ConnectionId id = alive[which]->id;
                REQUIRE(table.find(id) == alive[which]);
                table.remove(*alive[which]);
                REQUIRE(table.find(id) == nullptr);
                alive.erase(alive.begin() + static_cast<ptrdiff_t>(which));
            }
            REQUIRE(table.count() == alive.size());
        }
        for (const ConnectionId id : ever)
            CHECK(VerbsConnectionTable::slot_of(id) < 20);
        size_t seen = 0;
        table.for_each([&](const VerbsConnection&) { ++seen; });
        CHECK(seen == alive.size());
    }

    TEST_CASE("a queue pair leads to its connection until that is removed") {
        VerbsConnectionTable table;
        VerbsConnection& a = table.add(Side::kConnecting, {}, {});
        VerbsConnection& b = table.add(Side::kConnecting, {}, {});
        CHECK(table.find_queue_pair(7) == nullptr);
        a.own.queue_pair = 7;
        table.add_queue_pair(a);
        b.own.queue_pair = 8;
        table.add_queue_pair(b);
        CHECK(table.find_queue_pair(7) == &a);
        CHECK(table.find_queue_pair(8) == &b);
        CHECK(table.find_queue_pair(8) == &b);  // from the cache of the last result
        table.remove(b);
        CHECK(table.find_queue_pair(8) == nullptr);
        CHECK(table.find_queue_pair(7) == &a);
        // Devices reuse numbers: removing a connection without a queue pair keeps the entry of a.
        VerbsConnection& c = table.add(Side::kConnecting, {}, {});
        c.own.queue_pair = 7;
        table.remove(c);
        CHECK(table.find_queue_pair(7) == &a);
    }

    TEST_CASE("the next deadline is the earliest of all, and is removed with its connection") {
        constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
        VerbsConnectionTable table;
        VerbsConnection& a = table.add(Side::kConnecting, {}, {});
        VerbsConnection& b = table.add(Side::kConnecting, {}, {});
        CHECK_FALSE(table.has_deadlines());
        CHECK(table.next_deadline_ns() == kNone);
        table.set_deadline(a, 100);
        table.set_deadline(b, 50);
        table.set_deadline(b, 60);
        CHECK(table.next_deadline_ns() == 60);
        table.remove(b);
        CHECK(table.next_deadline_ns() == 100);
        table.set_deadline(a, 0);
        table.set_deadline(a, 0);
        CHECK_FALSE(table.has_deadlines());
    }
}

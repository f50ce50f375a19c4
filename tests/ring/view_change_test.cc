// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/view_change.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ring/random_view.h"
#include "tests/seed.h"

TEST_SUITE("view change") {
    using namespace weir;
    using weir::testing::random_view;
    using Body = std::vector<std::byte>;

    static ViewChange received(const std::vector<Body>& bodies) {
        ViewParts parts;
        for (const Body& body : bodies) {
            CHECK_FALSE(parts.complete());
            CHECK(parts.add(body));
        }
        REQUIRE(parts.complete());
        return parts.change();
    }

    TEST_CASE("a view and the change to the next one make the next one, sent or not") {
        WEIR_TEST_SEED(seed, 41);
        Random random(seed);
        for (int round = 0; round < 2000; ++round) {
            const View a = random_view(random, 5);
            const View b = random_view(random, 6 + random.below(3));
            const ViewChange change = view_change(a, b);
            CHECK(*apply(a, change) == b);
            const size_t bytes_max = kViewPartBytesMin + random.below(2000);
            const std::vector<Body> bodies = encode_parts(change, bytes_max);
            for (const Body& body : bodies)
                CHECK(body.size() <= bytes_max);
            CHECK(received(bodies) == change);
        }
    }

    TEST_CASE("a whole view takes the place of any older one") {
        WEIR_TEST_SEED(seed, 42);
        Random random(seed);
        for (int round = 0; round < 500; ++round) {
            const View view = random_view(random, 6);
            const ViewChange whole = received(encode_parts(whole_view(view), 1024));
            CHECK(*apply(View(), whole) == view);
            CHECK(*apply(random_view(random, 5), whole) == view);
            CHECK(apply(random_view(random, 6), whole).code() == Errc::kStaleEpoch);
        }
    }

    TEST_CASE("a change of the epoch only is one short part") {
        WEIR_TEST_SEED(seed, 43);
        Random random(seed);
        const View a = random_view(random, 5);
        ViewData data = a.data();
        data.epoch = 6;
        const std::vector<Body> bodies = encode_parts(view_change(a, *View::make(data)), 1024);
        REQUIRE(bodies.size() == 1);
        CHECK(bodies[0].size() == 36);
        CHECK(apply(a, received(bodies))->data() == data);
    }

    TEST_CASE("a change that does not follow the view is refused") {
        WEIR_TEST_SEED(seed, 44);
        Random random(seed);
        const View a = random_view(random, 5);
        const View b = random_view(random, 8);
        CHECK(apply(b, view_change(a, b)).code() == Errc::kStaleEpoch);
        CHECK(apply(random_view(random, 6), view_change(a, b)).code() == Errc::kStaleEpoch);
        ViewChange change{.from = 5, .epoch = 6};
        change.next_server = a.data().next_server;
        change.next_shard = a.data().next_shard;
        change.next_worker = a.data().next_worker;
        REQUIRE(apply(a, change));
        change.segments.put = {a.segments()[0]};
        REQUIRE(apply(a, change));
        change.segments.removed = {0};  // removed and put
        CHECK(apply(a, change).code() == Errc::kInvalidArgument);
        change = view_change(a, b);
        change.workers.removed.push_back(1'000'000);
        CHECK(apply(a, change).code() == Errc::kInvalidArgument);
        change = view_change(a, b);
        change.segments.removed = {0};
        change.segments.put.clear();
        CHECK_FALSE(apply(a, change));
    }

    TEST_CASE(
        "parts that are cut off, longer, repeated, missing or of another change are refused") {
        WEIR_TEST_SEED(seed, 45);
        Random random(seed);
        for (int round = 0; round < 200; ++round) {
            const View view = random_view(random, 6);
            const std::vector<Body> bodies = encode_parts(whole_view(view), kViewPartBytesMin);
            const Body& first = bodies[0];
            for (int i = 0; i < 20; ++i) {
                ViewParts parts;
                const size_t cut = random.below(first.size());
                // A cut between two records leaves a valid part.
                if (const Status added = parts.add(std::span(first).first(cut)); added) {
                    CHECK(parts.change().from == 0);
                    CHECK(cut >= 36);
                }
            }
            Body longer = first;
            longer.push_back(std::byte{0});
            CHECK(ViewParts().add(longer).code() == Errc::kProtocol);
            if (bodies.size() == 1) continue;
            CHECK(ViewParts().add(bodies[1]).code() == Errc::kProtocol);
            ViewParts parts;
            REQUIRE(parts.add(first));
            CHECK(parts.add(first).code() == Errc::kProtocol);
            ViewParts others;
            REQUIRE(others.add(first));
            Body other = bodies[1];
            other[8] ^= std::byte{1};  // the epoch
            CHECK(others.add(other).code() == Errc::kProtocol);
        }
    }

    TEST_CASE("a peer that sends parts without end is stopped by the limits") {
        ViewChange change;
        change.epoch = 1;
        for (uint64_t i = 0; i <= ViewLimits::kWorkersMax; ++i)
            change.workers.removed.push_back(i);
        ViewParts parts;
        Status added;
        for (const Body& body : encode_parts(change, 4096)) {
            added = parts.add(body);
            if (!added) break;
        }
        CHECK(added.code() == Errc::kProtocol);
        Body empty = encode_parts(ViewChange{.epoch = 1}, 1024)[0];
        const uint32_t many = 1'000'000;
        std::memcpy(&empty[28], &many, sizeof(many));  // the number of parts
        CHECK(ViewParts().add(empty).code() == Errc::kProtocol);
        CHECK(ViewParts().add({}).code() == Errc::kProtocol);
    }

    TEST_CASE("whatever bytes are changed on the way, nothing but an error comes of it") {
        WEIR_TEST_SEED(seed, 46);
        Random random(seed);
        int taken = 0;
        for (int round = 0; round < 3000; ++round) {
            const View view = random_view(random, 6);
            std::vector<Body> bodies = encode_parts(whole_view(view), 4096);
            for (uint64_t i = 1 + random.below(3); i > 0; --i) {
                Body& body = bodies[random.below(bodies.size())];
                body[random.below(body.size())] = static_cast<std::byte>(random.below(256));
            }
            ViewParts parts;
            bool ok = true;
            for (const Body& body : bodies)
                ok = ok && parts.add(body).has_value();
            if (ok && parts.complete() && apply(View(), parts.change())) ++taken;
        }
        CHECK(taken > 0);
        CHECK(taken < 3000);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/delivery.h"

#include <array>

#include <doctest/doctest.h>

namespace {

using namespace weir::transport;
using namespace weir::transport::verbs;

Completion numbered(uint64_t context) {
    Completion completion;
    completion.event = Event::kReceived;
    completion.context = context;
    return completion;
}

}  // namespace

TEST_SUITE("verbs delivery") {
    TEST_CASE("completions that do not fit are delivered by the next polls, in order") {
        Delivery delivery;
        for (uint64_t i = 0; i < 3; ++i)
            delivery.add(numbered(i));  // between polls
        CHECK(delivery.is_waiting());
        std::array<Completion, 2> out;
        delivery.begin(out);
        CHECK_FALSE(delivery.has_room());
        delivery.add(numbered(3));
        CHECK(delivery.end() == 2);
        CHECK(out[0].context == 0);
        CHECK(out[1].context == 1);
        delivery.begin(out);
        CHECK(delivery.end() == 2);
        CHECK(out[0].context == 2);
        CHECK(out[1].context == 3);
        CHECK_FALSE(delivery.is_waiting());
        delivery.begin({});
        CHECK(delivery.end() == 0);
    }

    TEST_CASE("a lent buffer is returned by the poll after the one that delivered it") {
        Delivery delivery;
        std::array<Completion, 1> out;
        delivery.begin(out);
        delivery.add_lending(numbered(0), {10, 1});
        delivery.add_lending(numbered(1), {11, 1});
        delivery.give_back({12, 1});
        CHECK(delivery.end() == 1);
        REQUIRE(delivery.returned().size() == 1);
        CHECK(delivery.returned()[0].number == 12);
        delivery.returned().clear();
        CHECK(delivery.is_waiting());
        delivery.begin(out);  // returns the first, lends the second
        REQUIRE(delivery.returned().size() == 1);
        CHECK(delivery.returned()[0].number == 10);
        delivery.returned().clear();
        CHECK(delivery.end() == 1);
        CHECK(out[0].context == 1);
        delivery.begin(out);
        REQUIRE(delivery.returned().size() == 1);
        CHECK(delivery.returned()[0].number == 11);
    }
}

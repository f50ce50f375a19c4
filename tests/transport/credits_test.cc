// SPDX-License-Identifier: Apache-2.0
#include "transport/credits.h"

#include <deque>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace {

using weir::Random;
using weir::transport::Credits;

/// One side of a connection over a perfect wire; each message carries credits.
struct Lender {
    Credits credits;
    std::deque<uint32_t> inbox;  ///< credits on messages under way to us
    uint32_t lent = 0;           ///< received, room not free yet
    uint64_t sent = 0;

    void send_to(Lender& other) {
        credits.spend();
        other.inbox.push_back(credits.pay(~0U));
    }

    void take_one() {
        REQUIRE(credits.take_back(inbox.front()));
        inbox.pop_front();
        REQUIRE(credits.receive());
        ++lent;
    }

    void free_all() {
        for (; lent > 0; --lent)
            credits.free_one();
    }
};

}  // namespace

TEST_SUITE("credits") {
    TEST_CASE("the last credit is kept for an update") {
        Credits credits(4, 4);
        for (int i = 0; i < 3; ++i) {
            REQUIRE(credits.can_send());
            credits.spend();
        }
        CHECK_FALSE(credits.can_send());
        for (int i = 0; i < 2; ++i) {
            REQUIRE(credits.receive());
            credits.free_one();
        }
        CHECK(credits.update_due());
    }

    TEST_CASE("an update is due when half of the window is owed") {
        Credits credits(8, 8);
        for (int i = 0; i < 4; ++i) {
            CHECK_FALSE(credits.update_due());
            REQUIRE(credits.receive());
            credits.free_one();
        }
        CHECK(credits.update_due());
        CHECK(credits.pay(100) == 4);
        CHECK_FALSE(credits.update_due());
    }

    TEST_CASE("a peer that sends beyond its window is caught") {
        Credits credits(4, 4);
        for (int i = 0; i < 4; ++i)
            REQUIRE(credits.receive());
        CHECK_FALSE(credits.receive());
    }

    TEST_CASE("a peer that gives back more than was used is caught") {
        Credits credits(4, 4);
        credits.spend();
        CHECK_FALSE(credits.take_back(2));
        CHECK_FALSE(credits.take_back(~0U));
        CHECK(credits.take_back(1));
    }

    TEST_CASE("updates do not answer each other for ever") {
        for (uint32_t window = Credits::kWindowMin; window < 20; ++window) {
            Lender a{Credits(window, window), {}};
            Lender b{Credits(window, window), {}};
            while (a.credits.can_send())
                a.send_to(b);
            int updates = 0;
            for (bool moved = true; moved;) {
                moved = false;
                for (Lender* self : {&a, &b}) {
                    while (!self->inbox.empty())
                        self->take_one();
                    self->free_all();
                    if (!self->credits.update_due()) continue;
                    self->send_to(self == &a ? b : a);
                    moved = true;
                    REQUIRE(++updates < 10);
                }
            }
            CHECK(a.credits.can_send());
        }
    }

    TEST_CASE("two sides that send as much as they may never stop for good") {
        WEIR_TEST_SEED(seed, 20240229);
        Random random(seed);
        for (int history = 0; history < 200; ++history) {
            const auto window_a = static_cast<uint32_t>(4 + random.below(9));
            const auto window_b = static_cast<uint32_t>(4 + random.below(9));
            Lender sides[2]{{Credits(window_a, window_b), {}}, {Credits(window_b, window_a), {}}};
            constexpr uint64_t kEach = 300;
            uint64_t steps = 0;
            while (sides[0].sent < kEach || sides[1].sent < kEach || !sides[0].inbox.empty() ||
                   !sides[1].inbox.empty()) {
                REQUIRE(++steps < 1'000'000);
                const uint64_t who = random.below(2);
                Lender& self = sides[who];
                Lender& other = sides[1 - who];
                switch (random.below(4)) {
                    case 0:
                        if (self.sent < kEach && self.credits.can_send()) {
                            self.send_to(other);
                            ++self.sent;
                        }
                        break;
                    case 1:
                        if (!self.inbox.empty()) self.take_one();
                        break;
                    case 2: self.free_all(); break;
                    default:
                        if (self.credits.update_due()) self.send_to(other);
                }
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/tail.h"

#include <map>

#include <doctest/doctest.h>

#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("tail") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr RowKind kFloats{ValueType::kFloat32, 1, Combine::kSum};

    }  // namespace

    TEST_CASE("a key travels from its n-th push on, and not much before") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        Tail selector =
            std::move(Tail::make({.first_kept = 3, .width = 4096, .depth = 3, .seed = seed}))
                .value();
        REQUIRE(selector.check(kFloats));
        HeldBack held(kFloats, 0);
        std::map<uint64_t, int> pushes;
        Selection selection;
        size_t too_early = 0;
        for (int round = 0; round < 100; ++round) {
            const Call<float> call = random_call<float>(random, 1, 2'000, 10);
            REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
            Sums<float> sent;
            add_selection(sent, call, selection, 1);
            for (size_t i = 0; i < call.keys.size(); ++i) {
                const bool is_frequent = ++pushes[call.keys[i]] >= 3;
                const auto at = sent.find(call.keys[i]);
                if (is_frequent) REQUIRE(at != sent.end());
                if (at == sent.end()) continue;
                CHECK(at->second[0] == call.values[i]);
                too_early += static_cast<size_t>(!is_frequent);
            }
        }
        CHECK(too_early < 40);  // of 4,000
    }

    TEST_CASE("the first push of all keys travels if the first is wanted") {
        Tail selector = std::move(Tail::make({.first_kept = 1})).value();
        HeldBack held(kFloats, 0);
        Selection selection;
        const Call<float> call{{1, 5}, {2, 3}};
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(typed<float>(selection.values) == call.values);
    }

    TEST_CASE("wrong sizes are refused") {
        CHECK(Tail::make({.first_kept = 0}).code() == Errc::kInvalidArgument);
        CHECK(Tail::make({.width = 0}).code() == Errc::kInvalidArgument);
        CHECK(Tail::make({.depth = 17}).code() == Errc::kInvalidArgument);
    }
}

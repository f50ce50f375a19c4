// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/random_skip.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("random_skip") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr RowKind kFloats{ValueType::kFloat32, 2, Combine::kSum};

    Call<float> call_of(size_t count) {
        Call<float> call;
        for (size_t i = 0; i < count; ++i) {
            call.keys.push_back(3 * i);
            call.values.push_back(static_cast<float>(i) + 1);
            call.values.push_back(-0.5F);
        }
        return call;
    }

    }  // namespace

    TEST_CASE("the mean of what travels is what was pushed, for each key and over all seeds") {
        WEIR_TEST_SEED(seed, 1);
        HeldBack held(kFloats, 0);
        constexpr size_t kKeys = 20;
        constexpr int kSeeds = 20'000;
        const Call<float> call = call_of(kKeys);
        for (const double q : {0.05, 0.5, 0.9}) {
            std::vector<double> sums(2 * kKeys);
            size_t kept = 0;
            for (int i = 0; i < kSeeds; ++i) {
                RandomSkip selector(q, seed * 1'000'003 + static_cast<uint64_t>(i));
                Selection selection;
                REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
                kept += selection.kept_count;
                Sums<float> sent;
                add_selection(sent, call, selection, 2);
                for (const auto& entry : sent) {
                    sums[2 * (entry.first / 3)] += static_cast<double>(entry.second[0]);
                    sums[2 * (entry.first / 3) + 1] += static_cast<double>(entry.second[1]);
                }
            }
            // The standard error of the mean, as a share of the value.
            const double error = std::sqrt((1 - q) / q / kSeeds);
            for (size_t i = 0; i < sums.size(); ++i) {
                const auto value = static_cast<double>(call.values[i]);
                CHECK(std::abs(sums[i] / kSeeds - value) < 4 * error * std::abs(value));
            }
            const double all = static_cast<double>(kKeys) * kSeeds;
            CHECK(std::abs(static_cast<double>(kept) / all - q) < 4 * std::sqrt(q * (1 - q) / all));
        }
    }

    TEST_CASE("calls of a selector draw anew, and the same seed draws the same") {
        HeldBack held(kFloats, 0);
        const Call<float> call = call_of(200);
        RandomSkip one(0.5, 7);
        RandomSkip other(0.5, 7);
        std::vector<std::byte> before;
        for (int i = 0; i < 10; ++i) {
            Selection a;
            Selection b;
            REQUIRE(one.select(kFloats, call.pushed(), held, a));
            REQUIRE(other.select(kFloats, call.pushed(), held, b));
            CHECK(a.kept == b.kept);
            CHECK(a.values == b.values);
            CHECK(a.kept != before);
            before = a.kept;
        }
    }

    TEST_CASE("with probability 1 all travels as it is") {
        HeldBack held(kFloats, 0);
        const Call<float> call = call_of(99);
        RandomSkip selector(1, 7);
        Selection selection;
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(selection.kept_count == 99);
        CHECK(typed<float>(selection.values) == call.values);
    }

    TEST_CASE("a value that would be infinite is an error") {
        HeldBack held(kFloats, 0);
        RandomSkip selector(0.99, 7);
        Selection selection;
        const Call<float> call{{1, 2, 3}, std::vector<float>(6, std::numeric_limits<float>::max())};
        CHECK(selector.select(kFloats, call.pushed(), held, selection).code() == Errc::kNotFinite);
    }

    TEST_CASE("other probabilities, integers, and tables that do not sum are refused") {
        for (const double q : {0.0, -1.0, 1.5, std::nan("")})
            CHECK(RandomSkip(q, 1).check(kFloats).code() == Errc::kInvalidArgument);
        const RandomSkip selector(0.5, 1);
        CHECK(selector.check(kFloats));
        CHECK(selector.check({ValueType::kFloat64, 1, Combine::kSum}));
        CHECK(selector.check({ValueType::kInt32, 1, Combine::kSum}).code() == Errc::kTypeMismatch);
        for (const Combine combine : {Combine::kMean, Combine::kMax, Combine::kLast})
            CHECK(selector.check({ValueType::kFloat32, 1, combine}).code() ==
                  Errc::kInvalidArgument);
        CHECK(RandomSkip(1e-30, 1).q() == 0x1p-32);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/significant.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("significant") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr size_t kEnough = size_t{1} << 20;
    constexpr RowKind kFloats{ValueType::kFloat32, 1, Combine::kSum};

    /// Pushes values to key 1 one after the other. Returns what was sent each time, NaN for
    /// nothing.
    std::vector<float> sent_of(Significant& selector, const std::vector<float>& values) {
        HeldBack held(kFloats, kEnough);
        std::vector<float> sent;
        for (const float value : values) {
            const Call<float> call{{1}, {value}};
            Selection selection;
            REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
            sent.push_back(selection.kept_count == 0 ? std::numeric_limits<float>::quiet_NaN()
                                                     : typed<float>(selection.values)[0]);
        }
        return sent;
    }

    template <class T>
    void check_history(uint32_t width, bool is_relative, size_t bytes_max, uint64_t seed) {
        Random random(seed);
        const RowKind rows{value_type_of<T>(), width, Combine::kSum};
        HeldBack held(rows, bytes_max);
        Significant selector({.delta = is_relative ? 0.5 : 12.0, .is_relative = is_relative});
        REQUIRE(selector.check(rows));
        Sums<T> pushed;
        Sums<T> sent;
        Selection selection;
        size_t kept = 0;
        size_t all = 0;
        for (int round = 0; round < 300; ++round) {
            const Call<T> call = random_call<T>(random, width, 300, 10);
            REQUIRE(selector.select(rows, call.pushed(), held, selection));
            add_call(pushed, call, width);
            add_selection(sent, call, selection, width);
            kept += selection.kept_count;
            all += call.keys.size();
            REQUIRE(held.bytes() <= bytes_max);
        }
        CHECK(kept > 0);
        CHECK(kept < all);
        add_held(sent, held, width);
        CHECK(same_sums(pushed, sent));
    }

    }  // namespace

    TEST_CASE("an entry travels when the sum of its changes is greater than delta") {
        Significant selector({.delta = 2});
        const auto sent = sent_of(selector, {1, 1, 0.5F, 1, -3, 2});
        CHECK(std::isnan(sent[0]));
        CHECK(std::isnan(sent[1]));
        CHECK(sent[2] == 2.5F);
        CHECK(std::isnan(sent[3]));
        CHECK(std::isnan(sent[4]));  // -2
        CHECK(std::isnan(sent[5]));  // 0
    }

    TEST_CASE(
        "relative to what was last sent, the first change travels, and then those that are as "
        "great") {
        Significant selector({.delta = 0.5, .is_relative = true});
        const auto sent = sent_of(selector, {8, 3, 1, 1, -2, -1});
        CHECK(sent[0] == 8);
        CHECK(std::isnan(sent[1]));
        CHECK(std::isnan(sent[2]));
        CHECK(sent[3] == 5);
        CHECK(std::isnan(sent[4]));
        CHECK(sent[5] == -3);
    }

    TEST_CASE("keys that are not remembered travel whenever they change") {
        Significant selector({.delta = 0.5, .is_relative = true, .remembered_keys_max = 0});
        const auto sent = sent_of(selector, {8, 1, 0, 1});
        CHECK(sent[1] == 1);
        CHECK(std::isnan(sent[2]));
        CHECK(sent[3] == 1);
    }

    TEST_CASE("what travelled and what is held are what was pushed") {
        WEIR_TEST_SEED(seed, 1);
        for (const bool is_relative : {false, true}) {
            check_history<float>(1, is_relative, kEnough, seed);
            check_history<float>(5, is_relative, 3'000, seed);
            check_history<double>(1, is_relative, 0, seed);
            check_history<int64_t>(2, is_relative, kEnough, seed);
            check_history<int32_t>(1, is_relative, kEnough, seed);
        }
    }

    TEST_CASE("calls of many keys, and ranges of a dense table, are looked at to their end") {
        for (const uint64_t count : {2'047, 2'048, 2'049, 5'000}) {
            HeldBack held(kFloats, kEnough, KeyRange{0, 10'000});
            Significant selector({.delta = 1});
            std::vector<float> values;
            for (uint64_t i = 0; i < count; ++i)
                values.push_back(i % 3 == 0 ? static_cast<float>(i) + 2 : 1);
            const auto bytes = std::as_bytes(std::span<const float>(values));
            Selection selection;
            REQUIRE(selector.select(kFloats, {CallKeys(KeyRange{100, 100 + count}), bytes}, held,
                                    selection));
            const auto sent = typed<float>(selection.values);
            REQUIRE(sent.size() == (count + 2) / 3);
            for (uint64_t i = 0; i < count; ++i) {
                REQUIRE(has_bit(selection.kept, i) == (i % 3 == 0));
                REQUIRE((held.find(100 + i) != nullptr) == (i % 3 != 0));
                if (i % 3 == 0) REQUIRE(sent[i / 3] == values[i]);
            }
        }
    }

    TEST_CASE("of the greatest values, the greatest that is held travels") {
        const RowKind rows{ValueType::kInt32, 1, Combine::kMax};
        HeldBack held(rows, kEnough);
        Significant selector({.delta = 10});
        Selection selection;
        const Call<int32_t> first{{1, 2}, {8, 12}};
        REQUIRE(selector.select(rows, first.pushed(), held, selection));
        CHECK(typed<int32_t>(selection.values) == std::vector{12});
        const Call<int32_t> second{{1, 2}, {-20, 5}};
        REQUIRE(selector.select(rows, second.pushed(), held, selection));
        CHECK(selection.kept_count == 0);
        const Call<int32_t> third{{1}, {11}};
        REQUIRE(selector.select(rows, third.pushed(), held, selection));
        CHECK(typed<int32_t>(selection.values) == std::vector{11});
    }

    TEST_CASE("a delta below zero, NaN, and tables of means are refused") {
        CHECK(Significant({.delta = -1}).check(kFloats).code() == Errc::kInvalidArgument);
        CHECK(Significant({.delta = std::nan("")}).check(kFloats).code() == Errc::kInvalidArgument);
        const RowKind means{ValueType::kFloat32, 1, Combine::kMean};
        CHECK(Significant({.delta = 1}).check(means).code() == Errc::kInvalidArgument);
    }
}

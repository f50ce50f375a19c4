// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/round.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "lib/filter/select/block_round.h"
#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("round") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr size_t kEnough = size_t{1} << 20;
    constexpr RowKind kFloats{ValueType::kFloat32, 3, Combine::kSum};
    constexpr RoundForm kForms[] = {RoundForm::kFixed8, RoundForm::kFixed16, RoundForm::kFixed32,
                                    RoundForm::kBFloat16, RoundForm::kFloat16};

    Call<float> random_floats(Random& random) {
        Call<float> call = random_call<float>(random, 3, 300, 10);
        for (float& value : call.values)
            value = static_cast<float>(random.uniform() - 0.5);
        return call;
    }

    }  // namespace

    TEST_CASE("all entries travel, and their values are ones that the form has") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        HeldBack held(kFloats, kEnough);
        for (const RoundForm form : kForms) {
            Round selector({.form = form, .seed = seed});
            REQUIRE(selector.check(kFloats));
            for (int round = 0; round < 20; ++round) {
                const Call<float> call = random_floats(random);
                Selection selection;
                REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
                CHECK(selection.kept_count == call.keys.size());
                CHECK(count_bits(selection.kept) == call.keys.size());
                const auto values = typed<float>(selection.values);
                REQUIRE(values.size() == call.values.size());
                // Rounded again, they are as they were.
                std::vector<float> again(values.size());
                REQUIRE(round_values(form, values, random(), again));
                CHECK(again == values);
                CHECK(held.empty());
            }
        }
    }

    TEST_CASE(
        "with rests, what travelled and what is held are what was pushed, but for a float's last "
        "bits") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const RoundForm form : kForms) {
            Round selector({.form = form, .adds_rests = true, .seed = seed});
            REQUIRE(selector.check(kFloats));
            HeldBack held(kFloats, kEnough);
            Sums<double> pushed;
            Sums<double> sent;
            Selection selection;
            const auto doubles = [](const std::vector<float>& values) {
                return std::vector<double>(values.begin(), values.end());
            };
            for (int round = 0; round < 200; ++round) {
                const Call<float> call = random_floats(random);
                REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
                const auto exact = doubles(call.values);
                const auto rounded = doubles(typed<float>(selection.values));
                for (size_t i = 0; i < call.keys.size(); ++i) {
                    add_row(pushed, call.keys[i], exact.data() + 3 * i, 3);
                    add_row(sent, call.keys[i], rounded.data() + 3 * i, 3);
                }
            }
            std::vector<uint64_t> keys;
            std::vector<std::byte> rows;
            held.take_all(keys, rows);
            const auto rests = doubles(typed<float>(rows));
            double greatest = 0;
            for (size_t i = 0; i < keys.size(); ++i)
                add_row(sent, keys[i], rests.data() + 3 * i, 3);
            REQUIRE(pushed.size() == sent.size());
            for (const auto& entry : pushed) {
                for (size_t k = 0; k < 3; ++k)
                    greatest = std::max(greatest, std::abs(entry.second[k] - sent[entry.first][k]));
            }
            CHECK(greatest < 200 * 0x1p-24);
        }
    }

    TEST_CASE("each call draws anew") {
        const RowKind floats{ValueType::kFloat32, 1, Combine::kSum};
        HeldBack held(floats, kEnough);
        for (const RoundForm form : kForms) {
            Round selector({.form = form});
            std::vector<float> values(200, form == RoundForm::kFixed32 ? 1e-7F : 0.1F);
            for (size_t i = 0; i < values.size(); i += 2)
                values[i] = 1;
            const auto bytes = std::as_bytes(std::span<const float>(values));
            const PushedRows push{CallKeys(KeyRange{0, 200}), bytes};
            Selection first;
            Selection second;
            REQUIRE(selector.select(floats, push, held, first));
            REQUIRE(selector.select(floats, push, held, second));
            CHECK(first.values != second.values);
        }
    }

    TEST_CASE("rests for which there is no room are left out, and the limit is kept") {
        HeldBack held({ValueType::kFloat32, 1, Combine::kSum}, 100);
        REQUIRE(held.row_count_max() == 1);
        Round selector({.form = RoundForm::kFixed8, .adds_rests = true});
        Selection selection;
        const Call<float> call{{1, 2, 3}, {0.7F, 0.3F, 0.1F}};
        for (int i = 0; i < 10; ++i) {
            REQUIRE(selector.select(held.rows(), call.pushed(), held, selection));
            CHECK(selection.kept_count == 3);
            CHECK(held.row_count() <= 1);
        }
    }

    TEST_CASE("a value that is too great is an error, and what is held stays") {
        HeldBack held({ValueType::kFloat32, 1, Combine::kSum}, kEnough);
        Round selector({.form = RoundForm::kFloat16, .adds_rests = true});
        Selection selection;
        const Call<float> call{{1, 2}, {0.1F, 0.7F}};
        REQUIRE(selector.select(held.rows(), call.pushed(), held, selection));
        const size_t rows = held.row_count();
        const Call<float> great{{1, 2}, {1e6F, 1}};
        CHECK(selector.select(held.rows(), great.pushed(), held, selection).code() ==
              Errc::kOutOfRange);
        CHECK(held.row_count() == rows);
    }

    TEST_CASE("other types than float32 are refused, and rests where pushes are not summed") {
        CHECK(Round({}).check({ValueType::kFloat64, 1, Combine::kSum}).code() ==
              Errc::kTypeMismatch);
        CHECK(Round({}).check({ValueType::kInt32, 1, Combine::kSum}).code() == Errc::kTypeMismatch);
        CHECK(Round({}).check({ValueType::kFloat32, 1, Combine::kMean}));
        const Round with_rests({.adds_rests = true});
        for (const Combine combine : {Combine::kMean, Combine::kMax, Combine::kLast})
            CHECK(with_rests.check({ValueType::kFloat32, 1, combine}).code() ==
                  Errc::kInvalidArgument);
        CHECK(with_rests.holds_back());
        CHECK_FALSE(Round({}).holds_back());
    }

    TEST_CASE("forms are found by their names") {
        for (const RoundForm form : kForms)
            CHECK(round_form_from(to_string(form)) == form);
        CHECK_FALSE(round_form_from("fixed"));
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/selector_chain.h"

#include <cmath>
#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "lib/filter/select/random_skip.h"
#include "lib/filter/select/round.h"
#include "lib/filter/select/significant.h"
#include "lib/filter/select/top_by_budget.h"
#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("selector_chain") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr size_t kEnough = size_t{1} << 20;
    constexpr RowKind kFloats{ValueType::kFloat32, 1, Combine::kSum};

    /// A user's: keeps keys that are multiples of a number, and drops the others.
    class MultiplesOnly final : public Selector {
    public:
        explicit MultiplesOnly(uint64_t of) : of_(of) {}

        [[nodiscard]] Status check(const RowKind&) const override { return {}; }

        [[nodiscard]] bool holds_back() const noexcept override { return false; }

        [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack&,
                                    Selection& selection) override {
            ++calls;
            reset_bits(selection.kept, push.keys.size());
            for (size_t i = 0; i < push.keys.size(); ++i) {
                if (push.keys[i] % of_ == 0) set_bit(selection.kept, i);
            }
            selection.keep_of(push.values, rows.row_bytes());
            return {};
        }

        int calls = 0;

    private:
        uint64_t of_;
    };

    template <class... S>
    SelectorChain chain_of(std::unique_ptr<S>... selectors) {
        std::vector<std::unique_ptr<Selector>> all;
        (all.push_back(std::move(selectors)), ...);
        return SelectorChain(std::move(all));
    }

    }  // namespace

    TEST_CASE("each selector gets what the one before it has kept, in one call") {
        auto twos = std::make_unique<MultiplesOnly>(2);
        const MultiplesOnly& first = *twos;
        SelectorChain chain = chain_of(std::move(twos), std::make_unique<MultiplesOnly>(3),
                                       std::make_unique<MultiplesOnly>(5));
        REQUIRE(chain.check(kFloats));
        CHECK_FALSE(chain.holds_back());
        HeldBack held(kFloats, 0);
        std::vector<float> values;
        for (int i = 0; i < 100; ++i)
            values.push_back(static_cast<float>(i));
        Selection selection;
        const PushedRows push{CallKeys(KeyRange{0, 100}), std::as_bytes(std::span(values))};
        for (int i = 0; i < 3; ++i) {
            REQUIRE(chain.select(kFloats, push, held, selection));
            CHECK(typed<float>(selection.values) == std::vector<float>{0, 30, 60, 90});
            CHECK(selection.kept.size() == 13);
            CHECK(count_bits(selection.kept) == 4);
            CHECK(has_bit(selection.kept, 60));
        }
        CHECK(first.calls == 3);
    }

    TEST_CASE("what two selectors hold and what travels is what was pushed") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        ManualClock clock;
        SelectorChain chain = chain_of(
            std::make_unique<Significant>(Significant::Options{.delta = 4}),
            std::make_unique<TopByBudget>(
                clock, TopByBudget::Options{.bytes_per_second = 1000, .burst_bytes = 500}));
        REQUIRE(chain.check(kFloats));
        CHECK(chain.holds_back());
        for (const size_t bytes_max : {size_t{500}, kEnough}) {
            HeldBack held(kFloats, bytes_max);
            Sums<float> pushed;
            Sums<float> sent;
            Selection selection;
            for (int round = 0; round < 300; ++round) {
                clock.advance(random.below(500 * kMillisecond));
                const Call<float> call = random_call<float>(random, 1, 300, 6);
                REQUIRE(chain.select(kFloats, call.pushed(), held, selection));
                add_call(pushed, call, 1);
                add_selection(sent, call, selection, 1);
                REQUIRE(held.bytes() <= bytes_max);
            }
            add_held(sent, held, 1);
            CHECK(same_sums(pushed, sent));
        }
    }

    TEST_CASE("rounding is the last, and rounds what is kept") {
        const SelectorChain wrong =
            chain_of(std::make_unique<Round>(Round::Options{}), std::make_unique<MultiplesOnly>(2));
        CHECK(wrong.check(kFloats).code() == Errc::kInvalidArgument);
        SelectorChain chain = chain_of(std::make_unique<MultiplesOnly>(2),
                                       std::make_unique<Round>(Round::Options{.adds_rests = true}));
        REQUIRE(chain.check(kFloats));
        CHECK(chain.rounds());
        HeldBack held(kFloats, kEnough);
        Selection selection;
        const Call<float> call{{1, 2, 3, 4}, {0.1F, 0.2F, 0.3F, 0.4F}};
        REQUIRE(chain.select(kFloats, call.pushed(), held, selection));
        CHECK(selection.kept == std::vector{std::byte{10}});
        const auto values = typed<float>(selection.values);
        REQUIRE(values.size() == 2);
        for (const size_t i : {0, 1}) {
            CHECK(std::abs(values[i] - call.values[2 * i + 1]) <= 0x1p-8F);
            CHECK(std::trunc(values[i] * 0x1p8F) == values[i] * 0x1p8F);
        }
    }

    TEST_CASE("a selector that refuses a table, or fails, ends the chain") {
        SelectorChain chain =
            chain_of(std::make_unique<MultiplesOnly>(1), std::make_unique<RandomSkip>(0.9, 1));
        const RowKind integers{ValueType::kInt32, 1, Combine::kSum};
        CHECK(chain.check(integers).code() == Errc::kTypeMismatch);
        HeldBack held(kFloats, kEnough);
        Selection selection;
        const Call<float> call{{1, 2, 3, 4}, std::vector<float>(4, 3.4e38F)};
        CHECK(chain.select(kFloats, call.pushed(), held, selection).code() == Errc::kNotFinite);
    }
}

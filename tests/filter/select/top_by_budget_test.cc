// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/top_by_budget.h"

#include <doctest/doctest.h>

#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("top_by_budget") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr size_t kEnough = size_t{1} << 20;
    constexpr RowKind kFloats{ValueType::kFloat32, 1, Combine::kSum};
    constexpr uint64_t kEntry = 12;  // bytes of a key and a float

    template <class T>
    void check_history(uint32_t width, size_t bytes_max, uint64_t seed) {
        Random random(seed);
        const RowKind rows{value_type_of<T>(), width, Combine::kSum};
        const size_t entry_bytes = rows.row_bytes() + 8;
        const TopByBudget::Options options{.bytes_per_second = 100 * entry_bytes,
                                           .burst_bytes = 50 * entry_bytes};
        ManualClock clock;
        const uint64_t begin_ns = clock.now_ns();
        TopByBudget selector(clock, options);
        REQUIRE(selector.check(rows));
        HeldBack held(rows, bytes_max);
        Sums<T> pushed;
        Sums<T> sent;
        Selection selection;
        uint64_t sent_bytes = 0;
        uint64_t forced_calls = 0;
        for (int round = 0; round < 300; ++round) {
            clock.advance(random.below(500 * kMillisecond));
            const Call<T> call = random_call<T>(random, width, 300, 10);
            const bool may_fill = held.row_count() + call.keys.size() > held.row_count_max();
            REQUIRE(selector.select(rows, call.pushed(), held, selection));
            add_call(pushed, call, width);
            add_selection(sent, call, selection, width);
            sent_bytes += selection.kept_count * entry_bytes;
            forced_calls += static_cast<uint64_t>(may_fill);
            REQUIRE(held.bytes() <= bytes_max);
            if (forced_calls != 0) continue;
            const double seconds = static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
            REQUIRE(static_cast<double>(sent_bytes) <=
                    static_cast<double>(options.burst_bytes) +
                        seconds * static_cast<double>(options.bytes_per_second));
        }
        CHECK(sent_bytes > 0);
        CHECK((forced_calls == 0) == (bytes_max == kEnough));
        add_held(sent, held, width);
        CHECK(same_sums(pushed, sent));
    }

    }  // namespace

    TEST_CASE(
        "the greatest changes travel, as many as the budget allows; of equal ones, the first") {
        ManualClock clock;
        TopByBudget selector(clock,
                             {.bytes_per_second = 1000 * kEntry, .burst_bytes = 3 * kEntry + 1});
        HeldBack held(kFloats, kEnough);
        Selection selection;
        const Call<float> call{{1, 2, 3, 4, 5, 6}, {4, -9, 1, 4, 4, 7}};
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(typed<float>(selection.values) == std::vector<float>{4, -9, 7});
        CHECK(held.row_count() == 3);
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(selection.kept_count == 0);
        clock.advance(2 * kMillisecond);
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(typed<float>(selection.values) == std::vector<float>{-18, 14});
        clock.advance(3600 * kSecond);
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(selection.kept_count == 3);
    }

    TEST_CASE("what there is no room for travels, the greatest first, and is paid for later") {
        ManualClock clock;
        TopByBudget selector(clock, {.bytes_per_second = 1000 * kEntry, .burst_bytes = kEntry});
        HeldBack held(kFloats, 2 * (sizeof(float) + KeySlots::kBytesPerKey));
        REQUIRE(held.row_count_max() == 2);
        Selection selection;
        const Call<float> call{{1, 2, 3, 4, 5}, {3, 1, 5, 2, 4}};
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(typed<float>(selection.values) == std::vector<float>{3, 5, 4});
        CHECK(held.row_count() == 2);
        const Call<float> next{{2, 4}, {1, 1}};
        clock.advance(2 * kMillisecond);
        REQUIRE(selector.select(kFloats, next.pushed(), held, selection));
        CHECK(selection.kept_count == 0);
        clock.advance(kMillisecond);
        REQUIRE(selector.select(kFloats, next.pushed(), held, selection));
        CHECK(typed<float>(selection.values) == std::vector<float>{4});
    }

    TEST_CASE("zeros of a sum neither travel nor are held") {
        ManualClock clock;
        TopByBudget selector(clock, {.bytes_per_second = 1, .burst_bytes = 1000});
        HeldBack held(kFloats, kEnough);
        Selection selection;
        const Call<float> call{{1, 2, 3}, {0, 2, 0}};
        REQUIRE(selector.select(kFloats, call.pushed(), held, selection));
        CHECK(selection.kept == std::vector{std::byte{2}});
        CHECK(held.empty());
    }

    TEST_CASE(
        "what travelled and what is held are what was pushed, within the budget and the limit") {
        WEIR_TEST_SEED(seed, 1);
        for (const size_t bytes_max : {size_t{0}, size_t{3'000}, kEnough}) {
            check_history<float>(1, bytes_max, seed);
            check_history<double>(3, bytes_max, seed);
            check_history<int64_t>(1, bytes_max, seed);
            check_history<uint32_t>(1, bytes_max, seed);
        }
    }

    TEST_CASE("a budget that never allows a row is refused, as are tables of means") {
        ManualClock clock;
        const auto code = [&](uint64_t rate, uint64_t burst, const RowKind& rows) {
            return TopByBudget(clock, {.bytes_per_second = rate, .burst_bytes = burst})
                .check(rows)
                .code();
        };
        CHECK(code(1, kEntry, kFloats) == Errc::kOk);
        CHECK(code(0, kEntry, kFloats) == Errc::kInvalidArgument);
        CHECK(code(1, kEntry - 1, kFloats) == Errc::kInvalidArgument);
        CHECK(code(1, kEntry, {ValueType::kFloat32, 1, Combine::kMean}) == Errc::kInvalidArgument);
    }
}

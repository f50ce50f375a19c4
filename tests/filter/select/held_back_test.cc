// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/held_back.h"

#include <map>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/filter/select/select_call.h"
#include "tests/seed.h"

TEST_SUITE("held_back") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr size_t kEnough = size_t{1} << 20;

    /// Holds all of the call, but what there is no room for.
    template <class T>
    Selection hold(HeldBack& held, const Call<T>& call) {
        MergedRows merged;
        Selection selection;
        held.merge(call.pushed().keys, call.pushed().values, merged);
        reset_bits(selection.kept, call.keys.size());
        held.settle(call.pushed().keys, merged.slots, merged.values, selection.kept);
        selection.keep_of(merged.values, held.rows().row_bytes());
        return selection;
    }

    template <class T>
    T held_value(const HeldBack& held, uint64_t key) {
        REQUIRE(held.find(key) != nullptr);
        return typed<T>({held.find(key), sizeof(T)})[0];
    }

    template <class T>
    T after_two(Combine combine, T first, T second) {
        HeldBack held({value_type_of<T>(), 1, combine}, kEnough);
        CHECK(hold<T>(held, {{7}, {first}}).kept_count == 0);
        CHECK(hold<T>(held, {{7}, {second}}).kept_count == 0);
        CHECK(held.row_count() == 1);
        return held_value<T>(held, 7);
    }

    /// Draws which rows of random calls travel. All of it comes together, and the limit is kept.
    template <class T>
    void check_history(uint32_t width, size_t bytes_max, std::optional<KeyRange> dense,
                       uint64_t seed) {
        Random random(seed);
        HeldBack held({value_type_of<T>(), width, Combine::kSum}, bytes_max, dense);
        Sums<T> pushed;
        Sums<T> sent;
        for (int round = 0; round < 300; ++round) {
            const Call<T> call = random_call<T>(random, width, 400, 9);
            add_call(pushed, call, width);
            MergedRows merged;
            Selection selection;
            held.merge(call.pushed().keys, call.pushed().values, merged);
            reset_bits(selection.kept, call.keys.size());
            const uint64_t of_ten = random.below(11);
            for (size_t i = 0; i < call.keys.size(); ++i) {
                if (random.below(10) < of_ten) set_bit(selection.kept, i);
            }
            held.settle(call.pushed().keys, merged.slots, merged.values, selection.kept);
            selection.keep_of(merged.values, held.rows().row_bytes());
            add_selection(sent, call, selection, width);
            REQUIRE(held.bytes() <= bytes_max);
            REQUIRE(held.row_count() <= held.row_count_max());
            if (random.below(30) == 0) {
                add_held(sent, held, width);
                CHECK(held.empty());
                REQUIRE(same_sums(pushed, sent));
            }
        }
        add_held(sent, held, width);
        CHECK(same_sums(pushed, sent));
    }

    }  // namespace

    TEST_CASE("what is held is combined with what comes as the table's rule combines pushes") {
        CHECK(after_two<float>(Combine::kSum, 2, 3) == 5);
        CHECK(after_two<double>(Combine::kMax, 4, 3) == 4);
        CHECK(after_two<int32_t>(Combine::kMin, 4, 3) == 3);
        CHECK(after_two<uint64_t>(Combine::kLast, 4, 3) == 3);
    }

    TEST_CASE("tables that take the mean of pushes are refused") {
        const Status status = HeldBack::check({ValueType::kFloat32, 1, Combine::kMean});
        CHECK(status.code() == Errc::kInvalidArgument);
        CHECK(HeldBack::check({ValueType::kFloat32, 1, Combine::kLast}));
    }

    TEST_CASE(
        "all that was pushed travels or is held, whatever is kept and however little room is") {
        WEIR_TEST_SEED(seed, 1);
        for (const size_t bytes_max : {size_t{0}, size_t{100}, size_t{5'000}, kEnough}) {
            check_history<float>(1, bytes_max, std::nullopt, seed);
            check_history<double>(3, bytes_max, std::nullopt, seed);
            check_history<int64_t>(1, bytes_max, KeyRange{0, 400}, seed);
            check_history<int32_t>(70, bytes_max, KeyRange{0, 400}, seed);
        }
    }

    TEST_CASE("what there is no room for travels, with the rows that are held staying held") {
        const RowKind rows{ValueType::kFloat32, 1, Combine::kSum};
        HeldBack held(rows, 2 * (sizeof(float) + KeySlots::kBytesPerKey));
        REQUIRE(held.row_count_max() == 2);
        CHECK(hold<float>(held, {{1, 2}, {10, 20}}).kept_count == 0);
        const Selection selection = hold<float>(held, {{1, 2, 3}, {1, 2, 3}});
        CHECK(selection.kept == std::vector{std::byte{4}});
        CHECK(typed<float>(selection.values) == std::vector<float>{3});
        CHECK(held_value<float>(held, 1) == 11);
        CHECK(held_value<float>(held, 2) == 22);
        CHECK(held.find(3) == nullptr);
    }

    TEST_CASE("a sum of zeros is not held, but a least value of zero is") {
        HeldBack sums({ValueType::kFloat32, 1, Combine::kSum}, kEnough);
        (void)hold<float>(sums, {{1, 2}, {5, 0}});
        CHECK(sums.row_count() == 1);
        (void)hold<float>(sums, {{1}, {-5}});
        CHECK(sums.empty());
        HeldBack least({ValueType::kFloat32, 1, Combine::kMin}, kEnough);
        (void)hold<float>(least, {{1, 2}, {5, 0}});
        CHECK(least.row_count() == 2);
    }

    TEST_CASE("after an undo all is held that was before the call, and nothing else") {
        WEIR_TEST_SEED(seed, 17);
        Random random(seed);
        for (const std::optional<KeyRange> dense :
             {std::optional<KeyRange>(), std::optional(KeyRange{0, 500})}) {
            HeldBack held({ValueType::kFloat32, 2, Combine::kSum}, 12'000, dense);
            const auto all_held = [&] {
                std::map<uint64_t, std::vector<float>> all;
                for (uint64_t key = 0; key < 500; ++key) {
                    if (const std::byte* const row = held.find(key))
                        all[key] = typed<float>({row, 2 * sizeof(float)});
                }
                REQUIRE(all.size() == held.row_count());
                return all;
            };
            uint64_t undone = 0;
            for (int round = 0; round < 300; ++round) {
                const auto before = all_held();
                held.begin_call();
                for (uint64_t settles = 1 + random.below(3); settles > 0; --settles) {
                    const Call<float> call = random_call<float>(random, 2, 500, 9);
                    MergedRows merged;
                    std::vector<std::byte> kept;
                    held.merge(call.pushed().keys, call.pushed().values, merged);
                    reset_bits(kept, call.keys.size());
                    for (size_t i = 0; i < call.keys.size(); ++i) {
                        if (random.below(3) == 0) set_bit(kept, i);
                    }
                    held.settle(call.pushed().keys, merged.slots, merged.values, kept);
                    std::vector<uint64_t> keys;
                    std::vector<std::byte> rows;
                    if (random.below(6) == 0) held.take_all(keys, rows);
                }
                undone += all_held() != before ? 1 : 0;
                if (random.below(3) == 0) {
                    held.end_call();
                } else {
                    held.undo();
                    REQUIRE(all_held() == before);
                }
            }
            CHECK(undone > 100);
        }
    }

    TEST_CASE("sums of finite rows that are none are seen") {
        HeldBack held({ValueType::kFloat32, 1, Combine::kSum}, kEnough);
        (void)hold<float>(held, {{3, 7}, {1e38F, 3e38F}});
        held.begin_call();
        (void)hold<float>(held, {{3}, {1e38F}});
        CHECK_FALSE(held.overflowed_key());
        (void)hold<float>(held, {{3, 7}, {1, 3e38F}});
        CHECK(held.overflowed_key() == 7U);
        held.undo();
        held.begin_call();
        CHECK_FALSE(held.overflowed_key());
        CHECK(held_value<float>(held, 7) == 3e38F);
    }

    TEST_CASE("a merge that is not settled changes nothing") {
        HeldBack held({ValueType::kInt32, 1, Combine::kSum}, kEnough);
        (void)hold<int32_t>(held, {{4}, {5}});
        const std::vector<int32_t> more{1};
        MergedRows merged;
        held.merge(CallKeys(KeyRange{4, 5}), std::as_bytes(std::span(more)), merged);
        CHECK(typed<int32_t>(merged.values)[0] == 6);
        CHECK(merged.held_count == 1);
        CHECK(held_value<int32_t>(held, 4) == 5);
    }
}

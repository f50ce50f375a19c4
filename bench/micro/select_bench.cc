// SPDX-License-Identifier: Apache-2.0
// What selectors cost a call of push, beside copying its values once.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bench/micro/beside.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/filter/body.h"
#include "lib/filter/select/block_round.h"
#include "lib/filter/select/random_skip.h"
#include "lib/filter/select/round.h"
#include "lib/filter/select/significant.h"
#include "lib/filter/select/tail.h"
#include "lib/filter/select/top_by_budget.h"

namespace weir::bench {
namespace {

std::vector<float> some_values(size_t count) {
    Random random(1);
    std::vector<float> values(count);
    for (float& value : values)
        value = static_cast<float>(random.uniform() - 0.5);
    return values;
}

/// Values, and memory for what becomes of them. All of it was touched.
struct Values {
    explicit Values(size_t count) : values(some_values(count)), copy(count, 1), rounded(count, 1) {}

    std::vector<float> values;
    std::vector<float> copy;
    std::vector<float> rounded;
};

void copy_values(Values& on) {
    std::memcpy(on.copy.data(), on.values.data(), on.values.size() * sizeof(float));
    benchmark::DoNotOptimize(on.copy.data());
    benchmark::ClobberMemory();
}

/// Small ones are repeated, so that the clock can measure them.
size_t repeats_of(size_t count) {
    return std::max<size_t>(1, (size_t{1} << 20) / count);
}

/// The limit: copying the floats.
void round_as(benchmark::State& state, RoundForm form) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Values>(count);
    const size_t repeats = repeats_of(count);
    uint64_t seed = 0;
    run_beside(
        state, static_cast<double>(count * repeats),
        [&] {
            for (size_t i = 0; i < repeats; ++i) {
                WEIR_CHECK(round_values(form, on.values, ++seed, on.rounded));
                benchmark::ClobberMemory();
            }
        },
        [&] {
            for (size_t i = 0; i < repeats; ++i)
                copy_values(on);
        });
}

/// Rounded, and encoded as they travel. The limit: copying the floats.
void round_and_encode(benchmark::State& state, RoundForm form, Codecs codecs) {
    const auto count = static_cast<uint32_t>(state.range(0));
    auto& on = prepared<Values>(count);
    const size_t repeats = repeats_of(count);
    uint64_t seed = 0;
    BodyEncoder encoder;
    const BodyForm rows{ValueType::kFloat32, 1, count};
    run_beside(
        state, static_cast<double>(count * repeats),
        [&] {
            for (size_t i = 0; i < repeats; ++i) {
                WEIR_CHECK(round_values(form, on.values, ++seed, on.rounded));
                WEIR_CHECK(
                    encoder.encode({.form = rows, .rows = std::as_bytes(std::span(on.rounded))},
                                   codecs) != 0);
                benchmark::ClobberMemory();
            }
        },
        [&] {
            for (size_t i = 0; i < repeats; ++i)
                copy_values(on);
        });
    state.counters["bytes_a_value"] =
        static_cast<double>(encoder.body().size()) / static_cast<double>(count);
}

/// The limit: copying the floats that it makes.
void decode_rounded(benchmark::State& state, RoundForm form, Codecs codecs) {
    const auto count = static_cast<uint32_t>(state.range(0));
    auto& on = prepared<Values>(count);
    const size_t repeats = repeats_of(count);
    BodyEncoder encoder;
    BodyDecoder decoder;
    const BodyForm rows{ValueType::kFloat32, 1, count};
    WEIR_CHECK(round_values(form, on.values, 1, on.rounded));
    const Codecs used =
        encoder.encode({.form = rows, .rows = std::as_bytes(std::span(on.rounded))}, codecs);
    run_beside(
        state, static_cast<double>(count * repeats),
        [&] {
            for (size_t i = 0; i < repeats; ++i) {
                WEIR_CHECK(decoder.decode(rows, used, encoder.body()).has_value());
                benchmark::ClobberMemory();
            }
        },
        [&] {
            for (size_t i = 0; i < repeats; ++i)
                copy_values(on);
        });
}

constexpr Codecs kRounded = kIntegers | kHalvesB | kHalves;

#define WEIR_ROUND_BENCH(form)                                              \
    BENCHMARK_CAPTURE(round_as, form, RoundForm::k##form)                   \
        ->Arg(1000)                                                         \
        ->Arg(262'144)                                                      \
        ->Arg(16'000'000)                                                   \
        ->UseManualTime();                                                  \
    BENCHMARK_CAPTURE(round_and_encode, form, RoundForm::k##form, kRounded) \
        ->Arg(1000)                                                         \
        ->Arg(262'144)                                                      \
        ->Arg(16'000'000)                                                   \
        ->UseManualTime();                                                  \
    BENCHMARK_CAPTURE(decode_rounded, form, RoundForm::k##form, kRounded)   \
        ->Arg(1000)                                                         \
        ->Arg(262'144)                                                      \
        ->Arg(16'000'000)                                                   \
        ->UseManualTime()

WEIR_ROUND_BENCH(Fixed8);
WEIR_ROUND_BENCH(Fixed16);
WEIR_ROUND_BENCH(BFloat16);
WEIR_ROUND_BENCH(Float16);

/// Calls of random keys, of which each tenth is in the next call, too; or of the range of a dense
/// table.
struct Calls {
    Calls(size_t count, uint32_t width) : kind{ValueType::kFloat32, width}, values(count * width) {
        Random random(1);
        for (auto& keys : lists) {
            for (size_t i = 0; i < count; ++i)
                keys.push_back(mix64(random.below(10 * count)));
            std::ranges::sort(keys);
            keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        }
    }

    [[nodiscard]] PushedRows next() {
        if (is_dense)
            return {CallKeys(KeyRange{0, values.values.size() / kind.width}),
                    std::as_bytes(std::span<const float>(values.values))};
        const auto& keys = lists[++calls % lists.size()];
        const std::span<const float> rows =
            std::span(values.values).first(keys.size() * kind.width);
        return {CallKeys(std::span<const uint64_t>(keys)), std::as_bytes(rows)};
    }

    RowKind kind;
    Values values;
    std::array<std::vector<uint64_t>, 8> lists;
    size_t calls = 0;
    bool is_dense = false;
    Selection selection;
};

/// The limit: copying the rows of a call. The number of keys: range(0), and their width: range(1).
void select_with(benchmark::State& state, Selector& selector, bool is_dense = false) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& calls = prepared<Calls>(count, static_cast<uint32_t>(state.range(1)));
    calls.is_dense = is_dense;
    const KeyRange range{0, count};
    HeldBack held(calls.kind, size_t{1} << 32, is_dense ? std::optional(range) : std::nullopt);
    const size_t repeats = std::max<size_t>(8, repeats_of(count) / 16);
    for (size_t i = 0; i < 32; ++i)  // until no memory is allocated
        WEIR_CHECK(selector.select(calls.kind, calls.next(), held, calls.selection));
    run_beside(
        state, static_cast<double>(count * repeats),
        [&] {
            for (size_t i = 0; i < repeats; ++i)
                WEIR_CHECK(selector.select(calls.kind, calls.next(), held, calls.selection));
        },
        [&] {
            for (size_t i = 0; i < repeats; ++i)
                copy_values(calls.values);
        });
    state.counters["held"] = static_cast<double>(held.row_count());
}

void significant(benchmark::State& state) {
    Significant selector({.delta = 0.3});
    select_with(state, selector);
}

void significant_dense(benchmark::State& state) {
    Significant selector({.delta = 0.3});
    select_with(state, selector, true);
}

void random_skip(benchmark::State& state) {
    RandomSkip selector(0.25, 1);
    select_with(state, selector);
}

void top_by_budget(benchmark::State& state) {
    const SteadyClock clock;
    TopByBudget selector(clock, {.bytes_per_second = 1'000'000'000, .burst_bytes = 1 << 20});
    select_with(state, selector);
}

void tail(benchmark::State& state) {
    Tail selector = std::move(Tail::make({.first_kept = 100})).value();
    select_with(state, selector);
}

void round_with_rests(benchmark::State& state) {
    Round selector({.form = RoundForm::kFixed8, .adds_rests = true});
    select_with(state, selector);
}

#define WEIR_SELECT_BENCH(name) \
    BENCHMARK(name)->Args({1000, 1})->Args({100'000, 1})->Args({10'000, 32})->UseManualTime()

WEIR_SELECT_BENCH(significant);
WEIR_SELECT_BENCH(significant_dense);
WEIR_SELECT_BENCH(random_skip);
WEIR_SELECT_BENCH(top_by_budget);
WEIR_SELECT_BENCH(tail);
WEIR_SELECT_BENCH(round_with_rests);

}  // namespace
}  // namespace weir::bench

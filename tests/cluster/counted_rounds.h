// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CountedRounds: parts of iterations that can be told apart, as CountedPushes does for pushes
/// outside of them; and the rules that notice iterations or states that are not where they belong.

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/builtin_rules.h"

namespace weir::test {

constexpr uint64_t kBrokenValue = uint64_t{1} << 63;
constexpr uint64_t kMomentumOfRows = 3;

/// The sum of what was pushed. An iteration adds higher bits than all before it: if it does not,
/// kBrokenValue says so.
struct RoundsInOrder : rules::Plain {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        if (*pushed == 0) return;
        value = *pushed > value ? value + *pushed : value | kBrokenValue;
    }
};

/// The same, with a state that must be where the values are.
struct RoundsWithState : rules::Plain {
    static constexpr uint32_t kStateValues = 1;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext& context) {
        if (*pushed == 0) return;
        const bool is_whole = *state == value;
        RoundsInOrder::update<T>(value, nullptr, pushed, context);
        if (!is_whole) value |= kBrokenValue;
        *state = value;
    }
};

/// `add`, with a state that must be where the values are.
struct AddWithState : rules::Plain {
    static constexpr uint32_t kStateValues = 1;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext&) {
        value = *state == value ? value + *pushed : value | kBrokenValue;
        *state = value;
    }
};

/// The iterations of a table of uint64_t with the rule RoundsInOrder: each worker has a bit of its
/// own in each of them.
///
/// Thread: one
class CountedRounds {
public:
    static constexpr uint64_t kRounds = 12;
    static constexpr uint32_t kWorkers = 5;  ///< all that there ever are

    explicit CountedRounds(uint64_t key_count)
        : pushed_(kRounds + 1, std::vector<uint64_t>(key_count)),
          perhaps_(pushed_),
          certain_(key_count),
          may_fail_(kRounds + 1),
          differs_(kRounds + 1) {}

    /// A worker pushes its part of an iteration: these are its values.
    [[nodiscard]] std::vector<uint64_t> begin_push(uint64_t iteration, uint32_t worker,
                                                   std::span<const uint64_t> keys) {
        const uint64_t bit = uint64_t{1} << ((iteration - 1) * kWorkers + worker);
        for (const uint64_t key : keys)
            pushed_[iteration][key] |= bit;
        return std::vector<uint64_t>(keys.size(), bit);
    }

    /// What a worker's part of an iteration brings as the argument "factor"; 1 if it brings none.
    [[nodiscard]] uint64_t factor(uint64_t iteration, uint32_t worker) const {
        return 1 + iteration % 3 + (differs_[iteration] >> worker & 1);
    }

    /// This worker brings another argument than all others: the iteration fails wherever their parts meet.
    void let_differ(uint64_t iteration, uint32_t worker) {
        differs_[iteration] |= uint64_t{1} << worker;
        let_fail(iteration);
    }

    [[nodiscard]] bool may_differ(uint64_t iteration) const { return differs_[iteration] != 0; }

    /// A row of a table with the rule RoundsByRow: what all else in it must be follows from the bits.
    void check_row(uint64_t key, std::span<const uint64_t> row) const {
        uint64_t sum = 0;
        uint64_t steps = 0;
        for (uint64_t t = 1; t <= kRounds; ++t) {
            const uint64_t mask = ((uint64_t{1} << kWorkers) - 1) << ((t - 1) * kWorkers);
            const uint64_t bits = row[0] & mask;
            if (bits == 0) continue;
            const uint64_t workers = bits >> ((t - 1) * kWorkers);
            const uint64_t first = factor(t, static_cast<uint32_t>(std::countr_zero(workers)));
            for (uint32_t worker = 0; worker < kWorkers; ++worker) {
                INFO("iteration " << t << " was applied with parts of other arguments");
                if ((workers >> worker & 1) != 0) REQUIRE(factor(t, worker) == first);
            }
            sum = kMomentumOfRows * sum + bits * first;
            ++steps;
        }
        INFO("key " << key << " has " << row[0] << " " << row[1] << " " << row[2] << " " << row[3]);
        REQUIRE(row[1] == sum);
        REQUIRE(row[2] == steps);
        REQUIRE(row[3] == steps * key);
    }

    /// A worker may withdraw its part of an iteration: that fails then wherever it is still open.
    void let_fail(uint64_t iteration) { may_fail_[iteration] = true; }

    [[nodiscard]] bool may_fail(uint64_t iteration) const { return may_fail_[iteration]; }

    /// The worker of a part has died before it had an answer: the part counts where it arrived.
    void give_up_push(uint64_t iteration, std::span<const uint64_t> keys,
                      std::span<const uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i) {
            pushed_[iteration][keys[i]] &= ~values[i];
            perhaps_[iteration][keys[i]] |= values[i];
        }
    }

    /// A part was acknowledged: pulls that begin from now on show it.
    void end_push(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i)
            certain_[keys[i]] |= values[i];
    }

    /// A pull that names an iteration begins. What it must show is kept by its caller, by key.
    [[nodiscard]] std::vector<uint64_t> begin_pull() const { return certain_; }

    /// Such a pull has shown a value of a key; `before` is what was certain when it began.
    void end_pull(uint64_t key, uint64_t value, uint64_t shown, uint64_t before) {
        check(key, value, shown);
        INFO("key " << key << " has " << value << ", certain was " << before);
        REQUIRE((value & before) == before);
        certain_[key] |= value;
    }

    /// All parts of each iteration up to `shown`; of a later one, or one that may fail, all or none,
    /// because another shard may show more.
    void check(uint64_t key, uint64_t value, uint64_t shown) const {
        INFO("key " << key << " has " << value << ", shown " << shown);
        REQUIRE(value < kBrokenValue);
        for (uint64_t t = 1; t <= kRounds; ++t) {
            const uint64_t mask = ((uint64_t{1} << kWorkers) - 1) << ((t - 1) * kWorkers);
            const uint64_t certain = value & mask & ~perhaps_[t][key];
            const bool is_due = t <= shown && !may_fail_[t];
            if (certain == pushed_[t][key] || (!is_due && certain == 0)) continue;
            FAIL("iteration " << t << " was pushed as " << pushed_[t][key] << ", perhaps with "
                              << perhaps_[t][key] << ", and shows " << certain);
        }
    }

private:
    /// By iteration and key: the bits that were pushed.
    std::vector<std::vector<uint64_t>> pushed_;
    /// The same, of parts that were given up.
    std::vector<std::vector<uint64_t>> perhaps_;
    std::vector<uint64_t> certain_;  ///< by key: what was acknowledged, or shown by a pull
    std::vector<bool> may_fail_;     ///< by iteration
    std::vector<uint64_t> differs_;  ///< by iteration: workers
};

}  // namespace weir::test

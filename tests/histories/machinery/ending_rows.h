// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// EndingRows: the keys of an erasable table that one worker of a history pushes, erases and lets expire.
/// Nobody else changes them, so it is known what they must show.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace weir::test {

/// A worker's changes of a key take effect in the order in which they begin. One that was acknowledged has taken
/// effect; one that is open, or was given up, may have. So a key has some states that are possible.
///
/// Thread: one
class EndingRows {
public:
    static constexpr uint64_t kKeys = 64;       ///< of each worker
    static constexpr uint64_t kFirstValue = 3;  ///< of keys that were never pushed
    static constexpr uint32_t kStampsMax = 40;

    enum class Kind : uint8_t { kPush, kErase, kExpire };

    struct Change {
        Kind kind = Kind::kPush;
        uint32_t stamp = 0;  ///< of a push; kExpire: rows with a lower one
        bool is_certain = false;
    };

    explicit EndingRows(uint64_t first_key) : first_key_(first_key), of_key_(kKeys) {}

    /// Returns the number of the change.
    size_t begin(std::span<const uint64_t> keys, Change change) {
        changes_.push_back(change);
        for (const uint64_t key : keys)
            of_key_[key - first_key_].push_back(changes_.size() - 1);
        return changes_.size() - 1;
    }

    void acknowledged(size_t change) { changes_[change].is_certain = true; }

    /// When no change is open.
    void check(uint64_t key, uint64_t value) const {
        const auto states = states_of(key);
        INFO("key " << key << " has " << value << "; " << states.size() << " states are possible, "
                    << (states.front().pushes + kFirstValue) << " and others");
        REQUIRE(std::ranges::any_of(
            states, [&](const State& state) { return state.pushes + kFirstValue == value; }));
    }

    void check_written(uint64_t key, bool is_written) const {
        INFO("key " << key << " has a row: " << is_written);
        REQUIRE(std::ranges::any_of(
            states_of(key), [&](const State& state) { return (state.stamp != 0) == is_written; }));
    }

private:
    struct State {
        uint64_t pushes = 0;  ///< since it was erased
        uint32_t stamp = 0;   ///< 0: it has no row
        friend bool operator==(const State&, const State&) = default;
    };

    static State after(const State& state, const Change& change) {
        if (change.kind == Kind::kPush)
            return {state.pushes + 1, std::max(state.stamp, change.stamp)};
        const bool stays = change.kind == Kind::kExpire && state.stamp >= change.stamp;
        return stays ? state : State();
    }

    [[nodiscard]] std::vector<State> states_of(uint64_t key) const {
        std::vector<State> states{State()};
        for (const size_t number : of_key_[key - first_key_]) {
            std::vector<State> next;
            const auto add = [&](const State& state) {
                if (std::ranges::find(next, state) == next.end()) next.push_back(state);
            };
            for (const State& state : states) {
                add(after(state, changes_[number]));
                if (!changes_[number].is_certain) add(state);
            }
            states = std::move(next);
        }
        return states;
    }

    uint64_t first_key_;
    std::vector<Change> changes_;
    std::vector<std::vector<size_t>> of_key_;
};

}  // namespace weir::test

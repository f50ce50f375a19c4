// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CountedPushes: pushes into one table that can be told apart. Every push of a key adds a bit of
/// its own. So the sum of a key says which pushes it has counted, a push counted twice carries into
/// other bits, and one order of a key's pushes and pulls, in which nothing stands before what had
/// ended when it began, explains all pulls of that key if and only if each has every bit that was
/// certain when it began (a push was acknowledged, or a pull had shown it) and none of a push that
/// began after its end; with a bit it has all that were certain when that push began; and of any two
/// pulls one has all bits of the other.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

namespace weir::test {

/// A table of uint64_t with the rule `add`.
///
/// Thread: one
class CountedPushes {
public:
    static constexpr uint64_t kPushesMax = 63;  ///< of one key

    CountedPushes(uint64_t key_count, uint32_t width, uint64_t pushes_max = kPushesMax)
        : width_(width),
          pushes_max_(pushes_max),
          used_(key_count),
          issued_(key_count),
          certain_(key_count),
          given_up_(key_count),
          certain_before_push_(key_count),
          pulled_(key_count) {}

    [[nodiscard]] uint64_t key_count() const { return used_.size(); }

    [[nodiscard]] uint32_t width() const { return width_; }

    [[nodiscard]] bool may_push(std::span<const uint64_t> keys) const {
        return std::ranges::all_of(keys, [&](uint64_t key) { return used_[key] < pushes_max_; });
    }

    /// A push begins: these are its values.
    void begin_push(std::span<const uint64_t> keys, std::span<uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i) {
            const uint64_t key = keys[i];
            const uint64_t bit = uint64_t{1} << used_[key]++;
            issued_[key] |= bit;
            certain_before_push_[key].push_back(certain_[key]);
            std::ranges::fill(values.subspan(i * width_, width_), bit);
        }
    }

    /// A pull begins. What it must show is kept by its caller.
    [[nodiscard]] std::vector<uint64_t> begin_pull() const { return certain_; }

    /// A push with these values was acknowledged.
    void end_push(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i)
            certain_[keys[i]] |= values[i * width_];
    }

    /// A push with these values was given up, or its worker has died: it may have been applied, and
    /// may still be, once at most.
    void give_up_push(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i)
            given_up_[keys[i]] |= values[i * width_];
    }

    /// A push with these values was never sent: no pull shows it.
    void never_sent(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        for (size_t i = 0; i < keys.size(); ++i)
            issued_[keys[i]] &= ~values[i * width_];
    }

    /// From now on a pull may show a push that was not acknowledged, and a later pull not: the server
    /// has died meanwhile, and the push was in no backup.
    void take_back() { may_take_back_ = true; }

    /// A pull has shown these values; `before` is what begin_pull() returned.
    void end_pull(std::span<const uint64_t> keys, std::span<const uint64_t> values,
                  std::span<const uint64_t> before) {
        for (size_t i = 0; i < keys.size(); ++i) {
            const uint64_t key = keys[i];
            const uint64_t value = values[i * width_];
            INFO("key " << key << " of " << keys.size() << " shows " << value << ", certain was "
                        << before[key] << ", issued " << issued_[key] << ", width " << width_);
            REQUIRE(all_are(value, values.subspan(i * width_, width_)));  // they change together
            REQUIRE(has_all(value, before[key]));
            REQUIRE(has_all(issued_[key], value));
            REQUIRE(shows_what_was_before(key, value));
            if (may_take_back_) continue;
            REQUIRE(is_in_line(key, value));
            pulled_[key].push_back(value);
            certain_[key] |= value;
        }
    }

    /// All values at the end, when no push is open: every acknowledged push is counted once, and one
    /// that was given up at most once.
    void check_all(std::span<const uint64_t> values) const {
        for (uint64_t key = 0; key < key_count(); ++key) {
            check(key, values[key * width_]);
            REQUIRE(all_are(values[key * width_], values.subspan(key * width_, width_)));
        }
    }

    /// The same of one key.
    void check(uint64_t key, uint64_t value) const {
        INFO("key " << key << " has " << value << ", not " << certain_[key] << ", given up "
                    << given_up_[key]);
        REQUIRE(has_all(value, certain_[key]));
        REQUIRE(has_all(certain_[key] | given_up_[key], value));
    }

    [[nodiscard]] bool has_all_certain(uint64_t key, uint64_t value) const {
        return has_all(value, certain_[key]);
    }

    [[nodiscard]] bool has_begun(uint64_t key, uint64_t value) const {
        return has_all(issued_[key], value);
    }

private:
    static bool has_all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

    static bool all_are(uint64_t value, std::span<const uint64_t> values) {
        return std::ranges::all_of(values, [&](uint64_t other) { return other == value; });
    }

    /// With every push that a pulled value shows, what was certain when that push began.
    [[nodiscard]] bool shows_what_was_before(uint64_t key, uint64_t value) const {
        uint64_t before = 0;
        for (size_t push = 0; push < certain_before_push_[key].size(); ++push) {
            if ((value >> push & 1) != 0) before |= certain_before_push_[key][push];
        }
        return has_all(value, before);
    }

    /// Whether it comes before or after every value that was pulled so far.
    [[nodiscard]] bool is_in_line(uint64_t key, uint64_t value) const {
        return std::ranges::all_of(pulled_[key], [&](uint64_t other) {
            return has_all(value, other) || has_all(other, value);
        });
    }

    uint32_t width_;
    uint64_t pushes_max_;
    bool may_take_back_ = false;
    std::vector<uint64_t> used_;     ///< by key: pushes so far
    std::vector<uint64_t> issued_;   ///< their bits
    std::vector<uint64_t> certain_;  ///< those acknowledged, or shown by a pull that has ended
    std::vector<uint64_t> given_up_;
    /// By key, of each of its pushes: what was certain when it began.
    std::vector<std::vector<uint64_t>> certain_before_push_;
    std::vector<std::vector<uint64_t>> pulled_;
};

}  // namespace weir::test

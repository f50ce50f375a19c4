// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CountedTable: a table of a history that is pushed to outside of iterations. What its rows must show of
/// the pushes, of their arguments, and of what keys begin with.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/initial_rows.h"
#include "lib/store/table_schema.h"
#include "tests/cluster/counted_pushes.h"
#include "tests/cluster/row_rules.h"
#include "tests/histories/machinery/narrow_rows.h"

namespace weir::test {

/// The values of a plain table are the bits of CountedPushes; those of a table with the rule StepsByRow are
/// doubles, whose bytes travel as those of uint64_t; those of a narrow table are NarrowCounts.
///
/// Thread: one
class CountedTable {
public:
    static constexpr const char* kByRow = "steps_by_row";

    explicit CountedTable(const TableSchema& schema, uint64_t key_count)
        : width_(is_narrow(schema.value_type) ? NarrowCounts::kWords : schema.width),
          is_by_row_(schema.rule == kByRow),
          is_narrow_(is_narrow(schema.value_type)),
          initial_(schema.initial_value, schema.value_type, schema.width),
          constant_(schema.initial_value.first),
          pushes_(key_count, is_plain() ? schema.width : 1, is_by_row_ ? kBitsOfRows : kBits),
          factors_(key_count),
          refused_(key_count),
          is_kept_(key_count) {}

    /// 8-byte words of a row in callers' memory.
    [[nodiscard]] uint32_t width() const { return width_; }

    [[nodiscard]] bool is_by_row() const { return is_by_row_; }

    [[nodiscard]] bool may_push(std::span<const uint64_t> keys) const {
        return pushes_.may_push(keys);
    }

    void take_back() { pushes_.take_back(); }

    /// `factor`: the argument of the push, or what it is if it brings none.
    void begin_push(std::span<const uint64_t> keys, std::span<uint64_t> values, uint64_t factor) {
        if (is_plain()) return pushes_.begin_push(keys, values);
        std::vector<uint64_t> bits(keys.size());
        pushes_.begin_push(keys, bits);
        for (size_t i = 0; i < keys.size(); ++i) {
            if (is_narrow_) {
                NarrowCounts::push(bits[i], values.subspan(i * width_, width_));
                continue;
            }
            factors_[keys[i]].push_back(factor);
            const auto value = std::bit_cast<uint64_t>(static_cast<double>(bits[i]));
            std::ranges::fill(values.subspan(i * width_, width_), value);
        }
    }

    /// The rule is to refuse the i-th key of a push, by an exception.
    void refuse(uint64_t key, std::span<uint64_t> values) {
        refused_[key] |= bit_of(values[0]);
        for (uint64_t& value : values)
            value ^= uint64_t{1} << 63;  // the sign of a double
    }

    [[nodiscard]] std::vector<uint64_t> begin_pull() const { return pushes_.begin_pull(); }

    void end_push(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        is_plain() ? pushes_.end_push(keys, values) : pushes_.end_push(keys, bits_of(values));
    }

    void give_up_push(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        is_plain() ? pushes_.give_up_push(keys, values)
                   : pushes_.give_up_push(keys, bits_of(values));
    }

    void never_sent(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
        is_plain() ? pushes_.never_sent(keys, values) : pushes_.never_sent(keys, bits_of(values));
    }

    void end_pull(std::span<const uint64_t> keys, std::span<const uint64_t> values,
                  std::span<const uint64_t> before) {
        if (is_plain()) return pushes_.end_pull(keys, values, before);
        std::vector<uint64_t> bits;
        for (size_t i = 0; i < keys.size(); ++i)
            bits.push_back(shown_by(keys[i], values.subspan(i * width_, width_)));
        pushes_.end_pull(keys, bits, before);
    }

    /// A push that wanted values was acknowledged, and has shown these: its own, too.
    void end_push_pull(std::span<const uint64_t> keys, std::span<const uint64_t> values,
                       std::span<const uint64_t> shown, std::vector<uint64_t> before) {
        end_push(keys, values);
        const std::vector<uint64_t> bits = is_plain() ? std::vector<uint64_t>() : bits_of(values);
        for (size_t i = 0; i < keys.size(); ++i)
            before[keys[i]] |= is_plain() ? values[i * width_] : bits[i];
        end_pull(keys, shown, before);
    }

    /// All values at the end, of all keys.
    void check_all(std::span<const uint64_t> values) const {
        if (is_plain()) return pushes_.check_all(values);
        for (uint64_t key = 0; key < factors_.size(); ++key)
            pushes_.check(key, shown_by(key, values.subspan(key * width_, width_)));
    }

    /// A row of some server when the job has ended by an exception. `may_take_over`: and it answers for the
    /// row, or may take over: so it has nothing of what the rule has refused.
    void note_copy(uint64_t key, std::span<const uint64_t> row, bool may_take_over) {
        uint64_t bits = row[0];
        if (is_by_row_) bits = is_as_begun(key, row) ? 0 : bit_of(row[1]);
        if (is_narrow_) bits = NarrowCounts::shown_by(row);
        if (pushes_.has_all_certain(key, bits)) is_kept_[key] = true;
        if (!may_take_over) return;
        if (is_by_row_) bits = shown_by(key, row);
        INFO("key " << key << " has " << bits << ", refused " << refused_[key]);
        REQUIRE((bits & refused_[key]) == 0);
        REQUIRE(pushes_.has_begun(key, bits));
    }

    /// All have been noted: what was acknowledged of a key is in one of them.
    void check_copies() const {
        for (uint64_t key = 0; key < is_kept_.size(); ++key) {
            INFO("key " << key);
            REQUIRE((is_kept_[key] || pushes_.has_all_certain(key, 0)));
        }
    }

    /// Pushes are added, and are the bits of CountedPushes.
    [[nodiscard]] bool is_plain() const { return !is_by_row_ && !is_narrow_; }

private:
    static constexpr uint64_t kBits = CountedPushes::kPushesMax;

    static constexpr uint64_t kBitsOfRows = 50;  // with factors, exact in a double

    static uint64_t bit_of(uint64_t value) {
        const double bit = std::bit_cast<double>(value);
        return static_cast<uint64_t>(bit < 0 ? -bit : bit);
    }

    [[nodiscard]] std::vector<uint64_t> bits_of(std::span<const uint64_t> values) const {
        std::vector<uint64_t> bits;
        for (size_t i = 0; i < values.size(); i += width_)
            bits.push_back(is_narrow_ ? NarrowCounts::pushed(values.subspan(i, width_))
                                      : bit_of(values[i]));
        return bits;
    }

    using Row = std::array<double, StepsByRow::kWidth>;

    [[nodiscard]] Row begin_of(uint64_t key) const {
        Row begin{};
        begin.fill(constant_);
        if (initial_.are_random()) initial_.fill(key, reinterpret_cast<std::byte*>(begin.data()));
        return begin;
    }

    static Row numbers(std::span<const uint64_t> row) {
        Row is{};
        std::ranges::transform(row, is.begin(),
                               [](uint64_t value) { return std::bit_cast<double>(value); });
        return is;
    }

    [[nodiscard]] bool is_as_begun(uint64_t key, std::span<const uint64_t> row) const {
        return numbers(row) == begin_of(key);
    }

    /// The bits that a row shows. All else in it must follow from them.
    [[nodiscard]] uint64_t shown_by(uint64_t key, std::span<const uint64_t> row) const {
        if (is_narrow_) return NarrowCounts::shown_by(row);
        const Row begin = begin_of(key);
        const Row is = numbers(row);
        INFO("key " << key << " has " << is[0] << " " << is[1] << " " << is[2] << " " << is[3]
                    << " " << is[4] << ", began with " << begin[0] << " " << begin[1]);
        REQUIRE(is[0] == begin[0]);
        if (is == begin) return 0;
        REQUIRE(is[1] >= 1);
        const auto bits = static_cast<uint64_t>(is[1]);
        double weighed = 0;
        for (size_t push = 0; push < factors_[key].size(); ++push)
            weighed += static_cast<double>((bits >> push & 1) * factors_[key][push] << push);
        REQUIRE(is[1] == static_cast<double>(bits));
        REQUIRE(is[2] == weighed);
        REQUIRE(is[3] == std::popcount(bits));
        REQUIRE(is[4] == static_cast<double>(static_cast<uint64_t>(std::popcount(bits)) * key));
        return bits;
    }

    uint32_t width_;
    bool is_by_row_;
    bool is_narrow_;
    InitialRows initial_;
    double constant_;
    CountedPushes pushes_;
    std::vector<std::vector<uint64_t>> factors_;  ///< by key, of each of its pushes
    std::vector<uint64_t> refused_;               ///< by key: bits
    std::vector<bool> is_kept_;                   ///< by key: a copy has all that is certain
};

}  // namespace weir::test

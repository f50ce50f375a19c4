// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NarrowCounts: rows of narrow values that show which pushes they have counted.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/key/narrow_values.h"
#include "lib/store/rules/builtin_rules.h"
#include "lib/store/table_schema.h"

namespace weir::test {

/// `add`, with a state that is the exact sum.
struct AddNarrow : rules::Plain {
    static constexpr const char* kName = "add_narrow";
    static constexpr uint32_t kStateValues = 1;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, float>;

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleContext&) {
        value += *pushed;
        *state += *pushed;
    }
};

/// A table of float with the rule `add`, or one like it, that keeps narrow values. All but two columns have
/// as many bits of pushes as the narrow types hold exactly. What is pushed to these two has to be rounded,
/// stochastically: so only copies that get values, and draw nothing, are equal.
///
/// Callers have floats, two of them in each word of their memory.
class NarrowCounts {
public:
    static constexpr uint32_t kColumns = 10;
    static constexpr uint32_t kWords = kColumns / 2;

    /// Makes such a table of one for other counts.
    static void make(TableSchema& schema, ValueType type) {
        if (schema.rule != "add") schema.rule = AddNarrow::kName;
        schema.value_type = type;
        schema.width = kColumns;
        schema.rounding = Rounding::kStochastic;
    }

    static void push(uint64_t bit, std::span<uint64_t> words) {
        float row[kColumns] = {};
        const auto at = static_cast<uint32_t>(std::countr_zero(bit));
        row[at / kBits] = static_cast<float>(1U << at % kBits);
        row[kColumns - 2] = kStep;
        row[kColumns - 1] = -kStep;
        std::memcpy(words.data(), row, sizeof row);
    }

    /// Of a row that was pushed.
    [[nodiscard]] static uint64_t pushed(std::span<const uint64_t> words) {
        float row[kColumns];
        std::memcpy(row, words.data(), sizeof row);
        return bits_in(row);
    }

    /// Of a row that was pulled. All else in it must follow from them.
    [[nodiscard]] static uint64_t shown_by(std::span<const uint64_t> words) {
        float row[kColumns];
        std::memcpy(row, words.data(), sizeof row);
        const uint64_t bits = bits_in(row);
        const auto pushes = static_cast<float>(std::popcount(bits));
        INFO(row[kColumns - 2] << " and " << row[kColumns - 1] << " after " << pushes << " pushes");
        REQUIRE(std::abs(row[kColumns - 2] - pushes * kStep) <= pushes * kRest);
        REQUIRE(std::abs(row[kColumns - 1] + pushes * kStep) <= pushes * kRest);
        return bits;
    }

    /// Values as they are kept, as a caller has them.
    [[nodiscard]] static std::vector<uint64_t> widened(ValueType type,
                                                       std::span<const std::byte> kept) {
        std::vector<float> floats(kept.size() / size_of(type));
        widen(type, kept, floats.data());
        std::vector<uint64_t> words(floats.size() / 2);
        std::memcpy(words.data(), floats.data(), words.size() * sizeof(uint64_t));
        return words;
    }

private:
    static constexpr uint32_t kBits = 8;  ///< of a column
    static constexpr float kStep = 0.3F;
    static constexpr float kRest = 0.125F;  ///< of one rounding, up to 32

    [[nodiscard]] static uint64_t bits_in(std::span<const float, kColumns> row) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < kColumns - 2; ++i) {
            const auto some = static_cast<uint64_t>(row[i]);
            INFO("column " << i << " has " << row[i]);
            REQUIRE(row[i] == static_cast<float>(some));
            REQUIRE(some < 1U << kBits);
            bits |= some << i * kBits;
        }
        return bits;
    }
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// InitialValue: what keys that were never written read as. InitialRows makes such rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/key/value_type.h"

namespace weir {

/// One number for all, or a random one for each value: the same for the same seed, key and column,
/// whatever server makes it, when, and on which processor.
struct InitialValue {
    enum class Kind : uint8_t { kConstant = 0, kUniform = 1, kNormal = 2 };

    /// Of what is made of a seed: it changes if the same seed gives other values.
    static constexpr uint32_t kGenerator = 1;

    Kind kind = Kind::kConstant;
    double first = 0;        ///< the value; the least one; the mean
    double second = 0;       ///< 0; the greatest value; the standard deviation
    uint64_t seed = 0;       ///< of random values
    uint32_t generator = 0;  ///< its version; 0 of a constant

    constexpr InitialValue() = default;

    constexpr InitialValue(double constant) noexcept  // NOLINT: implicit on purpose
        : first(constant) {}

    constexpr InitialValue(Kind its_kind, double its_first, double its_second,
                           uint64_t its_seed) noexcept
        : kind(its_kind),
          first(its_first),
          second(its_second),
          seed(its_seed),
          generator(kGenerator) {}

    [[nodiscard]] bool is_random() const noexcept { return kind != Kind::kConstant; }

    /// Of the power of two above the size of all values.
    [[nodiscard]] int exponent() const noexcept;

    friend bool operator==(const InitialValue&, const InitialValue&) = default;
};

/// Values between `least` and `greatest`, all equally likely. For tables of float and double.
[[nodiscard]] constexpr InitialValue uniform(double least, double greatest,
                                             uint64_t seed) noexcept {
    return {InitialValue::Kind::kUniform, least, greatest, seed};
}

/// Values of the normal distribution, but none farther than two standard deviations from the mean. For
/// tables of float and double.
[[nodiscard]] constexpr InitialValue normal(double mean, double deviation, uint64_t seed) noexcept {
    return {InitialValue::Kind::kNormal, mean, deviation, seed};
}

/// For people: "0.5", "uniform(-1, 1, seed 7)".
[[nodiscard]] std::string to_string(const InitialValue& initial);

/// Errors: Errc::kInvalidArgument, saying what is wrong with it in a table of this type
[[nodiscard]] Status check_initial(const InitialValue& initial, ValueType type);

/// Makes rows of one table. All of it is done in integers, in units of a power of two that are so large
/// that every value is an exact number of them; so no rounding of a processor has a say. Narrow values are
/// made as floats, then rounded to the nearest.
///
/// Thread: any
class InitialRows {
public:
    /// `initial` has passed check_initial().
    InitialRows(const InitialValue& initial, ValueType type, uint32_t width);

    [[nodiscard]] bool are_random() const noexcept { return initial_.is_random(); }

    /// Writes the values of a key's row, if they are random.
    void fill(uint64_t key, std::byte* values) const noexcept;

private:
    template <class T>
    void fill_values(uint64_t row, uint32_t first, std::span<T> values) const noexcept;
    void fill_narrow(uint64_t row, std::byte* values) const noexcept;

    InitialValue initial_;
    ValueType type_;
    uint32_t width_;
    uint64_t stream_ = 0;  ///< of the seed
    int64_t base_ = 0;     ///< the least value, or the mean; in units
    uint64_t span_ = 0;    ///< how many values there are; or the standard deviation
    double unit_ = 1;
};

}  // namespace weir

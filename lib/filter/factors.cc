// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/factors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/base/kernel.h"
#include "lib/filter/simd.h"

namespace weir {
namespace {

template <class T>
struct Factors {
    const std::byte* left;
    const std::byte* right;
    std::byte* rows;
    size_t row_count;
    size_t rank;
    size_t width;
};

/// So many columns are summed in registers.
template <class T>
constexpr size_t kColumns = 256 / sizeof(T);

template <class T>
T load(const std::byte* from) noexcept {
    T value{};
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// The quiet NaN without a payload for any NaN. Source: IEEE 754-2019, 6.2.1
template <class T>
T with_one_nan(T value) noexcept {
    return value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

/// kCount columns of a row; less than kColumns only one by one.
template <class T, size_t kCount>
WEIR_INLINE void multiply_columns(const std::byte* left, const std::byte* right, size_t rank,
                                  size_t width, std::byte* row) noexcept {
    T sums[kCount];
    const T first = load<T>(left);
    for (size_t c = 0; c < kCount; ++c)
        sums[c] = first * load<T>(right + c * sizeof(T));
    for (size_t k = 1; k < rank; ++k) {
        const T factor = load<T>(left + k * sizeof(T));
        const std::byte* const from = right + k * width * sizeof(T);
        for (size_t c = 0; c < kCount; ++c)
            sums[c] = sums[c] + factor * load<T>(from + c * sizeof(T));
    }
    for (T& sum : sums)
        sum = with_one_nan(sum);
    std::memcpy(row, sums, sizeof sums);
}

template <class T>
WEIR_INLINE void multiply_rows(const Factors<T>& f) noexcept {
    for (size_t r = 0; r < f.row_count; ++r) {
        const std::byte* const left = f.left + r * f.rank * sizeof(T);
        std::byte* const row = f.rows + r * f.width * sizeof(T);
        size_t c = 0;
        for (; f.width - c >= kColumns<T>; c += kColumns<T>) {
            multiply_columns<T, kColumns<T>>(left, f.right + c * sizeof(T), f.rank, f.width,
                                             row + c * sizeof(T));
        }
        for (; f.width - c >= 8; c += 8) {
            multiply_columns<T, 8>(left, f.right + c * sizeof(T), f.rank, f.width,
                                   row + c * sizeof(T));
        }
        for (; c < f.width; ++c) {
            multiply_columns<T, 1>(left, f.right + c * sizeof(T), f.rank, f.width,
                                   row + c * sizeof(T));
        }
    }
}

WEIR_KERNEL void multiply(const Factors<float>& f) noexcept {
    multiply_rows(f);
}

WEIR_KERNEL void multiply(const Factors<double>& f) noexcept {
    multiply_rows(f);
}

/// How many values a body has for each step of the rank; 0 if that is no number.
size_t values_of_rank(const FactorsShape& shape) noexcept {
    size_t sum = 0;
    return __builtin_add_overflow(shape.row_count, shape.width, &sum) ? 0 : sum;
}

void check_shape(const FactorsShape& shape) noexcept {
    WEIR_CHECK(shape.type == ValueType::kFloat32 || shape.type == ValueType::kFloat64);
}

}  // namespace

size_t factors_bytes(const FactorsShape& shape, size_t rank) noexcept {
    check_shape(shape);
    return values_of_rank(shape) * rank * size_of(shape.type);
}

bool may_be_factors(const FactorsShape& shape, size_t rank) noexcept {
    check_shape(shape);
    uint64_t products = 0;
    return rank != 0 && shape.row_count != 0 && shape.width != 0 &&
           !__builtin_mul_overflow(uint64_t{shape.row_count}, uint64_t{shape.width}, &products) &&
           !__builtin_mul_overflow(products, uint64_t{rank}, &products) &&
           products <= kFactorProductsMax;
}

void encode_factors(const FactorsShape& shape, std::span<const std::byte> left,
                    std::span<const std::byte> right, std::span<std::byte> body) noexcept {
    WEIR_CHECK(shape.row_count != 0 && body.size() == left.size() + right.size());
    const size_t rank = left.size() / (shape.row_count * size_of(shape.type));
    WEIR_CHECK(may_be_factors(shape, rank) && body.size() == factors_bytes(shape, rank));
    WEIR_CHECK(left.size() == shape.row_count * rank * size_of(shape.type));
    std::memcpy(body.data(), left.data(), left.size());
    std::memcpy(body.data() + left.size(), right.data(), right.size());
}

Result<size_t> factors_rank(const FactorsShape& shape, std::span<const std::byte> body) {
    check_shape(shape);
    const size_t values = body.size() / size_of(shape.type);
    const size_t of_rank = values_of_rank(shape);
    if (of_rank == 0 || body.size() % size_of(shape.type) != 0 || values % of_rank != 0) {
        return Error(Errc::kProtocol,
                     fmt::format("factors: {} bytes are not those of {} rows of {} {}", body.size(),
                                 shape.row_count, shape.width, to_string(shape.type)));
    }
    const size_t rank = values / of_rank;
    if (!may_be_factors(shape, rank)) {
        return Error(
            Errc::kProtocol,
            fmt::format("factors: {} rows of {} values by rank {}; at least one of each, and "
                        "at most {} products",
                        shape.row_count, shape.width, rank, kFactorProductsMax));
    }
    return rank;
}

Status decode_factors(const FactorsShape& shape, std::span<const std::byte> body,
                      std::span<std::byte> rows) {
    WEIR_ASSIGN(const size_t rank, factors_rank(shape, body));
    const size_t value_bytes = size_of(shape.type);
    WEIR_CHECK(rows.size() == shape.row_count * shape.width * value_bytes);
    const std::byte* const right = body.data() + shape.row_count * rank * value_bytes;
    if (shape.type == ValueType::kFloat32) {
        multiply(
            Factors<float>{body.data(), right, rows.data(), shape.row_count, rank, shape.width});
    } else {
        multiply(
            Factors<double>{body.data(), right, rows.data(), shape.row_count, rank, shape.width});
    }
    return {};
}

}  // namespace weir

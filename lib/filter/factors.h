// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *factors*: rows that are a product of two small matrices travel as these. Who decodes
/// multiplies them out:
///
///   row[r][c] = left[r][0] * right[0][c] + left[r][1] * right[1][c] + ...   (rank terms)
///
/// Every processor and every build gives the same bits: each product and each sum is rounded, to
/// nearest, in this order, without fused operations (-ffp-contract=off); columns are independent, so
/// it does not matter how many are computed at once; and a NaN, whose bits would depend on the order
/// of operands, becomes the one quiet NaN without a payload.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/key/value_type.h"

namespace weir {

/// The most products that a body may ask for, some 10 ms of work. Who has more splits the rank.
inline constexpr uint64_t kFactorProductsMax = uint64_t{1} << 26;

/// What both ends know of the rows.
struct FactorsShape {
    ValueType type = ValueType::kFloat32;  ///< or kFloat64
    size_t row_count = 0;
    size_t width = 0;
};

// The body is left, row by row, then right, row by row. The rank follows from its size.
// Thread: any; do not block or allocate, but for the text of an error. Nothing needs to be aligned.

/// The size of the body.
[[nodiscard]] size_t factors_bytes(const FactorsShape& shape, size_t rank) noexcept;

/// Whether a body may have this rank: at least 1, and few enough products; of rows that are there.
[[nodiscard]] bool may_be_factors(const FactorsShape& shape, size_t rank) noexcept;

/// Shape:   left has row_count * rank values, right has rank * width;
///          body.size() == factors_bytes(shape, rank); may_be_factors(shape, rank)
void encode_factors(const FactorsShape& shape, std::span<const std::byte> left,
                    std::span<const std::byte> right, std::span<std::byte> body) noexcept;

/// The rank of a body that somebody sent.
///
/// Errors:  kProtocol if it is no body of this shape, or asks for too much work
[[nodiscard]] Result<size_t> factors_rank(const FactorsShape& shape,
                                          std::span<const std::byte> body);

/// Multiplies out a body that somebody sent.
///
/// Shape:   rows.size() is that of row_count * width values
/// Errors:  as factors_rank(); rows are unchanged then
Status decode_factors(const FactorsShape& shape, std::span<const std::byte> body,
                      std::span<std::byte> rows);

}  // namespace weir

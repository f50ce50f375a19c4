// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a body of the codec factors are refused, or multiplied out to what one
/// column at a time gives. Input: 1 byte (odd: doubles), the numbers of rows and of values of a row
/// (2 bytes each), and the body.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/factors.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;

/// The body of column `c` alone.
Bytes column_of(const Bytes& body, const FactorsShape& shape, size_t rank, size_t c) {
    const size_t value_bytes = size_of(shape.type);
    const size_t left_bytes = shape.row_count * rank * value_bytes;
    Bytes column(body.begin(), body.begin() + static_cast<ptrdiff_t>(left_bytes));
    for (size_t k = 0; k < rank; ++k) {
        const auto value =
            std::span(body).subspan(left_bytes + (k * shape.width + c) * value_bytes, value_bytes);
        column.insert(column.end(), value.begin(), value.end());
    }
    return column;
}

void check(const FactorsShape& shape, const Bytes& body) {
    const Result<size_t> rank = factors_rank(shape, body);
    if (!rank) {
        WEIR_CHECK(rank.code() == Errc::kProtocol);
        return;
    }
    WEIR_CHECK(may_be_factors(shape, *rank) && factors_bytes(shape, *rank) == body.size());
    WEIR_CHECK(shape.row_count * shape.width * *rank <= kFactorProductsMax);
    // The product of few numbers may be large: it is left to the unit tests.
    if (shape.row_count * shape.width * *rank > size_t{1} << 16) return;
    const size_t value_bytes = size_of(shape.type);
    Bytes rows(shape.row_count * shape.width * value_bytes);
    WEIR_CHECK(decode_factors(shape, body, rows));
    FactorsShape narrow = shape;
    narrow.width = 1;
    for (size_t c = 0; c < shape.width; ++c) {
        Bytes column(shape.row_count * value_bytes);
        WEIR_CHECK(decode_factors(narrow, column_of(body, shape, *rank, c), column));
        for (size_t r = 0; r < shape.row_count; ++r) {
            WEIR_CHECK(std::memcmp(&rows[(r * shape.width + c) * value_bytes],
                                   &column[r * value_bytes], value_bytes) == 0);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 5) return 0;
    uint16_t counts[2] = {};
    std::memcpy(counts, data + 1, sizeof counts);
    const FactorsShape shape{(data[0] & 1) != 0 ? ValueType::kFloat64 : ValueType::kFloat32,
                             counts[0], counts[1]};
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(5);
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    check(shape, Bytes(bytes.begin(), bytes.end()));
    return 0;
}

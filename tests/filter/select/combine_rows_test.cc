// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/combine_rows.h"

#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("combine_rows") {
    using namespace weir;

    namespace {

    template <class T>
    std::vector<T> combined(Combine combine, std::vector<T> earlier, std::vector<T> later) {
        const RowKind rows{value_type_of<T>(), static_cast<uint32_t>(later.size()), combine};
        combine_row_of(rows)(std::as_bytes(std::span(earlier)).data(),
                             std::as_writable_bytes(std::span(later)).data(), later.size());
        return later;
    }

    }  // namespace

    TEST_CASE_TEMPLATE("values are summed, or the greatest, least or last stays", T, float, double,
                       int32_t, int64_t, uint32_t, uint64_t) {
        const std::vector<T> earlier{1, 5, 7};
        const std::vector<T> later{3, 4, 7};
        CHECK(combined(Combine::kSum, earlier, later) == std::vector<T>{4, 9, 14});
        CHECK(combined(Combine::kMax, earlier, later) == std::vector<T>{3, 5, 7});
        CHECK(combined(Combine::kMin, earlier, later) == std::vector<T>{1, 4, 7});
        CHECK(combined(Combine::kLast, earlier, later) == later);
    }

    TEST_CASE_TEMPLATE("sums of integers wrap", T, int32_t, int64_t, uint32_t, uint64_t) {
        const std::vector<T> most{std::numeric_limits<T>::max()};
        CHECK(combined(Combine::kSum, most, {1}) ==
              std::vector<T>{std::numeric_limits<T>::lowest()});
    }
}

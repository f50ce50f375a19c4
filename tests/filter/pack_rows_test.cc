// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/pack/pack_rows.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("pack_rows") {
    using namespace weir;
    using namespace weir::testing;

    TEST_CASE("rows of any size whose bits are set lie side by side, in their order") {
        WEIR_TEST_SEED(seed, 31);
        Random random(seed);
        for (const size_t row_bytes : {1, 2, 3, 4, 8, 12, 16, 32, 40, 64, 100}) {
            for (const size_t count : kCounts) {
                for (const uint64_t percent : kPercents) {
                    CAPTURE(row_bytes);
                    CAPTURE(count);
                    const Bytes rows = random_bytes(random, count * row_bytes);
                    const Bytes bitmap = random_bitmap(random, count, percent);
                    Bytes expected;
                    for (size_t i = 0; i < count; ++i) {
                        if (!bit_of(bitmap, i)) continue;
                        const auto row = rows.begin() + static_cast<ptrdiff_t>(i * row_bytes);
                        expected.insert(expected.end(), row,
                                        row + static_cast<ptrdiff_t>(row_bytes));
                    }
                    Bytes packed(expected.size());
                    pack_rows(rows, row_bytes, bitmap, packed);
                    CHECK(packed == expected);
                }
            }
        }
    }
}

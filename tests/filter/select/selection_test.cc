// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/select/selector.h"
#include "tests/seed.h"

TEST_SUITE("selection") {
    using namespace weir;

    TEST_CASE("rows that are kept are written side by side, whatever their size") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const size_t row_bytes : {4, 8, 12, 256}) {
            for (int round = 0; round < 200; ++round) {
                const size_t count = random.below(300);
                const uint64_t of_ten = random.below(11);
                std::vector<std::byte> rows(count * row_bytes);
                for (std::byte& byte : rows)
                    byte = static_cast<std::byte>(random());
                std::vector<std::byte> kept;
                std::vector<std::byte> wanted;
                reset_bits(kept, count);
                for (size_t i = 0; i < count; ++i) {
                    if (random.below(10) >= of_ten) continue;
                    set_bit(kept, i);
                    const auto row = rows.begin() + static_cast<ptrdiff_t>(i * row_bytes);
                    wanted.insert(wanted.end(), row, row + static_cast<ptrdiff_t>(row_bytes));
                }
                Selection selection;
                selection.kept = kept;
                selection.keep_of(rows, row_bytes);
                CHECK(selection.kept_count * row_bytes == wanted.size());
                CHECK(selection.values == wanted);
            }
        }
    }

    TEST_CASE("a selection of all entries has all rows") {
        const std::vector<float> values{1, 2, 3};
        Selection selection;
        selection.keep_all({CallKeys(KeyRange{5, 8}), std::as_bytes(std::span(values))});
        CHECK(selection.kept == std::vector{std::byte{7}});
        CHECK(selection.kept_count == 3);
        CHECK(std::memcmp(selection.values.data(), values.data(), 12) == 0);
    }
}

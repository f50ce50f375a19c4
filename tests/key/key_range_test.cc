// SPDX-License-Identifier: Apache-2.0
#include "lib/key/key_range.h"

#include <doctest/doctest.h>

TEST_SUITE("key_range") {
    using weir::KeyRange;

    TEST_CASE("an intersection holds exactly the keys that are in both") {
        for (uint64_t a = 0; a < 5; ++a)
            for (uint64_t b = 0; b < 5; ++b)
                for (uint64_t c = 0; c < 5; ++c)
                    for (uint64_t d = 0; d < 5; ++d) {
                        const KeyRange left{a, b};
                        const KeyRange right{c, d};
                        const KeyRange both = intersect(left, right);
                        uint64_t count = 0;
                        for (uint64_t key = 0; key < 6; ++key) {
                            const bool in_both = left.contains(key) && right.contains(key);
                            CHECK(both.contains(key) == in_both);
                            count += in_both ? 1 : 0;
                        }
                        CHECK(both.key_count() == count);
                        CHECK(left.contains(both));
                    }
    }

    TEST_CASE("a range with its ends exchanged is empty, not huge") {
        const KeyRange reversed{5, 2};
        CHECK(reversed.key_count() == 0);
        CHECK_FALSE(reversed.well_formed());
    }
}

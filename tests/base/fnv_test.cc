// SPDX-License-Identifier: Apache-2.0

#include "lib/base/fnv.h"

#include <doctest/doctest.h>

TEST_SUITE("fnv") {
    TEST_CASE("the published values of FNV-1a") {
        CHECK(weir::fnv1a("") == 0xcbf29ce484222325ULL);
        CHECK(weir::fnv1a("a") == 0xaf63dc4c8601ec8cULL);
        CHECK(weir::fnv1a("foobar") == 0x85944171f73967e8ULL);
    }
}

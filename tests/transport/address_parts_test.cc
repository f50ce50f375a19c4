// SPDX-License-Identifier: Apache-2.0
#include "transport/address_parts.h"

#include <doctest/doctest.h>

namespace weir::transport {

TEST_SUITE("address parts") {
    TEST_CASE("a backend finds its own part, or is shown all of a foreign address") {
        CHECK(part_of_scheme("shm:a;tcp:b;tcp:c", "tcp:") == "tcp:b");
        CHECK(part_of_scheme("shm:a;tcp:b", "shm:") == "shm:a");
        CHECK(part_of_scheme("tcp:b", "tcp:") == "tcp:b");
        CHECK(part_of_scheme("shm:a;tcp:b", "verbs:") == "shm:a;tcp:b");
        CHECK(part_of_scheme(";;tcp:b;", "tcp:") == "tcp:b");
        CHECK(part_of_scheme("", "tcp:").empty());
        CHECK(part_of_scheme("http;", "tcp:") == "http;");
    }
}

}  // namespace weir::transport

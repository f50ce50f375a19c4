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

    TEST_CASE("an address that no backend of this process can take says what to do") {
        CHECK(wrong_scheme("tcp:192.0.2.2:1", "shm:").message() ==
              "the process at 'tcp:192.0.2.2:1' takes no connections over shm; give all ranks the "
              "same WEIR_TRANSPORT");
    }
}

}  // namespace weir::transport

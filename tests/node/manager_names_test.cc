// SPDX-License-Identifier: Apache-2.0
/// \file
/// What errors call managers.

#include "lib/node/manager_names.h"

#include <doctest/doctest.h>

#include "lib/node/life_line.h"

namespace weir::testing {

TEST_SUITE("manager_names") {
    TEST_CASE("one is in rank 0") {
        const ManagerLife life;
        for (const ManagerLife* const known : {&life, static_cast<const ManagerLife*>(nullptr)}) {
            CHECK(manager_name(known) == "the manager (rank 0)");
            CHECK(manager_is_gone(known) == "the manager (rank 0) is gone");
        }
    }

    TEST_CASE("of several, their ranks are named") {
        ManagerLife life;
        life.places = {{0, "a"}, {4, "b"}, {8, "c"}};
        CHECK(manager_name(&life) == "the manager that leads (one of ranks 0, 4, 8)");
        CHECK(manager_is_gone(&life) == "most managers of the job (ranks 0, 4, 8) are gone");
    }
}

}  // namespace weir::testing

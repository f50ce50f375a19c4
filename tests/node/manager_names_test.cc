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
            CHECK(job_ends_without_manager(known, false, "") ==
                  "; without it the job cannot go on: start it again");
            CHECK(job_ends_without_manager(known, true, "/run") ==
                  "; without it the job cannot go on: start it again, with `resume` /run if a "
                  "checkpoint is there; its copies keep a job only as long as a manager lives: "
                  "with `managers` 3, which needs 3 processes with servers, it would have gone on");
        }
    }

    TEST_CASE("where checkpoints may be is named only if that is known") {
        CHECK(start_again_text("") == "");
        CHECK(start_again_text("/run") ==
              "; start the job again, with `resume` /run if a checkpoint is there");
    }

    TEST_CASE("of several, their ranks are named") {
        ManagerLife life;
        life.places = {{0, "a"}, {4, "b"}, {8, "c"}};
        CHECK(manager_name(&life) == "the manager that leads (one of ranks 0, 4, 8)");
        CHECK(manager_is_gone(&life) == "most managers of the job (of ranks 0, 4, 8) are gone");
        CHECK(job_ends_without_manager(&life, true, "/run") ==
              "; without them the job cannot go on: start it again, with `resume` /run if a "
              "checkpoint is there");
        CHECK(manager_possessive(&life) == "their");
    }
}

}  // namespace weir::testing

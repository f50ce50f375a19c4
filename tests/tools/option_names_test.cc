// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/option_names.h"

#include <doctest/doctest.h>

namespace weir::tools {

TEST_SUITE("option_names") {
    TEST_CASE("options of the library are shown as flags, and all else as it is") {
        CHECK(in_flags("") == "");
        CHECK(in_flags("`servers` 2 needs at least 3 ranks") ==
              "--servers 2 needs at least 3 ranks");
        CHECK(in_flags("with `resume` /d `resume_number` 2") ==
              "with --resume /d --resume-number 2");
        CHECK(in_flags("`shards_per_server``workers`") == "--shards--workers");
        CHECK(in_flags("use `weir status`; `nothing` else") == "use `weir status`; `nothing` else");
        CHECK(in_flags("a ` and `workers`") == "a ` and --workers");
        CHECK(in_flags("`") == "`");
    }

    TEST_CASE("or as variables, where there is one") {
        CHECK(in_variables("`replicas` 2 needs at least 3 `servers`") ==
              "WEIR_REPLICAS 2 needs at least 3 WEIR_SERVERS");
        CHECK(in_variables("with `resume_number` 2") == "with `resume_number` 2");
    }
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/option_names.h"

#include <doctest/doctest.h>

#include "lib/job/job_variables.h"

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
        const Config config(Environment(Environment::Map{{"WEIR_SERVERS", "2"}}));
        const auto told = [&](std::string_view text) {
            return in_variables(text, config, Naming::kAll);
        };
        CHECK(told("`replicas` 2 needs at least 3 `servers`") ==
              "WEIR_REPLICAS=2 needs at least 3 WEIR_SERVERS");
        CHECK(told("(`resume` auto)") == "(WEIR_RESUME=auto)");
        CHECK(told("start all ranks without `resume`") == "start all ranks without WEIR_RESUME");
        CHECK(told("with `resume_number` 2") == "with `resume_number` 2");
    }

    TEST_CASE("an option that a variable has given is shown as that") {
        Config config(Environment({{"WEIR_SERVERS", "2"}, {"WEIR_RESUME", "/d"}}));
        config.set_flag("WEIR_WORKERS", "--workers", "3");
        name_variables_of(&config);
        CHECK(in_flags("`servers` 2 needs at least 3 ranks") ==
              "WEIR_SERVERS=2 needs at least 3 ranks");
        CHECK(in_flags("use fewer `servers` or `workers`, or `replicas`; with `resume` /d") ==
              "use fewer WEIR_SERVERS or --workers, or --replicas; with WEIR_RESUME=/d");
        config.set_flag("WEIR_SERVERS", "--servers", "4");
        CHECK(in_flags("`servers` 4") == "--servers 4");
        name_variables_of(nullptr);
        CHECK(in_flags("`resume` /d") == "--resume /d");
    }
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/learning_report.h"

#include <string>

#include <doctest/doctest.h>

namespace weir::tools {
namespace {

JobStatus::Server server_with(const LearningProgress& learning) {
    JobStatus::Server server;
    server.number = 2;
    server.learning = learning;
    return server;
}

}  // namespace

TEST_SUITE("learning_report") {
    TEST_CASE("the text says how many segments a server learns, and how many have come") {
        CHECK(learning_text(server_with({8, 4, 3, 0, 5, 14})) ==
              "server 2 learns 12 segments (8 new copies, 4 that move) from 3 shards: 5 of 17 have "
              "come since view 14\n");
        CHECK(learning_text(server_with({1, 0, 1, 1, 2, 3})) ==
              "server 2 learns 1 segment (1 new copy, 0 that move) from 1 shard: 3 of 4 have come "
              "since view 3; 1 of these waits to be taken over\n");
        CHECK(learning_text(server_with({0, 0, 0, 4, 0, 3})) ==
              "server 2 has all that it learns: 4 of 4 have come since view 3; 4 of these wait to "
              "be taken over\n");
        CHECK(learning_text(JobStatus::Server{}).empty());
    }

    TEST_CASE(
        "as JSON the numbers have the names of operating.md, and are null of who learns nothing") {
        const nlohmann::ordered_json json = learning_json(server_with({8, 4, 3, 2, 5, 14}));
        CHECK(json.dump() ==
              R"({"segments_to_learn":12,"copies_to_learn":8,"moves_to_learn":4,"from_shards":3,)"
              R"("segments_come":7,"segments_waiting":2,"since_view":14})");
        CHECK(learning_json(JobStatus::Server{}).is_null());
    }
}

}  // namespace weir::tools

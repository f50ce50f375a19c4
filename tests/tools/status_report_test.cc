// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/status_report.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

bool says(const JobStatus& status, const std::string& lines) {
    return status_text(status).find("\n" + lines) != std::string::npos;
}

bool says(const JobStatus::Managers& managers, const std::string& lines) {
    JobStatus status;
    status.managers = managers;
    return says(status, lines);
}

/// They follow the line of the manager, and those of the workers follow them.
bool says(const JobStatus::Checkpoints& checkpoints, const std::string& lines) {
    JobStatus status;
    status.checkpoints = checkpoints;
    return says(status, "manager: one, in rank 0\n" + lines + "workers:");
}

Json json_of(const JobStatus::Checkpoints& checkpoints) {
    JobStatus status;
    status.checkpoints = checkpoints;
    return Json::parse(status_json(status)).at("checkpoints");
}

/// Of a job that has written some.
JobStatus::Checkpoints some_checkpoints() {
    JobStatus::Checkpoints checkpoints;
    checkpoints.is_on = true;
    checkpoints.last_number = 7;
    checkpoints.last_age_ms = 12'340;
    checkpoints.last_duration_ms = 1'250;
    return checkpoints;
}

}  // namespace

TEST_SUITE("status_report") {
    TEST_CASE("the text says which manager leads, in which term, and how much they agreed on") {
        CHECK(says(JobStatus::Managers{.count = 1, .rank = 2}, "manager: one, in rank 2\n"));
        CHECK(says({.count = 3, .rank = 4, .heard = 3, .term = 9, .log_bytes = 1536},
                   "managers: 3, of which rank 4 leads, in term 9; they have agreed on 1.5 KiB\n"));
        CHECK(says(
            {.count = 3, .rank = 4, .heard = 3, .term = 9, .log_bytes = (uint64_t{1} << 20) - 103},
            "managers: 3, of which rank 4 leads, in term 9; they have agreed on 1023.9 "
            "KiB\n"));
        CHECK(says({.count = 5, .rank = 0, .heard = 3, .term = 1, .log_bytes = uint64_t{5} << 19},
                   "managers: 5, of which rank 0 leads, in term 1; 3 of them heard of within a "
                   "second; they have agreed on 2.5 MiB\n"));
    }

    TEST_CASE("as JSON the managers have a term, and the rank of the one that leads") {
        JobStatus status;
        status.managers = {.count = 3, .rank = 4, .heard = 3, .term = 9, .log_bytes = 1536};
        CHECK(Json::parse(status_json(status)).at("managers").dump() ==
              R"({"count":3,"leader_rank":4,"heard":3,"term":9,"log_bytes":1536})");
    }

    TEST_CASE("the text says what filters save, and nothing of those that save nothing") {
        JobStatus status;
        status.filters.integers = {1000, 1000};
        CHECK(status_text(status).find("filters") == std::string::npos);
        status.filters.zeros = {1000, 250};
        status.filters.pulled_compress = {400, 300};
        CHECK(says(status, "filters: pushes: zeros 75 % less; pulls: compress 25 % less\n"));
        status.filters.rows_pushed = 50;
        status.filters.rows_kept = 5;
        CHECK(says(status,
                   "filters: pushes: zeros 75 % less; pulls: compress 25 % less; 5 of 50 "
                   "rows kept\n"));
        status.workers = {{.number = 0, .rows_held = 7}, {.number = 1}};
        CHECK(
            says(status,
                 "filters: pushes: zeros 75 % less; pulls: compress 25 % less; 5 of 50 rows kept; "
                 "7 rows held back; 1 worker computes, and what it has held back is not known\n"));
        const Json workers = Json::parse(status_json(status)).at("workers");
        CHECK(workers[0].at("rows_held") == 7);
        CHECK(workers[1].at("rows_held").is_null());
        const Json json = Json::parse(status_json(status)).at("filters");
        CHECK(json.at("pushed").at("zeros").dump() == R"({"after":250,"before":1000})");
        CHECK(json.at("rows_kept") == 5);
    }

    TEST_CASE("the text says nothing of checkpoints in a job without a folder for them") {
        CHECK(says(JobStatus::Checkpoints{}, ""));
        CHECK(
            says(JobStatus::Checkpoints{.resumed_from = 4}, "the job goes on from checkpoint 4\n"));
    }

    TEST_CASE(
        "the text says of what age the last checkpoint is, and what has come of the next one") {
        JobStatus::Checkpoints checkpoints{.is_on = true};
        CHECK(says(checkpoints, "checkpoints: none yet\n"));
        checkpoints.is_under_way = true;
        CHECK(says(checkpoints, "checkpoints: none yet; one is being written\n"));
        checkpoints.resumed_from = 4;
        CHECK(says(checkpoints,
                   "the job goes on from checkpoint 4\n"
                   "checkpoints: none yet; one is being written\n"));
        checkpoints = some_checkpoints();
        const std::string last = "checkpoints: the last is 7, of 12.3 s ago, written in 1.25 s";
        CHECK(says(checkpoints, last + "\n"));
        checkpoints.last_failure = "the disk is full";
        CHECK(says(checkpoints, last + "; then one failed: the disk is full\n"));
        checkpoints.is_under_way = true;
        CHECK(says(checkpoints,
                   last + "; one is being written; then one failed: the disk is full\n"));
    }

    TEST_CASE("the text says for how long a checkpoint waits for copies and moves") {
        const std::string waits =
            "the next checkpoint has been due for 2.5 s: it waits until copies are made and "
            "segments have moved\n";
        JobStatus::Checkpoints checkpoints{.is_on = true, .rest_wait_ms = 2'500};
        CHECK(says(checkpoints, "checkpoints: none yet\n" + waits));
        checkpoints = some_checkpoints();
        checkpoints.rest_wait_ms = 2'500;
        CHECK(says(checkpoints,
                   "checkpoints: the last is 7, of 12.3 s ago, written in 1.25 s\n" + waits));
    }

    TEST_CASE("as JSON what there is not of checkpoints is null, not 0") {
        CHECK(json_of({}).dump() ==
              R"({"on":false,"under_way":false,"last":null,"last_age_ms":null,)"
              R"("last_duration_ms":null,"last_failure":null,"rest_wait_ms":null,)"
              R"("resumed_from":null})");
        JobStatus::Checkpoints checkpoints = some_checkpoints();
        checkpoints.is_under_way = true;
        checkpoints.last_failure = "the disk is full";
        checkpoints.rest_wait_ms = 2'500;
        checkpoints.resumed_from = 4;
        CHECK(json_of(checkpoints).dump() ==
              R"({"on":true,"under_way":true,"last":7,"last_age_ms":12340,)"
              R"("last_duration_ms":1250,"last_failure":"the disk is full","rest_wait_ms":2500,)"
              R"("resumed_from":4})");
        checkpoints.last_failure = "d\xff cannot be opened";  // names need not be UTF-8
        CHECK(json_of(checkpoints).at("last_failure") == "d\xef\xbf\xbd cannot be opened");
        checkpoints.last_age_ms = checkpoints.last_duration_ms = 0;
        CHECK(json_of(checkpoints).at("last_age_ms") == 0);  // it is there, and has just begun
        CHECK(json_of(checkpoints).at("last_duration_ms") == 0);
    }
}

}  // namespace weir::tools

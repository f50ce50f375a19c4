// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/job_status.h"

#include <doctest/doctest.h>

namespace weir {
namespace {

JobStatus full_status() {
    JobStatus status;
    status.epoch = 7;
    status.servers = {
        {0, 0, 1, true, 0, 130, 1120, {{0, 3, 2, 0.5, true, 10, 80, 4, 5}, {1}}, "node7", 99},
        {2, 3, 1, false, 40}};
    status.servers[1].learning = {8, 4, 3, 2, 5, 6};
    status.workers = {{0, 1, true, {0, 1, 5}, 800}, {4, 2}};
    status.work = {OnWorkerLoss::kReassign, 3, 12, "sums"};
    status.segments_to_move = 5;
    status.segments_complete = 2;
    status.segments_moved = 3;
    status.share_to_move = 0.5;
    status.share_complete = 0.125;
    status.share_moved = 0.25;
    status.share_lost = 0.25;
    status.dead = {{1, 2, true}, {3, 4, false}};
    status.replicas = 1;
    status.segments = 3;
    status.segments_to_copy = 2;
    status.segments_copying = 1;
    status.copies_made = 4;
    status.lease_ms = 1000;
    status.managers = {3, 1, 2, 7, 12345};
    status.checkpoints = {true, false, 4, 900, 80, 2, "the disk is full", 1200};
    status.losers = {1};
    status.filters.zeros = {100, 20};
    status.filters.pulled_compress = {7, 3};
    status.filters.rows_pushed = 50;
    status.filters.rows_kept = 5;
    status.workers[0].rows_held = 12;
    status.open = {{"numbers", 5, 7, {0, 4}}, {"numbers", 6, 0, {}}};
    return status;
}

}  // namespace

TEST_SUITE("job_status") {
    TEST_CASE("a status is read as it was written") {
        const JobStatus status = full_status();
        CHECK(JobStatus::decode(status.encode()) == status);
    }

    TEST_CASE("a status is refused if it says of a learner what cannot be") {
        const LearningProgress good = *full_status().servers[1].learning;
        const auto is_taken = [](const LearningProgress& learning) {
            JobStatus status = full_status();
            status.servers[1].learning = learning;
            return JobStatus::decode(status.encode()).has_value();
        };
        CHECK(is_taken(good));
        CHECK(is_taken({.waiting = 1, .since = 7}));
        CHECK(is_taken({.copies = ~0U, .moves = ~0U, .sources = ~0U, .taken = ~0U, .since = 1}));
        CHECK_FALSE(is_taken({}));
        CHECK_FALSE(is_taken({.taken = 5, .since = 6}));  // it learns nothing any more
        LearningProgress bad = good;
        bad.since = 8;  // a later view
        CHECK_FALSE(is_taken(bad));
        bad.since = 0;
        CHECK_FALSE(is_taken(bad));
        bad = good;
        bad.sources = 13;  // more than segments
        CHECK_FALSE(is_taken(bad));
        bad.sources = 0;
        CHECK_FALSE(is_taken(bad));
        bad = {.sources = 1, .waiting = 2, .since = 3};  // nothing is to come from it
        CHECK_FALSE(is_taken(bad));
    }

    TEST_CASE("a status that is cut off is refused, and what is changed is refused or kept") {
        const std::vector<std::byte> good = full_status().encode();
        for (size_t bytes = 0; bytes < good.size(); ++bytes)
            CHECK_FALSE(JobStatus::decode(std::span(good).first(bytes)).has_value());
        for (size_t i = 0; i < good.size(); ++i) {
            for (const int value : {0, 1, 2, 255}) {
                CAPTURE(i);
                std::vector<std::byte> changed = good;
                changed[i] = std::byte(value);
                const auto read = JobStatus::decode(changed);
                if (read) CHECK(read->encode() == changed);
            }
        }
    }
}

}  // namespace weir

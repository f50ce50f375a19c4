// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a trainer sees of filters: when what was held back is pushed, and what is counted.

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/job/small_job.h"

namespace weir::test {
namespace {

const std::vector<uint64_t> kHeldKeys{1, 5, 9};
const std::vector<float> kHeldOnes{1, 1, 1};

/// A client whose table holds back all that a few pushes bring.
struct Holding {
    Holding() {
        auto made = client.create_table<float>("held", {.filters = {filters::significant(100)}});
        REQUIRE(made.has_value());
        table = std::make_unique<Table<float>>(*made);
    }

    [[nodiscard]] float value() {
        std::vector<float> values(kHeldKeys.size());
        REQUIRE(table->pull(kHeldKeys, values).wait());
        CHECK(values == std::vector<float>(kHeldKeys.size(), values[0]));
        return values[0];
    }

    std::unique_ptr<Job> job = start_job(1, 1, 1);
    Client client = std::move(job->make_client(0)).value();
    std::unique_ptr<Table<float>> table;
};

}  // namespace

TEST_SUITE("filters") {
    TEST_CASE("what was held back is pushed by a flush, a barrier and before a worker leaves") {
        Holding of;
        REQUIRE(of.table->push(kHeldKeys, kHeldOnes).wait());
        CHECK(of.value() == 0);
        const Result<ClientStats> stats = of.client.stats();
        REQUIRE(stats.has_value());
        CHECK(stats->filters.rows_held == kHeldKeys.size());
        CHECK(stats->filters.rows_pushed == kHeldKeys.size());
        CHECK(stats->filters.rows_kept == 0);
        REQUIRE(of.client.flush());
        CHECK(of.value() == 1);
        REQUIRE(of.table->push(kHeldKeys, kHeldOnes).wait());
        REQUIRE(of.client.barrier());
        CHECK(of.value() == 2);
        REQUIRE(of.client.leave());
    }

    TEST_CASE("a barrier also takes along what tasks hold back that it waits for") {
        Holding of;
        Task first = of.table->push(kHeldKeys, kHeldOnes);
        Task second = of.table->push(kHeldKeys, kHeldOnes, {.after = {first.id()}});
        const std::vector<TaskId> both{first.id(), second.id()};
        REQUIRE(of.client.barrier({}, both));
        CHECK(of.value() == 2);
        REQUIRE(first.wait());
        REQUIRE(second.wait());
        REQUIRE(of.client.leave());
    }

    TEST_CASE("filters that a table cannot have are an error when it is made") {
        const auto job = start_job(1, 1, 1);
        Client client = std::move(job->make_client(0)).value();
        const auto made = client.create_table<float>(
            "means", {.rule = mean(), .filters = {filters::significant(1)}});
        CHECK(made.error().code() == Errc::kInvalidArgument);
        CHECK(made.error().text().find("table 'means'") != std::string::npos);
        REQUIRE(client.leave());
    }
}

}  // namespace weir::test

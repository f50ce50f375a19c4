// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which iterations a client takes: each table's one after the other, from 1; anything else is
/// refused at once, because it could only wait for its deadline.

#include <array>
#include <limits>
#include <optional>

#include <doctest/doctest.h>

#include "lib/worker/table.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

class OneWorker {
public:
    OneWorker() : cluster_(1, {.workers = 1}, {}) { REQUIRE(cluster_.start()); }

    [[nodiscard]] TableInfo make_table(const char* name) {
        auto table = cluster_.make_table(0, sparse_table(name, ValueType::kFloat64));
        REQUIRE(table.has_value());
        return *table;
    }

    [[nodiscard]] Status push(const TableInfo& table, std::optional<uint64_t> iteration,
                              double value = 1) {
        CallOptions options;
        options.iteration = iteration;
        const std::array<double, 1> values{value};
        return cluster_.finish(
            0, cluster_.workers[0]->push(table, kKeys, std::as_bytes(std::span(values)), options));
    }

    [[nodiscard]] Status pull(const TableInfo& table, std::optional<uint64_t> iteration) {
        CallOptions options;
        options.iteration = iteration;
        return cluster_.finish(
            0, cluster_.workers[0]->pull(table, kKeys, std::as_writable_bytes(std::span(out)),
                                         options));
    }

    [[nodiscard]] uint64_t now_ns() const { return cluster_.clock.now_ns(); }

    std::array<double, 1> out{};

private:
    static constexpr std::array<uint64_t, 1> kKeys{7};
    SimCluster cluster_;
};

void check_refused(const Status& status, const char* text) {
    REQUIRE_FALSE(status.has_value());
    INFO(status.error().message());
    CHECK(status.code() == Errc::kInvalidArgument);
    CHECK(status.error().message().find(text) != std::string::npos);
}

}  // namespace

TEST_SUITE("client_iterations") {
    TEST_CASE("no iteration is the default, and 0 is not the same") {
        CHECK_FALSE(PushOptions{}.iteration.has_value());
        CHECK_FALSE(PullOptions{}.iteration.has_value());
        CHECK(PushOptions{.iteration = 0}.iteration == 0);
        CHECK(PullOptions{.iteration = 0}.iteration == 0);
        OneWorker job;
        const TableInfo table = job.make_table("model");
        check_refused(job.push(table, 0), "a push of iteration 0, but this worker's next one is 1");
        check_refused(job.push(table, 0), "iterations count from 1");
        CHECK(job.pull(table, std::nullopt).has_value());
        check_refused(job.pull(table, 0), "a pull of iteration 0: iterations count from 1");
        check_refused(job.pull(table, 0), "leave `iteration` out");
        CHECK(job.push(table, std::nullopt).has_value());
        CHECK(job.push(table, 1).has_value());
        check_refused(job.pull(table, 0), "a pull of iteration 0");  // not for want of pushes
        CHECK(job.pull(table, 1).has_value());
    }

    TEST_CASE("a push that skips an iteration, repeats one or goes back is refused at once") {
        OneWorker job;
        const TableInfo table = job.make_table("model");
        const uint64_t before_ns = job.now_ns();
        check_refused(job.push(table, 2),
                      "a push of iteration 2, but this worker's next one is 1: iterations count "
                      "from 1, one after the other");
        CHECK(job.push(table, 1).has_value());
        check_refused(job.push(table, 5), "a push of iteration 5, but this worker's next one is 2");
        check_refused(job.push(table, 1), "a push of iteration 1, but this worker's next one is 2");
        CHECK(job.push(table, 2).has_value());
        check_refused(job.push(table, 1), "a push of iteration 1, but this worker's next one is 3");
        check_refused(job.push(table, ~uint64_t{0}), "but this worker's next one is 3");
        CHECK(job.now_ns() - before_ns < kSecond);
        REQUIRE(job.pull(table, 2).has_value());
        CHECK(job.out[0] == 2);
    }

    TEST_CASE("a pull of an iteration that this worker has not pushed is refused at once") {
        OneWorker job;
        const TableInfo table = job.make_table("model");
        const uint64_t before_ns = job.now_ns();
        check_refused(job.pull(table, 1), "it has pushed none yet");
        CHECK(job.push(table, 1).has_value());
        CHECK(job.pull(table, 1).has_value());
        check_refused(job.pull(table, 3), "it has pushed iterations up to 1");
        CHECK(job.now_ns() - before_ns < kSecond);
    }

    TEST_CASE("each table counts by itself, and a push that was refused does not count") {
        OneWorker job;
        const TableInfo a = job.make_table("a");
        const TableInfo b = job.make_table("b");
        CHECK(job.push(a, 1).has_value());
        CHECK(job.push(a, 2).has_value());
        CHECK(job.push(b, 1).has_value());
        CHECK(job.push(a, 3, std::numeric_limits<double>::infinity()).code() == Errc::kNotFinite);
        CHECK(job.push(a, 3).has_value());
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which iterations a client takes: each table's one after the other, from 1, and no more at once
/// than its window has. Anything else is refused at once, because it could only wait for its
/// deadline. And which iteration a pull says that it shows.

#include <array>
#include <limits>
#include <optional>

#include <doctest/doctest.h>

#include "lib/worker/table.h"
#include "tests/cluster/sim_cluster.h"

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
        const auto call = cluster_.workers[0]->pull(
            table, kKeys, std::as_writable_bytes(std::span(out)), options);
        REQUIRE(cluster_.run_until([&] { return cluster_.workers[0]->done(call); }));
        shown = cluster_.workers[0]->iteration_shown(call);
        return cluster_.workers[0]->take(call);
    }

    [[nodiscard]] uint64_t now_ns() const { return cluster_.clock.now_ns(); }

    std::array<double, 1> out{};
    std::optional<uint64_t> shown;  ///< by the last pull

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
                      "from 1, and a worker pushes once in each");
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

    TEST_CASE("without a max_delay, parts of as many iterations wait as shards remember") {
        SimCluster cluster(1, {.workers = 2}, {});
        REQUIRE(cluster.start());
        const TableInfo table = *cluster.make_table(0, sparse_table("model", ValueType::kFloat64));
        const std::array<uint64_t, 1> keys{7};
        const std::array<double, 1> one{1};
        std::vector<ClientCore::CallId> ahead;
        const auto push = [&](uint64_t iteration) {
            return cluster.workers[0]->push(table, keys, std::as_bytes(std::span(one)),
                                            {iteration});
        };
        for (uint64_t i = 1; i <= 64; ++i)
            ahead.push_back(push(i));
        check_refused(cluster.finish(0, push(65)),
                      "table 'model': a push of iteration 65, but that of iteration 1 has not "
                      "ended: parts of 64 iterations may be under way; wait for it first");
        CHECK_FALSE(cluster.workers[0]->done(ahead[0]));
        CHECK(cluster
                  .finish(1,
                          cluster.workers[1]->push(table, keys, std::as_bytes(std::span(one)), {1}))
                  .has_value());
        CHECK(cluster.finish(0, ahead[0]).has_value());
        CHECK(cluster.workers[0]->has_open_values());
        CHECK_FALSE(cluster.workers[0]->done(push(65)));
    }

    TEST_CASE("as many iterations as the window has may be open, and no more") {
        SimCluster cluster(1, {.workers = 2}, {});
        REQUIRE(cluster.start());
        TableSchema wanted = sparse_table("model", ValueType::kFloat64);
        wanted.max_delay = 2;
        const TableInfo table = *cluster.make_table(0, wanted);
        const std::array<uint64_t, 1> keys{7};
        const std::array<double, 1> one{1};
        const auto push = [&](uint32_t worker, uint64_t iteration) {
            return cluster.workers[worker]->push(table, keys, std::as_bytes(std::span(one)),
                                                 {iteration});
        };
        std::vector<ClientCore::CallId> ahead;
        for (const uint64_t i : {1, 2, 3})
            ahead.push_back(push(0, i));
        const uint64_t before_ns = cluster.clock.now_ns();
        const char* const text =
            "table 'model': a push of iteration 4, but that of iteration 1 has not ended: with the "
            "table's max_delay of 2, 3 may be open; wait for it first, or create the table with a "
            "greater TableOptions::max_delay (at most 63)";
        check_refused(cluster.finish(0, push(0, 4)), text);
        CHECK(cluster.clock.now_ns() == before_ns);
        CHECK_FALSE(cluster.workers[0]->done(ahead[0]));
        CHECK(cluster.finish(1, push(1, 1)).has_value());
        CHECK(cluster.finish(0, ahead[0]).has_value());
        ahead.push_back(push(0, 4));
        check_refused(cluster.finish(0, push(0, 5)), "that of iteration 2 has not ended");
        check_refused(cluster.finish(0, push(0, 4)), "this worker's next one is 5");
        for (const uint64_t i : {2, 3, 4}) {
            CHECK(cluster.finish(1, push(1, i)).has_value());
            CHECK(cluster.finish(0, ahead[i - 1]).has_value());
        }
        std::array<double, 1> out{};
        for (const uint64_t asked : {1, 4}) {
            const auto pull = cluster.workers[0]->pull(
                table, keys, std::as_writable_bytes(std::span(out)), {asked});
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(pull); }));
            CHECK(cluster.workers[0]->iteration_shown(pull) == 4);
            CHECK(cluster.workers[0]->take(pull).has_value());
            CHECK(out[0] == 8);
        }
    }

    TEST_CASE("a pull that names no iteration shows one, too, however its values come") {
        SimCluster cluster(1, {.workers = 1}, {});
        REQUIRE(cluster.start());
        ClientCore& client = *cluster.workers[0];
        constexpr uint64_t kKeyCount = 4096;
        std::vector<double> values(kKeyCount, 1);
        const TableInfo table =
            *cluster.make_table(0, dense_table("model", kKeyCount, ValueType::kFloat64));
        for (const std::optional<uint64_t> closed : {std::optional<uint64_t>(), {1}, {2}}) {
            CAPTURE(closed.value_or(0));
            const KeyRange all{0, kKeyCount};
            if (closed) {
                const auto push =
                    client.push(table, all, std::as_bytes(std::span(values)), {*closed});
                REQUIRE(cluster.finish(0, push).has_value());
            }
            for (const KeyRange keys : {KeyRange{0, 1}, all}) {  // in the reply, or by a write
                const auto out = std::as_writable_bytes(std::span(values).first(keys.end));
                const auto pull = client.pull(table, keys, out, {});
                REQUIRE(cluster.run_until([&] { return client.done(pull); }));
                CHECK(client.iteration_shown(pull) == closed);
                CHECK(client.take(pull).has_value());
            }
        }
    }

    TEST_CASE("a pull that has failed or asks no shard shows no iteration") {
        OneWorker job;
        const TableInfo table = job.make_table("model");
        CHECK(job.pull(table, std::nullopt).has_value());
        CHECK_FALSE(job.shown.has_value());
        CHECK(job.push(table, 1).has_value());
        CHECK(job.pull(table, 1).has_value());
        CHECK(job.shown == 1);
        check_refused(job.pull(table, 2), "iterations up to 1");
        CHECK_FALSE(job.shown.has_value());
    }
}

}  // namespace weir::test

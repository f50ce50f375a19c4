// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arguments of a push, from the worker to the rule: a learning rate that changes from push to push.

#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/managed_shard.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kRateKeys = 40;
constexpr double kTableRate = 0.5;

/// A shard with an empty table of "sgd", whose two workers may push what a client refuses.
class RefusingShard : public ManagedShard {
public:
    RefusingShard() : ManagedShard(2) {
        TableSchema schema = sparse_table("rates", ValueType::kFloat64);
        schema.rule = "sgd";
        schema.parameters.value = {kTableRate};
        make_table(0, schema);
        for (const uint64_t worker : {0, 1})
            connections_.push_back(raw.hello(shard(), worker, 1));
        run();
    }

    /// A worker pushes 1 to a key. Returns how it ended; kBusy: it waits.
    Errc push(uint32_t worker, uint64_t key, double rate, uint64_t iteration = 0) {
        wire::FrameHeader header = testing::frame_header(wire::Kind::kPush, ++requests_);
        header.value_type = static_cast<uint8_t>(ValueType::kFloat64);
        header.flags = wire::kKeysInline | wire::kValuesInline;
        header.encoding = wire::kHasArguments;
        header.count = 1;
        header.epoch = static_cast<uint32_t>(view.epoch);
        if (iteration != 0) {
            header.flags |= wire::kAggregate | wire::kIteration;
            header.iteration = iteration;
            header.parts = 1;
            header.time = static_cast<uint32_t>(iteration);
        }
        const double one = 1;
        std::array<uint64_t, 5> body = {2, std::bit_cast<uint64_t>(rate), 0, key,
                                        std::bit_cast<uint64_t>(one)};
        raw.send(connections_[worker], header, std::as_bytes(std::span(body)));
        run();
        const RawWorker::Answer* const answer = raw.answer(header.request);
        return answer == nullptr ? Errc::kBusy : answer->header.status;
    }

    [[nodiscard]] size_t row_count() { return shard().tables()[0]->rows->row_count(); }

private:
    std::vector<transport::ConnectionId> connections_;
    uint64_t requests_ = 0;
};

/// Two workers, and a table of "sgd" with a rate of 0.5.
class RateCluster : public SimCluster {
public:
    explicit RateCluster(Layout layout, const SimShape& shape = {})
        : SimCluster(1, with_workers(shape), {.maps_memory = shape.eager_bytes != 0}) {
        REQUIRE(start());
        TableSchema schema = layout == Layout::kDense
                                 ? dense_table("rates", kRateKeys, ValueType::kFloat64)
                                 : sparse_table("rates", ValueType::kFloat64);
        schema.rule = "sgd";
        schema.parameters.value = {kTableRate};
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table_ = *std::move(made);
        std::iota(keys_.begin(), keys_.end(), 0);
    }

    [[nodiscard]] ClientCore::CallId push(uint32_t worker, std::vector<NamedNumber> arguments,
                                          std::optional<uint64_t> iteration = {},
                                          bool by_range = false) {
        CallOptions options;
        options.arguments = arguments;
        options.iteration = iteration;
        const auto ones = std::as_bytes(std::span(ones_));
        return by_range ? workers[worker]->push(table_, KeyRange{0, kRateKeys}, ones, options)
                        : workers[worker]->push(table_, keys_, ones, options);
    }

    /// What each of the keys has; nothing if they differ.
    [[nodiscard]] double value() {
        const auto call =
            workers[0]->pull(table_, keys_, std::as_writable_bytes(std::span(values_)), {});
        REQUIRE(finish(0, call).has_value());
        const bool are_equal =
            std::ranges::all_of(values_, [&](double value) { return value == values_.front(); });
        return are_equal ? values_.front() : std::numeric_limits<double>::quiet_NaN();
    }

private:
    static SimShape with_workers(SimShape shape) {
        shape.workers = 2;
        return shape;
    }

    TableInfo table_;
    std::vector<uint64_t> keys_ = std::vector<uint64_t>(kRateKeys);
    std::vector<double> ones_ = std::vector<double>(kRateKeys, 1);
    std::vector<double> values_ = std::vector<double>(kRateKeys);
};

}  // namespace

TEST_SUITE("arguments") {
    TEST_CASE("a push brings the rate of its own, in each way in which keys travel") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            RateCluster cluster(layout);
            double expected = 0;
            for (const double rate :
                 {0.25, 2.0, 0.125, 1.0}) {  // the list is known from the second time on
                REQUIRE(cluster.finish(0, cluster.push(0, {{"rate", rate}})).has_value());
                expected -= rate;
                CHECK(cluster.value() == expected);
            }
            REQUIRE(cluster.finish(1, cluster.push(1, {})).has_value());
            expected -= kTableRate;
            CHECK(cluster.value() == expected);
            if (layout == Layout::kSparse) continue;
            REQUIRE(cluster.finish(0, cluster.push(0, {{"rate", 4}}, {}, true)).has_value());
            CHECK(cluster.value() == expected - 4);
        }
    }

    TEST_CASE("what waits at a shard keeps its arguments") {
        SimShape shape;
        shape.fetch_bytes_max = 64;  // each push is fetched alone
        shape.eager_bytes = 0;
        RateCluster cluster(Layout::kSparse, shape);
        std::vector<ClientCore::CallId> calls;
        for (int i = 1; i <= 20; ++i)
            calls.push_back(cluster.push(0, {{"rate", static_cast<double>(i)}}));
        for (const auto call : calls)
            REQUIRE(cluster.finish(0, call).has_value());
        CHECK(cluster.value() == -210);
    }

    TEST_CASE("in an iteration the rule runs once, with the arguments of all") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            RateCluster cluster(layout);
            double expected = 0;
            for (uint64_t iteration = 1; iteration <= 3; ++iteration) {
                const auto rate = static_cast<double>(iteration);
                const auto first = cluster.push(0, {{"rate", rate}}, iteration);
                const auto second = cluster.push(1, {{"rate", rate}}, iteration);
                REQUIRE(cluster.finish(0, first).has_value());
                REQUIRE(cluster.finish(1, second).has_value());
                expected -= rate * 2;
                CHECK(cluster.value() == expected);
            }
            // Who brings none means the table's.
            const auto first = cluster.push(0, {{"rate", kTableRate}}, 4);
            const auto second = cluster.push(1, {}, 4);
            REQUIRE(cluster.finish(0, first).has_value());
            REQUIRE(cluster.finish(1, second).has_value());
            CHECK(cluster.value() == expected - 1);
        }
    }

    TEST_CASE("an iteration with different arguments fails, and names both workers") {
        RateCluster cluster(Layout::kDense);
        const auto first = cluster.push(0, {{"rate", 1}}, 1);
        const auto second = cluster.push(1, {{"rate", 2}}, 1);
        for (const uint32_t worker : {0, 1}) {
            const Status outcome = cluster.finish(worker, worker == 0 ? first : second);
            REQUIRE(outcome.code() == Errc::kDifferentArguments);
            const std::string text = outcome.error().text();
            const bool names_both = text.find("workers 0 and 1") != std::string::npos ||
                                    text.find("workers 1 and 0") != std::string::npos;
            CHECK_MESSAGE(names_both, text);
            if (worker == 0) CHECK_MESSAGE(text.find("'rates'") != std::string::npos, text);
        }
        CHECK(cluster.value() == 0);
        const auto next = cluster.push(0, {{"rate", 1}}, 2);
        const auto other = cluster.push(1, {{"rate", 1}}, 2);
        REQUIRE(cluster.finish(0, next).has_value());
        REQUIRE(cluster.finish(1, other).has_value());
        CHECK(cluster.value() == -2);
    }

    TEST_CASE("different arguments are named with backups, after a recut and after a takeover") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            SimShape shape;
            shape.servers = 3;
            shape.shards = 1;
            shape.replicas = 1;
            shape.is_manager_apart = true;
            RateCluster cluster(layout, shape);
            uint64_t iteration = 0;
            double expected = 0;
            /// Of one iteration in which the second worker brings another rate, and one in which it does not.
            const auto check = [&] {
                ++iteration;
                const auto first = cluster.push(0, {{"rate", 1}}, iteration);
                const auto second = cluster.push(1, {{"rate", 2}}, iteration);
                for (const uint32_t worker : {0, 1}) {
                    const Status outcome = cluster.finish(worker, worker == 0 ? first : second);
                    REQUIRE_MESSAGE(outcome.code() == Errc::kDifferentArguments,
                                    (outcome ? "" : outcome.error().text()));
                    const std::string text = outcome.error().text();
                    const bool names_both = text.find("workers 0 and 1") != std::string::npos ||
                                            text.find("workers 1 and 0") != std::string::npos;
                    CHECK_MESSAGE(names_both, text);
                }
                CHECK(cluster.value() == expected);
                ++iteration;
                const auto next = cluster.push(0, {{"rate", 4}}, iteration);
                const auto other = cluster.push(1, {{"rate", 4}}, iteration);
                REQUIRE(cluster.finish(0, next).has_value());
                REQUIRE(cluster.finish(1, other).has_value());
                expected -= 8;
                CHECK(cluster.value() == expected);
            };
            const auto is_at_rest = [&] {
                return std::ranges::all_of(
                    cluster.manager->view().segments(), [](const ViewSegment& segment) {
                        return segment.backup_count() == 1 && !segment.has_learner();
                    });
            };
            REQUIRE(cluster.run_until(is_at_rest));
            check();
            (void)cluster.add_server({.shards = 1});
            REQUIRE(cluster.run_until(
                [&] { return cluster.manager->view().servers().size() == 4 && is_at_rest(); }));
            check();
            const uint64_t epoch = cluster.manager->view().epoch();
            cluster.kill_host(1);
            check();  // some of it before the takeover is known
            REQUIRE(cluster.run_until(
                [&] { return cluster.manager->view().epoch() > epoch && is_at_rest(); }));
            check();
        }
    }

    TEST_CASE("a push whose arguments a shard refuses leaves no rows there") {
        RefusingShard job;
        CHECK(job.push(0, 7, -1) == Errc::kInvalidArgument);
        CHECK(job.row_count() == 0);
        CHECK(job.push(0, 7, 2) == Errc::kOk);
        CHECK(job.row_count() == 1);
        CHECK(job.push(0, 8, 2, 1) == Errc::kBusy);
        CHECK(job.row_count() == 2);
        CHECK(job.push(1, 9, 3, 1) == Errc::kDifferentArguments);
        CHECK(job.row_count() == 2);
        CHECK(job.push(0, 10, -1, 2) == Errc::kBusy);
        CHECK(job.push(1, 11, 2, 2) == Errc::kInvalidArgument);
        CHECK(job.row_count() == 2);
    }

    TEST_CASE("what the rule does not take is refused before it is sent") {
        RateCluster cluster(Layout::kDense);
        const auto why = [&](std::vector<NamedNumber> arguments) {
            const Status outcome = cluster.finish(0, cluster.push(0, std::move(arguments)));
            REQUIRE(outcome.code() == Errc::kInvalidArgument);
            return outcome.error().text();
        };
        const std::string unknown = why({{"speed", 1}});
        for (const char* const part : {"'rates'", "'sgd'", "speed", "rate"})
            CHECK_MESSAGE(unknown.find(part) != std::string::npos, unknown);
        const std::string nan = why({{"rate", std::numeric_limits<double>::quiet_NaN()}});
        for (const char* const part : {"'rates'", "'sgd'", "rate", "nan"})
            CHECK_MESSAGE(nan.find(part) != std::string::npos, nan);
        CHECK(cluster.value() == 0);
    }
}

}  // namespace weir::test

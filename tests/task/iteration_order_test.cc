// SPDX-License-Identifier: Apache-2.0
#include "lib/task/iteration_order.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("iteration_order") {
    using namespace weir;

    static TaskId iteration(TaskGraph & graph, IterationOrder & order, uint64_t number) {
        CHECK(order.begin(number));
        const TaskId id = *graph.add(order.dependencies(number));
        order.add(id);
        return id;
    }

    TEST_CASE("iterations run one after the other, or tau + 1 at a time, or all") {
        for (const Consistency model :
             {Consistency::sequential(), Consistency::bounded(2), Consistency::eventual()}) {
            TaskGraph graph(1);
            IterationOrder order(graph, model);
            for (uint64_t t = 1; t <= 10; ++t)
                iteration(graph, order, t);
            uint64_t started = 0;
            while (graph.start_next())
                ++started;
            CHECK(started == std::min<uint64_t>(10, model.open_max()));
        }
    }

    TEST_CASE("the bound may change while iterations run") {
        TaskGraph graph(1);
        IterationOrder order(graph, Consistency::bounded(1));
        const TaskId first = iteration(graph, order, 1);
        iteration(graph, order, 2);
        CHECK(graph.start_next() == first);
        CHECK(graph.start_next().has_value());
        CHECK_FALSE(order.may_begin(3));
        CHECK(order.dependencies(3) == std::vector<TaskId>{first});
        order.set_consistency(Consistency::bounded(2));
        CHECK(order.may_begin(3));
        order.set_consistency(Consistency::eventual());
        CHECK(order.may_begin(~uint64_t{0}));
        order.set_consistency(Consistency::sequential());
        CHECK_FALSE(order.may_begin(2));
        CHECK(order.may_begin(1));
        graph.finish(first, {});
        CHECK(order.may_begin(2));
        CHECK_FALSE(order.may_begin(3));
        CHECK(order.dependencies(2).empty());
        CHECK(order.count() == 1);
    }

    TEST_CASE("iterations count from 1 and only upwards, but may begin late") {
        const TaskGraph graph(1);
        IterationOrder order(graph, Consistency::sequential());
        CHECK(order.begin(0).code() == Errc::kInvalidArgument);
        CHECK(order.begin(100));
        CHECK(order.may_begin(101));
        const Status back = order.begin(100);
        REQUIRE(back.code() == Errc::kInvalidArgument);
        CHECK(back.error().text().find("iteration 100 begins after") != std::string::npos);
        CHECK(order.begin(~uint64_t{0}));
        CHECK(order.last() == ~uint64_t{0});
    }

    TEST_CASE("a failed iteration ends those that wait for it, until its error is taken") {
        TaskGraph graph(1);
        IterationOrder order(graph, Consistency::sequential());
        const TaskId first = iteration(graph, order, 1);
        const TaskId second = iteration(graph, order, 2);
        CHECK(graph.start_next() == first);
        graph.finish(first, Error(Errc::kDeadline, "late"));
        CHECK(order.may_begin(3));
        const TaskId third = iteration(graph, order, 3);
        for (const TaskId id : {second, third, first})
            CHECK(graph.take(id)->code() == Errc::kDeadline);
        const TaskId fourth = iteration(graph, order, 4);
        CHECK(graph.start_next() == fourth);
        CHECK(order.count() == 1);
    }

    /// Several workers with several tables. Tasks end in any order; the bound changes on the way.
    TEST_CASE("recorded histories: an iteration runs as soon as its bound allows, never before") {
        WEIR_TEST_SEED(seed, 91);
        Random random(seed);
        for (uint64_t history = 0; history < testing::histories_or(200); ++history) {
            CAPTURE(history);
            TaskGraph graph(7);
            const auto some_model = [&] {
                return random.below(6) == 0 ? Consistency::eventual()
                                            : Consistency::bounded(random.below(5));
            };
            IterationOrder order(graph, some_model());

            struct Recorded {
                uint64_t iteration = 0;
                uint64_t finished_before = 0;  // as of its call
                bool is_running = false;
                bool is_finished = false;
            };

            std::map<uint64_t, Recorded> record;  // by number of the task
            const auto all_finished = [&](uint64_t last) {
                for (const auto& [number, one] : record) {
                    if (one.iteration <= last && !one.is_finished) return false;
                }
                return true;
            };
            uint64_t t = random.below(3) * 50;
            for (int step = 0; step < 200; ++step) {
                if (random.below(20) == 0) order.set_consistency(some_model());
                if (random.below(2) == 0) {
                    const uint64_t before = order.consistency().finished_before(++t);
                    CHECK(order.begin(t));
                    CHECK(order.may_begin(t) == all_finished(before));
                    for (uint64_t table = 0; table <= random.below(3); ++table) {
                        const TaskId id = *graph.add(order.dependencies(t));
                        order.add(id);
                        record[id.number] = {t, before};
                    }
                }
                while (const auto id = graph.start_next()) {
                    Recorded& one = record.at(id->number);
                    one.is_running = true;
                    CHECK(all_finished(one.finished_before));
                }
                for (const auto& [number, one] : record) {
                    if (!one.is_running) CHECK_FALSE(all_finished(one.finished_before));
                }
                for (auto& [number, one] : record) {
                    if (!one.is_running || one.is_finished || random.below(3) > 0) continue;
                    graph.finish({7, number}, {});
                    CHECK(graph.take({7, number}));
                    one.is_finished = true;
                }
            }
            CHECK(order.count() >= graph.count());
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Iterations of real jobs and their consistency.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {

TEST_SUITE("iterations") {
    TEST_CASE("a worker that leaves waits for its part of an iteration, which then counts") {
        auto job = start_job(2, 1, 2);
        const std::vector<uint64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
        const std::vector<double> ones(keys.size(), 1);
        std::array<Status, 2> parts;
        std::atomic<bool> leaves = false;
        std::thread leaver([&] {
            auto client = std::move(job->make_client(1)).value();
            auto table = std::move(client.create_table<double>("numbers", {})).value();
            Task part = table.push(keys, ones, {.iteration = 1});
            leaves = true;
            parts[1] = client.leave();
            if (parts[1]) parts[1] = part.wait();
        });
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("numbers", {})).value();
        while (!leaves)
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        parts[0] = table.push(keys, ones, {.iteration = 1}).wait();
        leaver.join();
        for (const Status& part : parts) {
            INFO((part ? "" : part.error().text()));
            CHECK(part.has_value());
        }
        std::vector<double> seen(keys.size());
        REQUIRE(table.pull(keys, seen).wait().has_value());
        CHECK(seen[7] == 2);
        REQUIRE(client.leave().has_value());
        CHECK(job->serve());
    }

    TEST_CASE("parts leave at once, also those of a worker that does something else than poll") {
        const Config over_tcp(
            Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", "tcp"}}));
        auto job = Job::start({.servers = 1, .shards_per_server = 1, .workers = 2}, over_tcp);
        REQUIRE(job.has_value());
        std::atomic<bool> was_seen = false;
        const Status outcome = (*job)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto first, client.create_table<double>("first", {}));
            WEIR_ASSIGN(auto second, client.create_table<double>("second", {}));
            const std::vector<uint64_t> keys{1, 2, 3};
            const std::vector<double> ones(keys.size(), 1);
            std::vector<double> seen(keys.size());
            WEIR_TRY(client.barrier());
            Task one = first.push(keys, ones, {.iteration = 1});
            Task other = second.push(keys, ones, {.iteration = 1});
            if (client.worker() == 0) {
                const Status pulled = second.pull(keys, seen, {.iteration = 1}).wait();
                was_seen = true;  // whatever came of it: the other one waits for this
                WEIR_TRY(pulled);
            }
            while (!was_seen)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            WEIR_TRY(one.wait());
            return other.wait();
        });
        CHECK_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().message()));
        CHECK((*job)->serve());
    }

    TEST_CASE("iterations take keys as they come, and combine the rows of one key") {
        auto job = start_job(2, 1, 2);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            Iterations iterations(client, Consistency::sequential());
            WEIR_ASSIGN(auto table, iterations.create_table<double>("numbers", {}));
            KeyBatch batch(std::vector<uint64_t>{9, 2, 9, 7});
            std::vector<double> seen(4);
            for (uint64_t t = 1; t <= 3; ++t) {
                WEIR_TRY(iterations.begin(t));
                WEIR_TRY(iterations.pull(table, batch, seen).wait());
                const auto before = static_cast<double>(2 * (t - 1));
                if (seen != std::vector<double>{5 * before, before, 5 * before, before})
                    return Error(Errc::kProtocol, "pulled other rows than all have pushed");
                WEIR_ASSIGN(const std::span<double> rows, iterations.values(table, 4));
                std::ranges::copy(std::vector<double>{1, 1, 4, 1}, rows.begin());
                WEIR_TRY(iterations.push(table, batch, rows).wait());
            }
            return {};
        });
        CHECK_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().message()));
        CHECK(job->serve());
    }

    TEST_CASE("iterations: no worker is further ahead than its model allows, and all end") {
        constexpr uint64_t kCount = 60;
        const auto run = [&](Consistency model) {
            CAPTURE(model.tau());
            auto job = start_job(2, 2, 2);
            std::array<std::atomic<uint64_t>, 2> begun{};
            std::array<std::atomic<uint64_t>, 2> done{};
            std::array<double, 2> sums{};
            const Status outcome = job->run_workers([&](Client& client) -> Status {
                const uint32_t me = client.worker();
                WEIR_ASSIGN(auto table, client.create_table<double>("numbers", {.max_delay = 3}));
                const std::vector<uint64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
                const std::vector<double> ones(keys.size(), 1);
                std::vector<double> seen(keys.size());
                Iterations iterations(client, model);
                Tasks pushes;
                for (uint64_t t = 1; t <= kCount; ++t) {
                    WEIR_TRY(iterations.begin(t));
                    begun[me] = t;
                    // The other one has pushed what this iteration builds on.
                    if (done[1 - me] < model.finished_before(t))
                        return Error(Errc::kProtocol, "began too early");
                    WEIR_TRY(table.pull(keys, seen).wait());
                    if (seen[0] < 2.0 * static_cast<double>(model.finished_before(t)))
                        return Error(Errc::kProtocol, "pulled something staler than the bound");
                    if (me == 0 && t % 16 == 0) std::this_thread::yield();
                    done[me] = t;
                    pushes.add(iterations.push(table, keys, ones));
                }
                WEIR_TRY(pushes.wait());
                WEIR_TRY(client.barrier());
                WEIR_TRY(table.pull(keys, seen).wait());
                sums[me] = seen[7];
                return {};
            });
            INFO((outcome ? "" : outcome.error().text()));
            CHECK(outcome);
            CHECK(job->serve());
            CHECK(sums[0] == 2 * kCount);
            CHECK(sums[1] == 2 * kCount);
        };
        run(Consistency::sequential());
        run(Consistency::bounded(3));
        run(Consistency::eventual());
    }

    TEST_CASE("a pull that names an iteration says which one its values show; others say nothing") {
        auto job = start_job(2, 2, 2);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            TableOptions options = dense_options(1000);
            options.max_delay = 4;
            WEIR_ASSIGN(auto table, client.create_table<double>("numbers", options));
            const KeyRange all{0, 1000};
            const std::vector<double> ones(1000, 1);
            std::vector<double> seen(1000);
            Task nothing;
            CHECK_FALSE(nothing.iteration_shown());
            Task before = table.pull(all, seen);
            WEIR_TRY(before.wait());
            CHECK_FALSE(before.iteration_shown());
            for (uint64_t t = 1; t <= 20; ++t) {
                Task push = table.push(all, ones, {.iteration = t});
                Task pull = table.pull(all, seen, {.iteration = t > 3 ? t - 3 : 1});
                WEIR_TRY(pull.wait());
                const std::optional<uint64_t> shown = pull.iteration_shown();
                REQUIRE(shown);
                CHECK(*shown >= (t > 3 ? t - 3 : 1));
                CHECK(*shown <= t);
                // both workers' pushes of all iterations up to it
                for (const double value : seen)
                    CHECK(value >= 2.0 * static_cast<double>(*shown));
                WEIR_TRY(push.wait());
                CHECK_FALSE(push.iteration_shown());
            }
            WEIR_TRY(client.barrier());
            Task last = table.pull(all, seen, {.iteration = 3});
            WEIR_TRY(last.wait());
            CHECK(last.iteration_shown() == 20);  // a later one than was asked for
            Task moved = std::move(last);
            CHECK(moved.iteration_shown() == 20);
            Task plain = table.pull(all, seen);
            WEIR_TRY(plain.wait());
            CHECK(plain.iteration_shown() == 20);
            const std::vector<uint64_t> no_keys;
            std::vector<double> no_values;
            Task empty = table.pull(no_keys, no_values, {.iteration = 3});
            WEIR_TRY(empty.wait());
            CHECK_FALSE(empty.iteration_shown());
            return {};
        });
        INFO((outcome ? "" : outcome.error().text()));
        CHECK(outcome);
        CHECK(job->serve());
    }

    TEST_CASE("iterations: questions, numbers that go back, deadlines and errors") {
        using namespace std::chrono_literals;
        auto job = start_job(1, 1, 2);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            auto table = *client.create_table<double>("numbers", {});
            const std::vector<uint64_t> key{5};
            const std::vector<double> one{1};
            Iterations iterations(client);
            if (client.worker() == 1) {  // comes late
                CHECK(client.barrier());
                CHECK(iterations.begin(1));
                CHECK(iterations.push(table, key, one).wait());
                return {};
            }
            CHECK(iterations.push(table, key, one).wait().code() == Errc::kInvalidArgument);
            Task early = table.push(key, one);
            CHECK(iterations.add(early).code() == Errc::kInvalidArgument);
            CHECK(iterations.begin(0).code() == Errc::kInvalidArgument);
            CHECK(iterations.may_begin(1));
            CHECK(iterations.begin(1));
            Task first = iterations.push(table, key, one);
            CHECK_FALSE(iterations.may_begin(2));
            CHECK(iterations.may_begin(2, Consistency::bounded(1)));
            CHECK(iterations.dependencies(2).size() == 1);
            const Status late = iterations.begin(2, 1ms);
            CHECK(late.code() == Errc::kDeadline);
            CHECK(late.error().text().find("iteration 2 may not begin before iteration 1") == 0);
            CHECK(iterations.begin(2, {Consistency::eventual(), 1ms}));
            Task own = iterations.push(table, key, one);  // of no common iteration
            CHECK(own.wait());
            const Status back = iterations.begin(2);
            CHECK(back.code() == Errc::kInvalidArgument);
            CHECK(back.error().text().find("iteration 2 begins after iteration 2") == 0);
            iterations.set_consistency(Consistency::bounded(1));
            CHECK(iterations.consistency() == Consistency::bounded(1));
            CHECK_FALSE(iterations.may_begin(3));
            CHECK(client.barrier());
            CHECK(iterations.begin(3, 1h));
            CHECK(first.wait());
            const std::vector<uint64_t> unsorted{2, 1};
            const std::vector<double> two_ones{1, 1};
            Task wrong = table.push(unsorted, two_ones);
            CHECK(iterations.add(wrong));
            CHECK(iterations.may_begin(5));
            const Status failed = iterations.begin(5);
            CHECK(failed.code() == Errc::kInvalidArgument);
            CHECK(failed.error().text().find("iteration 5 cannot begin: task ") == 0);
            CHECK_FALSE(wrong.wait());
            CHECK(iterations.begin(5));
            const Status beyond = iterations.push(table, key, one).wait();
            CHECK(beyond.code() == Errc::kInvalidArgument);
            CHECK(beyond.error().text().find(
                      "table 'numbers': a bound of 1 iterations is beyond its max_delay of 0") ==
                  0);
            CHECK(iterations.begin(6, {Consistency::bounded(1), 1s}));
            return {};
        });
        CHECK(outcome);
        CHECK(job->serve());
    }

    TEST_CASE("iterations have the tables and the values of their model") {
        constexpr uint64_t kCount = 40;
        constexpr uint64_t kKeys = 500;
        for (const Consistency model :
             {Consistency::sequential(), Consistency::bounded(2), Consistency::eventual()}) {
            CAPTURE(model.tau());
            auto job = start_job(1, 2, 2);
            const Status outcome = job->run_workers([&](Client& client) -> Status {
                Iterations iterations(client, model);
                WEIR_ASSIGN(auto table,
                            iterations.create_table<double>("numbers", dense_options(kKeys)));
                CHECK(table.schema().max_delay == (model == Consistency::bounded(2) ? 2 : 0));
                Tasks pushes;
                std::vector<double*> given;
                for (uint64_t t = 1; t <= kCount; ++t) {
                    WEIR_TRY(iterations.begin(t));
                    WEIR_ASSIGN(const std::span<double> values, iterations.values(table));
                    WEIR_ASSIGN(const std::span<double> again, iterations.values(table));
                    if (values.size() != kKeys || again.data() != values.data())
                        return Error(Errc::kProtocol, "other values in the same iteration");
                    std::ranges::fill(values, static_cast<double>(t));
                    if (std::ranges::find(given, values.data()) == given.end())
                        given.push_back(values.data());
                    pushes.add(iterations.push(table, KeyRange{0, kKeys}, values));
                    if (client.worker() == 0 && t % 8 == 0)
                        std::this_thread::sleep_for(std::chrono::milliseconds(2));
                }
                WEIR_TRY(pushes.wait());
                CHECK(given.size() <=
                      (model.is_eventual() ? Iterations::kEventualBuffers : model.open_max()));
                WEIR_TRY(client.barrier());
                std::vector<double> seen(kKeys);
                WEIR_TRY(table.pull(KeyRange{0, kKeys}, seen).wait());
                CHECK(seen == std::vector<double>(kKeys, kCount * (kCount + 1)));
                return {};
            });
            INFO((outcome ? "" : outcome.error().text()));
            CHECK(outcome);
            CHECK(job->serve());
        }
    }

    TEST_CASE("iterations refuse values that a push could not use") {
        auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        Iterations iterations(client, Consistency::bounded(1));
        auto table = std::move(iterations.create_table<float>("t", {.max_delay = 5})).value();
        CHECK(table.schema().max_delay == 5);
        const auto why = [](const Result<std::span<float>>& values) {
            CHECK(values.code() == Errc::kInvalidArgument);
            return values ? std::string("ok") : values.error().text();
        };
        CHECK(why(iterations.values(table, 3)) ==
              "table 't': values before any iteration has begun");
        REQUIRE(iterations.begin(1));
        CHECK(why(iterations.values(table)) ==
              "table 't': it is sparse, so say how many values the push will have");
        REQUIRE(iterations.values(table, 3));
        CHECK(why(iterations.values(table, 4)) ==
              "table 't': 4 values are asked for in iteration 1, and 3 were before; all of a push "
              "are one buffer");
        REQUIRE(iterations.begin(2));
        CHECK(iterations.values(table, 4));
        REQUIRE(iterations.begin(3));
        CHECK(iterations.values(table, ~size_t{0} / 2).code() == Errc::kNoMemory);
        CHECK(Iterations(client, Consistency::bounded(64)).create_table<float>("u", {}).code() ==
              Errc::kInvalidArgument);
        CHECK(client.leave());
        CHECK(job->serve());
    }

    TEST_CASE("iterations: the model changes while they run") {
        constexpr uint64_t kCount = 30;
        const auto model_of = [](uint64_t t) {
            if (t == 6 || (t >= 16 && t <= 20)) return Consistency::eventual();
            return t < 8 || t > 20 ? Consistency::sequential() : Consistency::bounded(2);
        };
        auto job = start_job(2, 2, 2);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("numbers", {.max_delay = 2}));
            WEIR_ASSIGN(auto seldom, client.create_table<double>("seldom", {.max_delay = 2}));
            const std::vector<uint64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
            const std::vector<double> ones(keys.size(), 1);
            std::vector<double> seen(keys.size());
            Iterations iterations(client);
            Tasks pushes;
            uint64_t pushed = 0;  // in iterations of the table
            for (uint64_t t = 1; t <= kCount; ++t) {
                const Consistency model = model_of(t);
                if (t == 6) {
                    WEIR_TRY(iterations.begin(t, {model}));
                } else {
                    iterations.set_consistency(model);
                    WEIR_TRY(iterations.begin(t));
                }
                Task pull = iterations.pull(table, keys, seen);
                WEIR_TRY(pull.wait());
                const uint64_t oldest = model.finished_before(pushed + 1);
                if (oldest > 0) CHECK(pull.iteration_shown().has_value());
                CHECK(pull.iteration_shown().value_or(oldest) >= oldest);
                CHECK(seen[7] >= 2.0 * static_cast<double>(oldest));
                pushes.add(iterations.push(table, keys, ones));
                pushed += model.is_eventual() ? 0 : 1;
                CHECK(table.next_iteration() == pushed + 1);
                if (t % 3 == 0) pushes.add(iterations.push(seldom, keys, ones));
                if (model != Consistency::sequential()) continue;
                Task after = iterations.pull(table, keys, seen);  // needs no part of this iteration
                WEIR_TRY(after.wait());
                CHECK(after.iteration_shown().value_or(oldest) >= oldest);
            }
            WEIR_TRY(pushes.wait());
            WEIR_TRY(client.barrier());
            WEIR_TRY(table.pull(keys, seen).wait());
            CHECK(seen[7] == 2 * kCount);
            WEIR_TRY(seldom.pull(keys, seen).wait());
            CHECK(seen[7] == 2 * kCount / 3);
            return {};
        });
        INFO((outcome ? "" : outcome.error().text()));
        CHECK(outcome);
        CHECK(job->serve());
    }

    TEST_CASE("iterations: a refused push takes no number, and a second one is refused") {
        auto job = start_job(1, 1, 1);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("numbers", {}));
            const std::vector<uint64_t> keys{1, 2};
            const std::vector<uint64_t> unsorted{2, 1};
            const std::vector<double> ones(keys.size(), 1);
            std::vector<double> seen(keys.size());
            Iterations iterations(client);
            CHECK(iterations.pull(table, keys, seen)
                      .wait()
                      .error()
                      .text()
                      .find("table 'numbers': a pull before any iteration has begun") == 0);
            for (uint64_t t = 1; t <= 7; ++t) {
                WEIR_TRY(iterations.begin(t));
                if (t == 4) {
                    CHECK(iterations.push(table, unsorted, ones).wait().code() ==
                          Errc::kInvalidArgument);
                } else {
                    WEIR_TRY(iterations.push(table, keys, ones).wait());
                }
                if (t != 6) continue;
                const Status twice = iterations.push(table, keys, ones).wait();
                CHECK(twice.code() == Errc::kInvalidArgument);
                CHECK(twice.error().text().find(
                          "table 'numbers': iteration 6 has pushed to it before") == 0);
            }
            Task pull = table.pull(keys, seen, {.iteration = 6});
            WEIR_TRY(pull.wait());
            CHECK(pull.iteration_shown() == 6);
            CHECK(seen == std::vector<double>{6, 6});
            return {};
        });
        INFO((outcome ? "" : outcome.error().text()));
        CHECK(outcome);
        CHECK(job->serve());
    }

    TEST_CASE("iterations: a table of another client is refused, and nothing is sent") {
        std::optional<Table<double>> of_other;
        auto job = start_job(1, 1, 2);
        const Status outcome = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("numbers", {}));
            const std::vector<uint64_t> keys{1, 2};
            const std::vector<double> ones(keys.size(), 1);
            std::vector<double> seen(keys.size());
            if (client.worker() == 1) of_other = table;
            WEIR_TRY(client.barrier());
            if (client.worker() == 0) {
                Iterations iterations(client, Consistency::eventual());
                WEIR_TRY(iterations.begin(1));
                const Status pushed = iterations.push(*of_other, keys, ones).wait();
                CHECK(pushed.code() == Errc::kInvalidArgument);
                CHECK(pushed.error().text() ==
                      "table 'numbers': a push in a table of another client than these iterations");
                CHECK(iterations.pull(*of_other, keys, seen).wait().code() ==
                      Errc::kInvalidArgument);
                of_other.reset();
            }
            WEIR_TRY(client.barrier());
            WEIR_TRY(table.pull(keys, seen).wait());
            CHECK(seen == std::vector<double>{0, 0});
            return {};
        });
        INFO((outcome ? "" : outcome.error().text()));
        CHECK(outcome);
        CHECK(job->serve());
    }
}

}  // namespace weir::test

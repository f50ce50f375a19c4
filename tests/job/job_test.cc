// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs in this process, over shared memory: what trainers use, end to end.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <thread>
#include <type_traits>

#include <doctest/doctest.h>

#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "lib/weir.h"

namespace weir {
namespace {

Config small_pools() {
    return Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}}));
}

std::unique_ptr<Job> start(uint32_t servers, uint32_t shards, uint32_t workers) {
    JobOptions options;
    options.servers = servers;
    options.shards_per_server = shards;
    options.workers = workers;
    auto job = Job::start(options, small_pools());
    REQUIRE(job.has_value());
    return std::move(*job);
}

/// A user's rule: counts the pushes beside each value, which becomes their mean.
struct Mean {
    static constexpr uint32_t kStateValues = 1;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const RuleParameters&) {
        *state += 1;
        value += (*pushed - value) / *state;
    }
};

/// The same, where there is no memory left for it.
struct Greedy : Mean {
    template <class T>
    static void update(T&, T*, const T*, const RuleParameters&) {
        throw std::bad_alloc();
    }
};

TableOptions dense(uint64_t keys) {
    TableOptions options;
    options.layout = Layout::kDense;
    options.key_count = keys;
    return options;
}

}  // namespace

TEST_SUITE("job") {
    TEST_CASE("bulk between registered buffers and a dense table is not copied by the library") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense(1 << 18))).value();
        auto values = std::move(client.make_buffer<float>(1 << 18)).value();
        std::iota(values.begin(), values.end(), 1.0F);
        const KeyRange all{0, 1 << 18};
        REQUIRE(table.push(all, values).wait().has_value());
        REQUIRE(table.push(all, values).wait().has_value());
        auto out = std::move(client.make_buffer<float>(1 << 18)).value();
        REQUIRE(table.pull(all, out).wait().has_value());
        CHECK(out[0] == 2.0F);
        CHECK(out[1000] == 2 * 1001.0F);
        const auto stats = std::move(client.stats()).value();
        CHECK(stats.servers_bytes_received >= 2 * out.size() * sizeof(float));
        CHECK(stats.servers_bytes_sent >= out.size() * sizeof(float));
        CHECK(stats.bytes_copied == 0);
        CHECK(stats.servers_bytes_copied == 0);
        // Memory that is not registered is copied, and the copies are counted.
        std::vector<float> plain(1 << 18);
        REQUIRE(table.pull(all, plain).wait().has_value());
        CHECK(plain[1000] == out[1000]);
        CHECK(std::move(client.stats()).value().bytes_copied >= plain.size() * sizeof(float));
        // Memory that the user registered is not copied.
        auto registration = client.register_memory(std::as_writable_bytes(std::span(plain)));
        REQUIRE(registration.has_value());
        const uint64_t before = std::move(client.stats()).value().bytes_copied;
        REQUIRE(table.pull(all, plain).wait().has_value());
        REQUIRE(table.push(all, plain).wait().has_value());
        const auto after = std::move(client.stats()).value();
        CHECK(after.bytes_copied == before);
        CHECK(after.servers_bytes_copied == 0);
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("rules of the user's own are rules like the others") {
        JobOptions options;
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_rule<Mean>("mean").has_value());
        };
        auto job = Job::start(options, small_pools());
        REQUIRE(job.has_value());
        auto client = std::move((*job)->make_client(0)).value();
        TableOptions sparse;
        sparse.rule = "mean";
        auto table = std::move(client.create_table<double>("t", sparse)).value();
        const std::vector<uint64_t> keys = {3, 1'000'000'007};
        for (const double value : {1.0, 2.0, 6.0})
            REQUIRE(table.push(keys, std::vector<double>{value, -value}).wait().has_value());
        std::vector<double> out(2);
        REQUIRE(table.pull(keys, out).wait().has_value());
        CHECK(out[0] == 3);
        CHECK(out[1] == -3);
        sparse.rule = "median";
        CHECK_FALSE(client.create_table<double>("u", sparse).has_value());
        REQUIRE(client.leave().has_value());
        CHECK((*job)->serve().has_value());
    }

    TEST_CASE("the built-in rules do what their table says") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        const std::vector<uint64_t> key = {3};
        int number = 0;
        /// The value after pushes to an initial value of 1.
        const auto after = [&](const Rule& rule, const std::vector<std::vector<double>>& pushes) {
            const std::string name = "t" + std::to_string(++number);
            auto table = client.create_table<double>(name, {.rule = rule, .initial_value = 1});
            REQUIRE_MESSAGE(table.has_value(), (table ? "" : table.error().message()));
            for (const auto& pushed : pushes)
                REQUIRE(table->push(key, pushed).wait().has_value());
            std::vector<double> out(1);
            REQUIRE(table->pull(key, out).wait().has_value());
            return out[0];
        };
        CHECK(after(assign(), {{5}, {-2}}) == -2);
        CHECK(after(add(), {{5}, {-2}}) == 4);
        CHECK(after("add", {{5}, {-2}}) == 4);
        CHECK(after(max(), {{5}, {-2}}) == 5);
        CHECK(after(min(), {{5}, {-2}}) == -2);
        CHECK(after(sgd(0.1), {{2}, {-3}}) == 1 - 0.1 * 2 + 0.1 * 3);
        CHECK(after(adagrad(0.1, 1e-8), {{3}, {4}}) ==
              doctest::Approx(1 - 0.1 * 3 / 3 - 0.1 * 4 / 5));
        CHECK(after(prox_l1(0.25), {{2, 4}}) == 1 - 2.25 / 4);  // towards 0 by more than g / u
        CHECK(after(prox_l1(0, 0.125), {{2, 4}}) == 1 - 0.125);
        CHECK(after(prox_l1(5), {{2, -4}}) == 1 + 2.0 / 4);
        CHECK(client.create_table<float>("none", {.rule = "sgd"}).error().text() ==
              "table 'none': rule 'sgd': rate must be greater than 0, is 0");
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("a shard that ends for want of memory is an error of serve() and of who waits") {
        JobOptions options;
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_rule<Greedy>("greedy").has_value());
        };
        auto job = Job::start(options, small_pools());
        REQUIRE(job.has_value());
        auto client = std::move((*job)->make_client(0)).value();
        TableOptions sparse;
        sparse.rule = "greedy";
        auto table = std::move(client.create_table<float>("t", sparse)).value();
        const std::vector<uint64_t> keys = {3};
        const Status pushed = table.push(keys, std::vector<float>{1}).wait();
        CHECK(pushed.code() == Errc::kPeerLost);
        (void)client.leave(pushed);
        const Status served = (*job)->serve();
        CHECK(served.code() == Errc::kNoMemory);
        CHECK(served.error().text().find("shard 0") != std::string::npos);
    }

    TEST_CASE("a Task can be used again, and says the same after it was moved") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense(kMiB))).value();
        auto values = std::move(client.make_buffer<float>(kMiB)).value();
        auto out = std::move(client.make_buffer<float>(kMiB)).value();
        std::fill(values.begin(), values.end(), 1.0F);
        const KeyRange all{0, kMiB};
        Task task;
        CHECK(task.test());
        CHECK(task.wait().has_value());
        for (int round = 1; round <= 20; ++round) {
            task = table.push(all, values);
            REQUIRE(task.wait().has_value());
            REQUIRE(table.pull(all, out).wait().has_value());
            REQUIRE(out[kMiB - 1] == static_cast<float>(round));
        }
        task = table.push(KeyRange{0, kMiB + 1}, values);  // one key too many
        const Errc mistake = task.wait().code();
        CHECK(mistake != Errc::kOk);
        std::vector<Task> tasks;
        tasks.push_back(std::move(task));
        for (int i = 0; i < 100; ++i) {  // the vector moves them when it grows
            tasks.push_back(table.push(all, values));
            REQUIRE(tasks.back().wait().has_value());
        }
        CHECK(tasks[0].wait().code() == mistake);
        for (size_t i = 1; i < tasks.size(); ++i)
            CHECK(tasks[i].wait().has_value());
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("what is registered and used shows in the counters, each pool once") {
        const auto job = start(2, 2, 2);
        std::vector<ClientStats> stats(2);
        job->run_workers([&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<float>("t", dense(kMiB))).value();
            const auto mine = client.make_buffer<float>((i + 1) * kMiB);
            REQUIRE(mine.has_value());
            std::vector<uint64_t> keys(100);
            std::iota(keys.begin(), keys.end(), 10);
            const std::vector<float> ones(keys.size(), 1.0F);
            CHECK(table.push(keys, ones).wait().has_value());
            CHECK(client.barrier().has_value());
            stats[i] = std::move(client.stats()).value();
            CHECK(client.barrier().has_value());
            std::vector<float> plain(1000);
            {
                const auto registration =
                    client.register_memory(std::as_writable_bytes(std::span(plain)));
                REQUIRE(registration.has_value());
                CHECK(std::move(client.stats()).value().registered_bytes ==
                      stats[i].registered_bytes + 4000);
            }
            CHECK(std::move(client.stats()).value().registered_bytes == stats[i].registered_bytes);
            CHECK(client.leave().has_value());
        });
        // small_pools(): 16 MiB each, one for the servers of this process and one for its workers
        CHECK(stats[0].registered_bytes + stats[1].registered_bytes == 16 * kMiB);
        for (size_t i = 0; i < 2; ++i) {
            CHECK(stats[i].used_bytes >= (i + 1) * 4 * kMiB);
            CHECK(stats[i].used_bytes < (i + 1) * 4 * kMiB + kMiB);
            CHECK(stats[i].servers_registered_bytes % (16 * kMiB) == 0);
            CHECK(stats[i].servers_registered_bytes >= 16 * kMiB);
            CHECK(stats[i].servers_used_bytes >= 4 * kMiB);
            CHECK(stats[i].servers_used_bytes <= stats[i].servers_registered_bytes);
            CHECK(stats[i].servers_lists_remembered > 0);
        }
        CHECK(job->serve().has_value());
    }

    TEST_CASE("fresh lists for many steps do not make the pools grow") {
        constexpr uint64_t kKeys = 100'000;
        constexpr size_t kListKeys = 20'000;
        constexpr uint64_t kSteps = 400;  // 32 MB of rows and 64 MB of routes, were all remembered
        const auto job = start(1, 2, 2);
        std::vector<ClientStats> stats(2);
        job->run_workers([&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<int64_t>("counts", {})).value();
            auto ones = std::move(client.make_buffer<int64_t>(kListKeys)).value();
            std::fill(ones.begin(), ones.end(), 1);
            std::vector<uint64_t> keys(kListKeys);
            for (uint64_t step = 0; step < kSteps; ++step) {
                // each step leaves out others of every five keys
                for (uint64_t k = 0; k < kListKeys; ++k)
                    keys[k] = k * 5 + mix64(mix64(step) + k) % 5;
                REQUIRE(table.push(keys, ones).wait().has_value());
            }
            CHECK(client.barrier().has_value());
            std::iota(keys.begin(), keys.end(), 0);
            int64_t sum = 0;
            std::vector<int64_t> out(kListKeys);
            for (uint64_t first = 0; first < kKeys; first += kListKeys) {
                std::iota(keys.begin(), keys.end(), first);
                REQUIRE(table.pull(keys, out).wait().has_value());
                sum += std::accumulate(out.begin(), out.end(), int64_t{0});
            }
            CHECK(sum == static_cast<int64_t>(2 * kSteps * kListKeys));
            stats[i] = std::move(client.stats()).value();
            CHECK(client.barrier().has_value());
            CHECK(client.leave().has_value());
        });
        CHECK(stats[0].registered_bytes + stats[1].registered_bytes == 16 * kMiB);
        for (const ClientStats& each : stats) {
            CHECK(each.servers_registered_bytes == 16 * kMiB);
            CHECK(each.used_bytes < 4 * kMiB);
            CHECK(each.servers_lists_remembered > 10);
        }
        CHECK(job->serve().has_value());
    }

    TEST_CASE("sparse keys of several workers meet in one table") {
        const auto job = start(2, 2, 3);
        job->run_workers([&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            TableOptions options;
            options.width = 2;
            auto table = std::move(client.create_table<int64_t>("counts", options)).value();
            std::vector<uint64_t> keys(1000);
            for (uint64_t k = 0; k < keys.size(); ++k)
                keys[k] = k * 0x123456789ULL + 1;
            const std::vector<int64_t> ones(2 * keys.size(), 1);
            for (int round = 0; round < 5; ++round)
                CHECK(table.push(keys, ones).wait().has_value());
            CHECK(client.barrier().has_value());
            std::vector<int64_t> out(2 * keys.size());
            CHECK(table.pull(keys, out).wait().has_value());
            CHECK(std::count(out.begin(), out.end(), 15) == static_cast<long>(out.size()));
            const std::vector<uint64_t> never{5, ~uint64_t{0}};
            std::vector<int64_t> zero(4, 7);
            CHECK(table.pull(never, zero).wait().has_value());
            CHECK(zero == std::vector<int64_t>(4, 0));
            CHECK(client.leave().has_value());
        });
        CHECK(job->serve().has_value());
    }

    TEST_CASE("mistakes of the caller are errors that say what is wrong, and nothing is sent") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense(100))).value();
        std::vector<float> values(10, 1.0F);
        CHECK(client.open_table<float>("u").code() == Errc::kNotFound);
        CHECK(client.open_table<double>("t").code() == Errc::kTypeMismatch);
        CHECK(client.open_table<float>("t", 3).code() == Errc::kTypeMismatch);
        CHECK(client.create_table<float>("t", dense(101)).code() == Errc::kAlreadyExists);
        CHECK(client.create_table<float>("t", dense(100)).has_value());
        TableOptions nonsense = dense(100);
        nonsense.rule = "no-such-rule";
        CHECK(client.create_table<float>("v", nonsense).code() == Errc::kNotFound);
        TableOptions large = dense(100);
        large.initial_value = 1e300;
        CHECK(client.create_table<float>("large", large).code() == Errc::kInvalidArgument);
        CHECK(client.create_table<double>("large", large).has_value());
        CHECK(table.push(KeyRange{95, 105}, values).wait().code() == Errc::kOutOfRange);
        CHECK(table.push(KeyRange{0, 9}, values).wait().code() == Errc::kInvalidArgument);
        const std::vector<uint64_t> unsorted{3, 2};
        const std::vector<uint64_t> twice{3, 3};
        const std::vector<uint64_t> beyond{3, 100};
        const std::span<const float> two = std::span(values).first(2);
        CHECK(table.push(unsorted, two).wait().code() == Errc::kInvalidArgument);
        CHECK(table.push(twice, two).wait().code() == Errc::kInvalidArgument);
        CHECK(table.push(beyond, two).wait().code() == Errc::kOutOfRange);
        values[4] = std::numeric_limits<float>::quiet_NaN();
        CHECK(table.push(KeyRange{0, 10}, values).wait().code() == Errc::kNotFinite);
        values[4] = std::numeric_limits<float>::infinity();
        CHECK(table.push(KeyRange{0, 10}, values).wait().code() == Errc::kNotFinite);
        TableOptions lax = dense(100);
        lax.allow_not_finite = true;
        auto other = std::move(client.create_table<float>("lax", lax)).value();
        CHECK(other.push(KeyRange{0, 10}, values).wait().has_value());
        std::vector<float> out(100);
        REQUIRE(table.pull(KeyRange{0, 100}, out).wait().has_value());
        CHECK(out == std::vector<float>(100, 0.0F));
        REQUIRE(client.leave().has_value());
        CHECK(table.pull(KeyRange{0, 100}, out).wait().code() == Errc::kUnavailable);
        CHECK(client.open_table<float>("t").code() == Errc::kUnavailable);
        CHECK(client.leave().code() == Errc::kUnavailable);
    }

    TEST_CASE("a task tells whether it is finished, and may be dropped") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense(10))).value();
        auto buffer = std::move(client.make_buffer<double>(10)).value();
        Task task = table.push(KeyRange{0, 10}, buffer);
        while (!task.test())
            std::this_thread::yield();
        CHECK(task.wait().has_value());
        CHECK(task.wait().has_value());
        { const Task dropped = table.push(KeyRange{0, 10}, buffer); }
        Task other = table.pull(KeyRange{0, 10}, buffer);
        CHECK(other.wait_for(std::chrono::nanoseconds::max()).has_value());
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("who returns at the first error has its memory back: nothing comes late") {
        constexpr size_t kKeys = 65536;
        const auto job = start(1, 2, 2);
        std::vector<double> memory(kKeys);
        std::vector<Status> outcomes(2);
        job->run_workers([&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table = std::move(client.create_table<double>("t", dense(kKeys))).value();
            const KeyRange all{0, kKeys};
            const std::vector<double> ones(kKeys, 1.0);
            if (i == 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(200));
                outcomes[i] = table.push(all, ones, {.iteration = 1}).wait();
            } else {
                const Task part = table.push(all, ones, {.iteration = 1});
                const auto first_error = [&](std::span<double> out) -> Status {
                    Task pull = table.pull(all, out, {.iteration = 1});
                    const std::vector<double> wrong(kKeys, std::nan(""));
                    WEIR_TRY(table.push(all, wrong).wait());
                    return pull.wait();
                };
                outcomes[i] = first_error(memory);
                std::fill(memory.begin(), memory.end(), -7.0);  // the caller reuses it now
                CHECK(client.barrier().has_value());
                for (int poll = 0; poll < 1000; ++poll)
                    (void)table.pull(KeyRange{0, 1}, std::span(memory).first(1)).wait();
                memory[0] = -7;
            }
            if (i == 1) CHECK(client.barrier().has_value());
            CHECK(client.leave().has_value());
        });
        CHECK(outcomes[0].code() == Errc::kNotFinite);
        CHECK(outcomes[1].has_value());
        CHECK(std::count(memory.begin(), memory.end(), -7.0) == kKeys);
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a task that is replaced or goes has ended before that") {
        const auto job = start(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense(kMiB))).value();
        auto out = std::move(client.make_buffer<double>(kMiB)).value();
        const KeyRange all{0, kMiB};
        const std::vector<double> ones(kMiB, 1.0);
        { const Task dropped = table.push(all, ones); }
        { const Task dropped = table.pull(all, out); }
        CHECK(std::count(out.begin(), out.end(), 1.0) == kMiB);
        Task task = table.push(all, ones);
        task = table.pull(all, out);
        task = {};
        CHECK(std::count(out.begin(), out.end(), 2.0) == kMiB);
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("tasks: a group waits for all, says the first error, and can be used again") {
        const auto job = start(1, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", dense(kMiB))).value();
        const std::vector<double> ones(kMiB, 1.0);
        std::vector<double> out(kMiB);
        const auto few = std::span(ones).first(5);
        const KeyRange all{0, kMiB};
        {
            Tasks tasks;
            CHECK(tasks.count() == 0);
            CHECK(tasks.wait().has_value());
            for (int i = 0; i < 3; ++i)
                tasks.add(table.push(all, ones));
            tasks.add(table.push(all, few));            // too few values
            tasks.add(table.push(KeyRange{1, 0}, {}));  // no range at all
            tasks.add(table.pull(all, out));
            CHECK(tasks.count() == 6);
            const Status first = tasks.wait();
            CHECK(first.code() == Errc::kInvalidArgument);
            CHECK(tasks.count() == 0);
            CHECK(std::count(out.begin(), out.end(), 3.0) == kMiB);
            CHECK(tasks.wait().has_value());  // the error was returned before
        }
        {
            Tasks tasks;
            tasks.add(table.push(all, few));
            while (tasks.count() > 0)
                (void)tasks.reap();
            tasks.add(table.push(all, ones));
            CHECK(tasks.wait_for_room(1).code() == Errc::kInvalidArgument);  // kept by reap()
            CHECK(tasks.wait().code() == Errc::kInvalidArgument);
            CHECK(tasks.wait().has_value());
        }
        {
            Tasks tasks;
            for (int i = 0; i < 10; ++i) {
                REQUIRE(tasks.wait_for_room(3).has_value());
                CHECK(tasks.count() < 3);
                tasks.add(table.push(all, ones));
            }
            Tasks moved = std::move(tasks);
            CHECK(tasks.count() == 0);
            moved.add(table.pull(all, out));
        }  // drained here
        CHECK(std::count(out.begin(), out.end(), 14.0) == kMiB);
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("calls that name tasks run in that order, also when the Tasks are gone") {
        auto job = start(1, 2, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {.rule = assign()});
        const std::vector<uint64_t> key{5};
        std::vector<double> values(100);
        std::iota(values.begin(), values.end(), 1.0);
        std::vector<double> seen(1);
        Tasks tasks;
        TaskId before = kNoTask;
        for (const double& value : values) {
            Task push = table.push(key, std::span(&value, 1), {.after = {before}});
            before = push.id();
            tasks.add(std::move(push));
        }
        Task pull = table.pull(key, seen, {.after = {before}});
        CHECK(pull.wait());
        CHECK(seen[0] == 100);
        CHECK(tasks.wait());
        CHECK(pull.id() == kNoTask);
        Task named = table.pull(key, seen);
        const TaskId id = named.id();
        CHECK(named.wait());
        CHECK(named.id() == id);
        CHECK(client->barrier({}, std::array{id}));
        CHECK(client->leave());
        CHECK(job->serve());
    }

    TEST_CASE("handlers: they run while the client waits, may not wait, and may end their Task") {
        auto job = start(1, 2, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> key{5};
        const std::vector<double> one{1};
        std::vector<double> seen(1);
        Tasks follow_up;
        Task first = table.push(key, one);
        REQUIRE(first.then([&](const Status& pushed) {
            CHECK(pushed);
            Task refused = table.pull(key, seen);
            CHECK(refused.wait().code() == Errc::kInvalidArgument);
            CHECK(client->barrier().code() == Errc::kInvalidArgument);
            CHECK(client->stats().code() == Errc::kInvalidArgument);
            CHECK(client->leave().code() == Errc::kInvalidArgument);
            CHECK(client->open_table<double>("numbers").code() == Errc::kInvalidArgument);
            follow_up.add(std::move(refused));
            CHECK(follow_up.wait().code() == Errc::kInvalidArgument);
            CHECK(follow_up.count() == 1);
        }));
        CHECK(first.wait());
        CHECK(follow_up.reap() == 1);
        CHECK(follow_up.wait());
        CHECK(seen[0] == 1);
        CHECK(first.then([](const Status&) {}).code() == Errc::kInvalidArgument);

        auto owned = std::make_unique<Task>(table.push(key, one));
        bool has_run = false;
        REQUIRE(owned->then([&](const Status&) {
            owned.reset();
            Task gone = table.push(key, one);  // its requests are waited for
            has_run = true;
        }));
        while (!has_run)
            CHECK(table.pull(key, seen).wait());
        CHECK(table.pull(key, seen).wait());
        CHECK(seen[0] == 3);

        Task last = table.push(key, one);  // its handler would outlive what it uses
        REQUIRE(last.then([&](const Status&) { has_run = false; }));
        CHECK(client->leave());
        has_run = true;
        client = Error(Errc::kCancelled, "gone");
        CHECK(last.wait());
        CHECK(has_run);
        CHECK(job->serve());
    }

    TEST_CASE("a client that is destroyed ends the calls that wait") {
        auto job = start(1, 1, 1);
        auto client = job->make_client(0);
        REQUIRE(client.has_value());
        auto table = *client->create_table<double>("numbers", {});
        const std::vector<uint64_t> key{5};
        const std::vector<double> one{1};
        Task first = table.push(key, one);
        Task waiting = table.push(key, one, {.after = {first.id()}});
        Task waiting_for_ever = table.push(key, one, {.after = {waiting.id()}});
        client = Error(Errc::kCancelled, "gone");
        (void)first.wait();
        (void)waiting.wait();
        (void)waiting_for_ever.wait();
        CHECK_FALSE(job->serve());
    }

    TEST_CASE("iterations: no worker is further ahead than its model allows, and all end") {
        constexpr uint64_t kCount = 60;
        const auto run = [&](Consistency model) {
            CAPTURE(model.tau());
            auto job = start(2, 2, 2);
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

    TEST_CASE("iterations: questions, numbers that go back, deadlines and errors") {
        using namespace std::chrono_literals;
        auto job = start(1, 1, 2);
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
            CHECK(iterations.begin(3, 20s));
            CHECK(first.wait());
            Task wrong = table.push(std::vector<uint64_t>{2, 1}, std::vector<double>{1, 1});
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

    TEST_CASE("a client that is destroyed without leave() is named as that") {
        const auto job = start(1, 1, 2);
        Status barrier;
        job->run_workers([&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            if (i == 1) return;  // an early return
            barrier = client.barrier();
            CHECK(client.leave(barrier).has_value());
        });
        CHECK(barrier.code() == Errc::kPeerLost);
        CHECK(barrier.error().text().find("worker 1's client was destroyed without leave()") !=
              std::string::npos);
        CHECK_FALSE(job->serve().has_value());
    }

    TEST_CASE("run_workers makes clients, leaves for the workers, and tells the cause") {
        const auto job = start(1, 1, 3);
        const Status done = job->run_workers([&](Client& client) -> Status {
            if (client.worker() == 1) return Error(Errc::kIo, "disk full");
            return client.barrier();
        });
        CHECK(done.code() == Errc::kIo);
        CHECK(done.error().text() == "worker 1: disk full");
        CHECK_FALSE(job->serve().has_value());
        const auto other = start(1, 1, 2);
        CHECK(other->run_workers([](Client& client) { return client.barrier(); }).has_value());
        CHECK(other->serve().has_value());
    }

    TEST_CASE("a worker function that takes its client away ends with an error") {
        const auto job = start(1, 1, 1);
        const Status done = job->run_workers([](Client& client) -> Status {
            const Client taken = std::move(client);
            return {};
        });
        CHECK(done.code() == Errc::kUnavailable);
        CHECK_FALSE(job->serve().has_value());  // `taken` was destroyed without leave()
    }

    TEST_CASE("a job of many shards starts, also where messages are short") {
        JobOptions options;
        options.shards_per_server = 100;
        const Config config(
            Environment(Environment::Map{{"WEIR_POOL_MIB", "64"}, {"WEIR_EAGER_BYTES", "0"}}));
        const auto job = Job::start(options, config);
        REQUIRE(job.has_value());
        auto client = (*job)->make_client(0);
        REQUIRE(client.has_value());
        auto table = std::move(client->create_table<float>("many", dense(10'000))).value();
        std::vector<float> values(10'000, 3.0F);
        REQUIRE(table.push(KeyRange{0, 10'000}, values).wait().has_value());
        std::vector<float> out(10'000);
        REQUIRE(table.pull(KeyRange{0, 10'000}, out).wait().has_value());
        CHECK(out == values);
        REQUIRE(client->leave().has_value());
        CHECK((*job)->serve().has_value());
    }

    TEST_CASE("more shards than the ring has room for are refused before anything starts") {
        JobOptions options;
        options.servers = 17;
        options.shards_per_server = 4096;
        const auto job = Job::start(options, small_pools());
        REQUIRE(job.code() == Errc::kInvalidArgument);
        CHECK(job.error().message().find("69632 shards are more than the 65536") !=
              std::string::npos);
    }

    TEST_CASE("a worker that never comes is named when the time to join is over") {
        JobOptions options;
        options.workers = 2;
        const Config config(
            Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}, {"WEIR_JOIN_TIMEOUT_S", "1"}}));
        auto job = Job::start(options, config);
        REQUIRE(job.has_value());
        const auto client = (*job)->make_client(0);
        CHECK(client.code() == Errc::kDeadline);
        CHECK(client.error().message().find("worker 1") != std::string::npos);
        CHECK((*job)->serve().code() == Errc::kDeadline);
    }

    /// All keys and values of a table.
    template <class T>
    static std::map<uint64_t, std::vector<T>> read_out(Table<T> & table,
                                                       const ScanOptions& options = {}) {
        std::map<uint64_t, std::vector<T>> rows;
        Scan<T> scan = table.scan(options);
        while (scan.next()) {
            const size_t width = table.width();
            REQUIRE_FALSE(scan.keys().empty());
            REQUIRE(scan.values().size() == scan.keys().size() * width);
            for (size_t i = 0; i < scan.keys().size(); ++i) {
                const auto row = scan.values().subspan(i * width, width);
                CHECK(rows.try_emplace(scan.keys()[i], row.begin(), row.end()).second);
            }
        }
        REQUIRE(scan.status().has_value());
        CHECK_FALSE(scan.next());
        return rows;
    }

    TEST_CASE("a scan reads out tables of any layout and width") {
        const auto job = start(2, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        for (const uint32_t width : {1U, 3U, 5000U}) {  // the last is longer than a message
            const uint64_t count = width == 5000 ? 20 : 20'000;
            TableOptions options;
            options.width = width;
            const std::string name = "sparse" + std::to_string(width);
            auto table = std::move(client.create_table<float>(name, options)).value();
            CHECK(read_out(table).empty());
            std::vector<uint64_t> keys(count);
            for (size_t i = 0; i < keys.size(); ++i)
                keys[i] = i * i;
            std::vector<float> values(keys.size() * width);
            std::iota(values.begin(), values.end(), 0.0F);
            REQUIRE(table.push(keys, values).wait().has_value());
            const auto rows = read_out(table);
            REQUIRE(rows.size() == keys.size());
            bool right = true;
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto row = std::span(values).subspan(i * width, width);
                right &= std::ranges::equal(rows.at(keys[i]), row);
            }
            CHECK(right);
            CHECK(read_out(table, {.keys = KeyRange{4, 10}}).size() == 2);
            CHECK(read_out(table, {.keys = KeyRange{4, 4}}).empty());

            options = dense(count);
            options.width = width;
            options.initial_value = 7;
            auto all = std::move(client.create_table<float>("dense" + name, options)).value();
            const std::vector<uint64_t> one = {5};
            REQUIRE(all.push(one, std::vector<float>(width, 1.0F)).wait().has_value());
            const auto everything = read_out(all);
            REQUIRE(everything.size() == count);
            CHECK(everything.at(5) == std::vector<float>(width, 8.0F));
            CHECK(everything.at(count - 1) == std::vector<float>(width, 7.0F));
            CHECK(read_out(all, {.keys = KeyRange{5, 7}}).size() == 2);
        }
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a scan that cannot go on says why, and may be left at any point") {
        const auto job = start(1, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<uint64_t>("t", {})).value();
        std::vector<uint64_t> keys(20'000);
        std::iota(keys.begin(), keys.end(), 0);
        REQUIRE(table.push(keys, keys).wait().has_value());
        {
            auto left = table.scan();
            CHECK(left.next());
            auto moved = std::move(left);
            CHECK(moved.next());
        }
        auto late = table.scan({.deadline = std::chrono::nanoseconds(-1)});
        CHECK_FALSE(late.next());
        CHECK(late.status().code() == Errc::kDeadline);
        auto backwards = table.scan({.keys = KeyRange{2, 1}});
        CHECK_FALSE(backwards.next());
        CHECK(backwards.status().code() == Errc::kInvalidArgument);
        auto open = table.scan();
        CHECK(open.next());
        REQUIRE(client.leave().has_value());
        while (open.next()) {
        }
        CHECK(open.status().code() == Errc::kUnavailable);
        CHECK(open.keys().empty());
        auto after = table.scan();
        CHECK_FALSE(after.next());
        CHECK(after.status().code() == Errc::kUnavailable);
    }

    TEST_CASE("two jobs in one process do not see each other") {
        const auto first = start(1, 1, 1);
        const auto second = start(1, 1, 1);
        auto a = std::move(first->make_client(0)).value();
        auto b = std::move(second->make_client(0)).value();
        auto table = std::move(a.create_table<float>("t", dense(4))).value();
        CHECK(b.open_table<float>("t").code() == Errc::kNotFound);
        REQUIRE(a.leave().has_value());
        REQUIRE(b.leave().has_value());
    }
}

}  // namespace weir

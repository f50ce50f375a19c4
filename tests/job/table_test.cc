// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables of real jobs: what trainers push and pull, end to end.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <pthread.h>

#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

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
    static void update(T& value, T* state, const T* pushed, const RuleContext&) {
        *state += 1;
        value += (*pushed - value) / *state;
    }
};

/// The same, where a shard has no memory left to make the table.
struct Greedy : Mean {
    static double initial_state(const RuleParameters&) {
        std::array<char, 16> name{};
        (void)pthread_getname_np(pthread_self(), name.data(), name.size());
        if (std::string_view(name.data()) == "weir-shard-0") throw std::bad_alloc();
        return 0;
    }
};

}  // namespace

TEST_SUITE("tables") {
    TEST_CASE("bulk between registered buffers and a dense table is not copied by the library") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense_options(1 << 18))).value();
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
            REQUIRE(rules.register_rule<Mean>("own_mean").has_value());
        };
        const auto job = start_job(options);
        auto client = std::move(job->make_client(0)).value();
        TableOptions sparse;
        sparse.rule = "own_mean";
        auto table = std::move(client.create_table<double>("t", sparse)).value();
        const std::vector<uint64_t> keys = {3, 1'000'000'007};
        for (const double value : {1.0, 2.0, 6.0}) {
            const std::vector<double> values{value, -value};
            REQUIRE(table.push(keys, values).wait().has_value());
        }
        std::vector<double> out(2);
        REQUIRE(table.pull(keys, out).wait().has_value());
        CHECK(out[0] == 3);
        CHECK(out[1] == -3);
        sparse.rule = "median";
        CHECK_FALSE(client.create_table<double>("u", sparse).has_value());
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("the built-in rules do what their table says") {
        const auto job = start_job(1, 1, 1);
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
        const auto job = start_job(options);
        auto client = std::move(job->make_client(0)).value();
        TableOptions sparse;
        sparse.rule = "greedy";
        const auto table = client.create_table<float>("t", sparse);
        REQUIRE_FALSE(table.has_value());
        CHECK(table.code() == Errc::kPeerLost);
        (void)client.leave(table.error());
        const Status served = job->serve();
        CHECK(served.code() == Errc::kNoMemory);
        CHECK(served.error().text().find("shard 0") != std::string::npos);
    }

    TEST_CASE("fresh lists for many steps do not make the pools grow") {
        constexpr uint64_t kKeys = 100'000;
        constexpr size_t kListKeys = 20'000;
        constexpr uint64_t kSteps = 400;  // 32 MB of rows and 64 MB of routes, were all remembered
        const auto job = start_job(1, 2, 2);
        std::vector<ClientStats> stats(2);
        each_worker(*job, [&](uint32_t i) {
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
        const auto job = start_job(2, 2, 3);
        each_worker(*job, [&](uint32_t i) {
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

    TEST_CASE("a table is dropped while workers push to it, and another one has its name") {
        constexpr uint64_t kMany = 1 << 16;
        const auto job = start_job(2, 1, 2);
        size_t before = 0;  // the first worker's
        const Status ran = job->run_workers([&](Client& client) -> Status {
            const std::vector<double> ones(kMany, 1);
            for (uint64_t round = 0; round < 8; ++round) {
                WEIR_ASSIGN(auto table, client.create_table<double>("t", dense_options(kMany)));
                WEIR_TRY(client.barrier());
                Task push = table.push(KeyRange{0, kMany}, ones);
                if (client.worker() == 0) WEIR_TRY(client.drop_table("t"));
                const Status pushed = push.wait();
                CHECK((pushed || pushed.code() == Errc::kNotFound));
                WEIR_TRY(client.barrier());
                CHECK(table.push(KeyRange{0, kMany}, ones).wait().code() == Errc::kNotFound);
                CHECK(client.open_table<double>("t").code() == Errc::kNotFound);
                CHECK(client.drop_table("t").code() == Errc::kNotFound);
                if (client.worker() == 0) {
                    WEIR_ASSIGN(const ClientStats stats, client.stats());
                    if (round == 0) before = stats.servers_used_bytes;
                    CHECK(stats.servers_used_bytes < before + kMany * sizeof(double));
                }
                WEIR_TRY(client.barrier());
            }
            return {};
        });
        CHECK_MESSAGE(ran, ran.error().text());
    }

    TEST_CASE("when drop_table() returns, no push to the table is acknowledged any more") {
        const auto job = start_job(2, 2, 2);
        std::atomic<bool> is_dropped = false;
        size_t late = 0;
        const Status ran = job->run_workers([&](Client& client) -> Status {
            const std::vector<double> ones(4, 1);
            for (uint32_t round = 0; round < 20; ++round) {
                WEIR_ASSIGN(auto table, client.create_table<double>("t", dense_options(1000)));
                is_dropped = false;
                WEIR_TRY(client.barrier());
                if (client.worker() == 0) {
                    std::vector<Task> under_way;
                    for (uint64_t i = 0; i < 200; ++i)
                        under_way.push_back(table.push(KeyRange{i * 4, i * 4 + 4}, ones));
                    const TaskId last = under_way.back().id();
                    WEIR_TRY(client.drop_table("t"));
                    is_dropped = true;
                    Task after = table.push(KeyRange{0, 4}, ones, {.after = {last}});
                    const Status pushed = after.wait();
                    CHECK(pushed.code() == Errc::kNotFound);
                    CHECK(pushed.error().text().find("'t'") != std::string::npos);
                    for (Task& one : under_way)
                        (void)one.wait();
                } else {
                    for (bool is_over = false; !is_over;) {
                        const bool was_dropped = is_dropped;  // before it is sent
                        const Status pushed = table.push(KeyRange{0, 4}, ones).wait();
                        late += pushed && was_dropped ? 1 : 0;
                        is_over = !pushed;
                    }
                }
                WEIR_TRY(client.barrier());
            }
            return {};
        });
        CHECK_MESSAGE(ran, ran.error().text());
        CHECK(late == 0);
    }

    TEST_CASE("a call whose deadline is over before it begins sends nothing") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense_options(100))).value();
        std::vector<float> values(100, 1.0F);
        const std::vector<uint64_t> keys{3, 7};
        constexpr std::chrono::nanoseconds kOver(-1);
        for (int i = 0; i < 100; ++i) {
            CHECK(table.push(KeyRange{0, 100}, values, {.deadline = kOver}).wait().code() ==
                  Errc::kDeadline);
            const Status one =
                table.push(keys, std::span(values).first(2), {.deadline = kOver}).wait();
            CHECK(one.code() == Errc::kDeadline);
            CHECK(one.error().text().find("'t'") != std::string::npos);
            const Status part =
                table.push(KeyRange{0, 100}, values, {.iteration = 1, .deadline = kOver}).wait();
            CHECK(part.code() == Errc::kDeadline);
        }
        CHECK(client.barrier(kOver).code() == Errc::kDeadline);
        CHECK(client.checkpoint(kOver).code() == Errc::kDeadline);
        Task before = table.push(KeyRange{0, 1}, std::span(values).first(1));
        Task waits =
            table.push(KeyRange{0, 100}, values, {.deadline = kOver, .after = {before.id()}});
        CHECK(waits.wait().code() == Errc::kDeadline);
        CHECK(before.wait().has_value());
        CHECK(table.next_iteration() == 1U);
        std::vector<float> out(100, 5.0F);
        CHECK(table.pull(KeyRange{0, 100}, out, {.deadline = kOver}).wait().code() ==
              Errc::kDeadline);
        CHECK(out == std::vector<float>(100, 5.0F));
        REQUIRE(table.pull(KeyRange{0, 100}, out).wait().has_value());
        CHECK(out[0] == 1.0F);
        out[0] = 0;
        CHECK(out == std::vector<float>(100, 0.0F));
        REQUIRE(client.leave().has_value());
    }

    TEST_CASE("mistakes of the caller are errors that say what is wrong, and nothing is sent") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<float>("t", dense_options(100))).value();
        std::vector<float> values(10, 1.0F);
        CHECK(client.open_table<float>("u").code() == Errc::kNotFound);
        CHECK(client.open_table<double>("t").code() == Errc::kTypeMismatch);
        CHECK(client.open_table<float>("t", 3).code() == Errc::kTypeMismatch);
        CHECK(client.create_table<float>("t", dense_options(101)).code() == Errc::kAlreadyExists);
        CHECK(client.create_table<float>("t", dense_options(100)).has_value());
        CHECK(client.create_table<float>("a\x1b[2J", {}).code() == Errc::kInvalidArgument);
        CHECK(client.open_table<float>("a\n").code() == Errc::kInvalidArgument);
        CHECK(client.drop_table("a\n").code() == Errc::kInvalidArgument);
        TableOptions nonsense = dense_options(100);
        nonsense.rule = "no-such-rule";
        CHECK(client.create_table<float>("v", nonsense).code() == Errc::kNotFound);
        TableOptions large = dense_options(100);
        large.initial_value = 1e300;
        CHECK(client.create_table<float>("large", large).code() == Errc::kInvalidArgument);
        CHECK(client.create_table<double>("large", large).has_value());
        CHECK(table.push(KeyRange{95, 105}, values).wait().code() == Errc::kOutOfRange);
        CHECK(table.push(KeyRange{0, 9}, values).wait().code() == Errc::kInvalidArgument);
        const std::vector<uint64_t> unsorted{3, 2};
        const std::vector<uint64_t> twice{3, 3};
        const std::vector<uint64_t> beyond{3, 100};
        const std::span<const float> two = std::span(values).first(2);
        for (const std::vector<uint64_t>* keys : {&unsorted, &twice, &beyond}) {
            const Status wrong = table.push(*keys, two).wait();
            CHECK(wrong.code() == (keys == &beyond ? Errc::kOutOfRange : Errc::kInvalidArgument));
            CHECK(wrong.error().text().starts_with("table 't': "));
        }
        values[4] = std::numeric_limits<float>::quiet_NaN();
        CHECK(table.push(KeyRange{0, 10}, values).wait().code() == Errc::kNotFinite);
        values[4] = std::numeric_limits<float>::infinity();
        CHECK(table.push(KeyRange{0, 10}, values).wait().code() == Errc::kNotFinite);
        TableOptions lax = dense_options(100);
        lax.allow_not_finite = true;
        auto other = std::move(client.create_table<float>("lax", lax)).value();
        CHECK(other.push(KeyRange{0, 10}, values).wait().has_value());
        std::vector<float> out(100);
        REQUIRE(table.pull(KeyRange{0, 100}, out).wait().has_value());
        CHECK(out == std::vector<float>(100, 0.0F));
        REQUIRE(client.leave().has_value());
        CHECK(table.pull(KeyRange{0, 100}, out).wait().code() == Errc::kUnavailable);
        CHECK(client.open_table<float>("t").code() == Errc::kUnavailable);
        CHECK(client.leave().has_value());  // as the first time
    }
}

}  // namespace weir::test

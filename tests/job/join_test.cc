// SPDX-License-Identifier: Apache-2.0
/// \file
/// Processes that join a real job, which was started at a rendezvous. They share this process; a
/// job and its newcomers share nothing but what they would between processes.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/config.h"
#include "lib/base/random.h"
#include "lib/bootstrap/rendezvous/socket.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/weir.h"
#include "tests/wait_until.h"
#include "transport/net/reserved_port.h"

namespace weir {
namespace {

/// A secret file that is removed.
class SecretFile {
public:
    explicit SecretFile(const std::string& secret) {
        path_ = std::filesystem::temp_directory_path() /
                fmt::format("weir-join-secret.{}.{}", ::getpid(), secret.substr(0, 1));
        std::ofstream(path_) << secret;
        std::filesystem::permissions(
            path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }

    SecretFile(const SecretFile&) = delete;
    SecretFile& operator=(const SecretFile&) = delete;

    ~SecretFile() { std::filesystem::remove(path_); }

    [[nodiscard]] std::string path() const { return path_; }

private:
    std::filesystem::path path_;
};

Config config_with(Environment::Map more) {
    more["WEIR_POOL_MIB"] = "16";
    return Config(Environment(std::move(more)));
}

/// A job of one process at a rendezvous, and how others join it.
struct OpenJob {
    explicit OpenJob(const JobOptions& options, const std::string& secret_file = {}) {
        Environment::Map variables{{"WEIR_RENDEZVOUS", at}, {"WEIR_RANK", "0"}, {"WEIR_SIZE", "1"}};
        if (!secret_file.empty()) variables["WEIR_SECRET_FILE"] = secret_file;
        auto started = Job::start(options, config_with(variables));
        REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().message()));
        job = std::move(*started);
    }

    [[nodiscard]] Result<std::unique_ptr<Job>> join(uint32_t shards, uint32_t workers,
                                                    const std::string& secret_file = {}) const {
        JoinOptions options;
        options.contact = at;
        options.shards = shards;
        options.workers = workers;
        Environment::Map variables;
        if (!secret_file.empty()) variables["WEIR_SECRET_FILE"] = secret_file;
        return Job::join(options, config_with(variables));
    }

    Result<transport::ReservedPort> port = transport::ReservedPort::make();
    std::string at = fmt::format("127.0.0.1:{}", port.value().number());
    std::unique_ptr<Job> job;
};

const std::vector<uint64_t> kJoinKeys = {3, 14, 1'000'000'007};
constexpr KeyRange kAll{0, 64};

Status push_iterations(Table<int64_t>& table, uint64_t first, uint64_t last) {
    const std::vector<int64_t> ones(kAll.key_count(), 1);
    for (uint64_t i = first; i <= last; ++i)
        WEIR_TRY(table.push(kAll, ones, {.iteration = i}).wait());
    return {};
}

TableOptions dense_counts() {
    TableOptions options;
    options.layout = Layout::kDense;
    options.key_count = kAll.key_count();
    return options;
}

template <uint32_t kOwnVersion>
struct HalfWay {
    static constexpr uint32_t kVersion = kOwnVersion;
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        value += (*pushed - value) / kOwnVersion;
    }
};

std::string text_of(const Status& status) {
    return status ? "ok" : status.error().message();
}

/// Pushes random numbers by lists, ranges and iterations, and knows the sums of them.
class RandomPushes {
public:
    static constexpr uint64_t kDenseKeys = 20'000;
    static constexpr uint64_t kLists = 8;

    explicit RandomPushes(uint64_t seed) : random_(seed) {}

    /// Turns of all workers, until the first one has seen `is_over`. Each ends with an iteration,
    /// so no worker ends the turn that the first one makes the last before it knows that.
    Status run(Client& client, const std::atomic<bool>& is_over, std::atomic<uint64_t>& last) {
        TableOptions options;
        options.layout = Layout::kDense;
        options.key_count = kDenseKeys;
        WEIR_ASSIGN(auto ranges, client.create_table<uint64_t>("ranges", options));
        WEIR_ASSIGN(auto lists, client.create_table<uint64_t>("lists", {}));
        WEIR_ASSIGN(auto values, client.make_buffer<uint64_t>(kDenseKeys));
        for (uint64_t turn = 1; turn <= last; ++turn) {
            if (client.worker() == 0 && is_over && last > turn) last = turn;
            const uint64_t list = random_.below(kLists);
            const std::vector<uint64_t> numbers(kListKeys, random_());
            WEIR_TRY(lists.push(keys_of(list), numbers).wait());
            sparse_[list] += numbers[0];
            const uint64_t first = random_.below(kDenseKeys);
            const uint64_t count = 1 + random_.below(kDenseKeys - first);
            WEIR_TRY(push(ranges, values.span().first(count), first, {}));
            WEIR_TRY(push(ranges, values.span(), 0, {.iteration = turn}));
        }
        return client.barrier();
    }

    /// How many values of the tables are not the sums of `all` workers.
    static Result<uint64_t> count_wrong(Client& client, std::span<const RandomPushes> all) {
        WEIR_ASSIGN(auto ranges, client.open_table<uint64_t>("ranges"));
        WEIR_ASSIGN(auto lists, client.open_table<uint64_t>("lists"));
        uint64_t wrong = 0;
        std::vector<uint64_t> seen(kDenseKeys);
        WEIR_TRY(ranges.pull(KeyRange{0, kDenseKeys}, seen).wait());
        for (uint64_t key = 0; key < kDenseKeys; ++key) {
            uint64_t sum = 0;
            for (const RandomPushes& one : all)
                sum += one.dense_[key];
            wrong += sum != seen[key] ? 1 : 0;
        }
        seen.resize(kListKeys);
        for (uint64_t list = 0; list < kLists; ++list) {
            uint64_t sum = 0;
            for (const RandomPushes& one : all)
                sum += one.sparse_[list];
            WEIR_TRY(lists.pull(keys_of(list), seen).wait());
            for (const uint64_t value : seen)
                wrong += value != sum ? 1 : 0;
        }
        return wrong;
    }

private:
    static constexpr uint64_t kListKeys = 200;

    Status push(Table<uint64_t>& table, std::span<uint64_t> values, uint64_t first,
                const PushOptions& options) {
        const uint64_t number = random_();
        std::ranges::fill(values, number);
        WEIR_TRY(table.push(KeyRange{first, first + values.size()}, values, options).wait());
        for (uint64_t key = first; key < first + values.size(); ++key)
            dense_[key] += number;
        return {};
    }

    static const std::vector<uint64_t>& keys_of(uint64_t list) {
        static const std::vector<std::vector<uint64_t>> all = [] {
            std::vector<std::vector<uint64_t>> lists(kLists);
            for (uint64_t i = 0; i < kLists * kListKeys; ++i)
                lists[i % kLists].push_back(mix64(i + 1));
            for (std::vector<uint64_t>& keys : lists)
                std::ranges::sort(keys);
            return lists;
        }();
        return all[list];
    }

    Random random_;
    std::vector<uint64_t> dense_ = std::vector<uint64_t>(kDenseKeys);
    std::vector<uint64_t> sparse_ = std::vector<uint64_t>(kLists);
};

}  // namespace

TEST_SUITE("join") {
    TEST_CASE("a server and a worker join at the rendezvous, work, and leave; nothing is lost") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        auto table = std::move(client->create_table<int64_t>("counts", {})).value();
        const std::vector<int64_t> ones(kJoinKeys.size(), 1);
        REQUIRE(table.push(kJoinKeys, ones).wait());
        const auto joined = open.join(2, 1);
        REQUIRE_MESSAGE(joined.has_value(), (joined ? "" : joined.error().message()));
        Status served;
        std::thread serving([&] {  // leaves once its worker has come to its end
            CHECK(text_of((*joined)->run_workers([&](Client& mine) -> Status {
                      CHECK(mine.worker() == 1);
                      WEIR_ASSIGN(auto same, mine.open_table<int64_t>("counts"));
                      for (int i = 0; i < 100; ++i)
                          WEIR_TRY(same.push(kJoinKeys, ones).wait());
                      return {};
                  })) == "ok");
            served = (*joined)->serve([] { return true; });
        });
        for (int i = 0; i < 100; ++i)
            REQUIRE(table.push(kJoinKeys, ones).wait());
        serving.join();
        CHECK(text_of(served) == "ok");
        std::vector<int64_t> out(kJoinKeys.size());
        REQUIRE(table.pull(kJoinKeys, out).wait());
        CHECK(out == std::vector<int64_t>(kJoinKeys.size(), 201));
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("stats leave out a server that leaves meanwhile") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        auto table = std::move(client->create_table<int64_t>("counts", {})).value();
        const std::vector<int64_t> ones(kJoinKeys.size(), 1);
        for (int round = 0; round < 5; ++round) {
            const auto joined = open.join(1, 0);
            REQUIRE_MESSAGE(joined.has_value(), (joined ? "" : joined.error().message()));
            std::atomic<bool> has_left = false;
            std::thread serving([&] {
                CHECK(text_of((*joined)->serve([] { return true; })) == "ok");
                has_left = true;
            });
            while (!has_left) {
                REQUIRE(table.push(kJoinKeys, ones).wait());
                const auto stats = client->stats();
                CHECK_MESSAGE(stats.has_value(), (stats ? "" : stats.error().message()));
            }
            serving.join();
        }
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("a scan goes on by itself when a server joins and another leaves") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        for (const bool is_dense : {false, true}) {
            TableOptions options;
            options.key_count = is_dense ? 20'000 : 0;
            options.layout = is_dense ? Layout::kDense : Layout::kSparse;
            auto table =
                std::move(client->create_table<uint64_t>(is_dense ? "dense" : "sparse", options))
                    .value();
            std::vector<uint64_t> keys(20'000);
            std::iota(keys.begin(), keys.end(), 0);
            REQUIRE(table.push(keys, keys).wait());
            std::map<uint64_t, uint64_t> seen;
            const auto take = [&](const Scan<uint64_t>& scan) {
                for (size_t i = 0; i < scan.keys().size(); ++i)
                    CHECK(seen.emplace(scan.keys()[i], scan.values()[i]).second);
            };
            auto scan = table.scan();
            REQUIRE(scan.next());
            take(scan);
            const auto joined = open.join(2, 0);
            REQUIRE_MESSAGE(joined.has_value(), (joined ? "" : joined.error().message()));
            std::atomic<bool> leaves = false;
            std::atomic<bool> has_left = false;
            Status served;
            std::thread serving([&] {
                served = (*joined)->serve([&] { return leaves.load(); });
                has_left = true;
            });
            const std::vector<uint64_t> none(keys.size());
            for (int i = 0; i < 20; ++i) {
                REQUIRE(table.push(keys, none).wait());
                if (scan.next()) take(scan);
            }
            leaves = true;
            while (!has_left)
                REQUIRE(table.push(keys, none).wait());
            serving.join();
            CHECK(text_of(served) == "ok");
            while (scan.next())
                take(scan);
            CHECK(text_of(scan.status()) == "ok");
            CHECK(seen.size() == keys.size());
            CHECK(
                std::ranges::all_of(seen, [](const auto& row) { return row.first == row.second; }));
        }
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("a worker that joins takes part in iterations from its first one on, and leaves") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        auto table = std::move(client->create_table<int64_t>("counts", dense_counts())).value();
        CHECK(table.next_iteration() == 1);
        constexpr uint64_t kBefore = 5;
        REQUIRE(text_of(push_iterations(table, 1, kBefore)) == "ok");
        CHECK(table.next_iteration() == kBefore + 1);
        std::atomic<uint64_t> theirs = 0;
        std::atomic<bool> has_left = false;
        std::thread joining([&] {
            const auto joined = open.join(0, 1);
            REQUIRE_MESSAGE(joined.has_value(), (joined ? "" : joined.error().message()));
            const Status worked = (*joined)->run_workers([&](Client& mine) -> Status {
                WEIR_ASSIGN(auto same, mine.open_table<int64_t>("counts"));
                const uint64_t first = same.next_iteration().value();
                CHECK(first > kBefore);
                CHECK(push_iterations(same, first - 1, first - 1).code() == Errc::kInvalidArgument);
                WEIR_TRY(push_iterations(same, first, first + 49));
                theirs = 50;
                return {};
            });
            has_left = true;
            CHECK(text_of(worked) == "ok");
        });
        uint64_t last = kBefore;
        while (!has_left) {
            ++last;
            REQUIRE(text_of(push_iterations(table, last, last)) == "ok");
        }
        joining.join();
        REQUIRE(text_of(push_iterations(table, last + 1, last + 3)) == "ok");
        std::vector<int64_t> out(kAll.key_count());
        REQUIRE(table.pull(kAll, out, {.iteration = last + 3}).wait());
        CHECK(out == std::vector<int64_t>(out.size(), static_cast<int64_t>(last + 3 + theirs)));
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("the pulls of a worker that joins wait for what was begun before it") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        TableOptions options = dense_counts();
        options.max_delay = 7;
        auto table = std::move(client->create_table<int64_t>("counts", options)).value();
        constexpr uint64_t kBefore = 7;
        REQUIRE(text_of(push_iterations(table, 1, kBefore)) == "ok");
        const auto joined = open.join(0, 1);
        REQUIRE_MESSAGE(joined.has_value(), (joined ? "" : joined.error().message()));
        std::atomic<bool> has_left = false;
        Status worked;
        std::thread joining([&] {
            worked = (*joined)->run_workers([&](Client& mine) -> Status {
                CHECK(mine.worker() == 1);
                WEIR_ASSIGN(auto same, mine.open_table<int64_t>("counts"));
                const uint64_t first = same.next_iteration().value();
                CHECK(first > kBefore + 1);
                Iterations iterations(mine);
                std::vector<int64_t> out(kAll.key_count());
                WEIR_TRY(iterations.begin(first));
                Task pull = iterations.pull(same, kAll, out);
                WEIR_TRY(pull.wait());
                CHECK(pull.iteration_shown() == first - 1);
                CHECK(out == std::vector<int64_t>(out.size(), static_cast<int64_t>(first - 1)));
                return iterations.push(same, kAll, out).wait();
            });
            has_left = true;
        });
        uint64_t last = kBefore;
        while (!has_left) {
            ++last;
            REQUIRE(text_of(push_iterations(table, last, last)) == "ok");
        }
        joining.join();
        CHECK(text_of(worked) == "ok");
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("servers come and go while workers push: no call fails, and each push counts once") {
        JobOptions options;
        options.shards_per_server = 2;
        options.workers = 2;
        const OpenJob open(options);
        std::vector<RandomPushes> pushes{RandomPushes(1), RandomPushes(2)};
        std::atomic<bool> is_over = false;
        std::atomic<uint64_t> last = ~uint64_t{0};
        std::atomic<uint64_t> wrong = ~uint64_t{0};
        Status worked;
        std::thread working([&] {
            worked = open.job->run_workers([&](Client& client) -> Status {
                WEIR_TRY(pushes[client.worker()].run(client, is_over, last));
                if (client.worker() != 0) return client.barrier();
                WEIR_ASSIGN(wrong, RandomPushes::count_wrong(client, pushes));
                return client.barrier();
            });
        });
        // One joins, then the one that was there leaves: the first server, too.
        constexpr int kRounds = 3;
        std::vector<std::unique_ptr<Job>> joined;
        for (int round = 0; round < kRounds; ++round) {
            auto next = open.join(2, 0);
            REQUIRE_MESSAGE(next.has_value(), (next ? "" : next.error().message()));
            Job& oldest = round == 0 ? *open.job : *joined.back();
            joined.push_back(std::move(*next));
            // It is refused until the new one is in the job; round 0 may have to wait for the job.
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            Status leaving = oldest.leave();
            while (!leaving && std::chrono::steady_clock::now() < until) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                leaving = oldest.leave();
            }
            CHECK(text_of(leaving) == "ok");
            if (round > 0) CHECK(text_of(oldest.serve()) == "ok");
        }
        is_over = true;
        working.join();
        CHECK(text_of(worked) == "ok");
        CHECK(wrong == 0);
        CHECK(text_of(joined.back()->serve()) == "ok");
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("who has another secret, or none, does not join, and the job goes on") {
        const SecretFile secret("a secret of the job's own");
        const SecretFile other("b secret of someone else");
        const OpenJob open({}, secret.path());
        auto client = open.job->make_client(0);
        REQUIRE(client);
        for (const std::string& path : {other.path(), std::string()}) {
            const auto refused = open.join(0, 1, path);
            REQUIRE(refused.code() == Errc::kRefused);
            CHECK(refused.error().text().find("WEIR_SECRET_FILE") != std::string::npos);
        }
        const auto joined = open.join(0, 1, secret.path());
        REQUIRE(joined);
        CHECK(text_of((*joined)->run_workers([](Client& mine) -> Status {
                  WEIR_TRY(mine.create_table<float>("t", {}));
                  return {};
              })) == "ok");
        CHECK(client->open_table<float>("t"));
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }

    TEST_CASE("the rendezvous closes with the job") {
        const OpenJob open({});
        auto client = open.job->make_client(0);
        REQUIRE(client);
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
        const auto late = open.join(0, 1);
        REQUIRE(late.code() == Errc::kUnavailable);
        CHECK(late.error().text().find("is the job running") != std::string::npos);
        CHECK(boot::tcp_listen(*HostPort::parse(open.at)));  // the port is free
    }

    TEST_CASE(
        "a server that joins with another rule of a table's name, or without it, is told which") {
        JobOptions options;
        options.add_rules = [](RuleRegistry& rules) {
            CHECK(rules.register_rule<HalfWay<1>>("half_way"));
        };
        const OpenJob open(options);
        auto client = open.job->make_client(0);
        REQUIRE(client.has_value());
        auto table =
            std::move(client->create_table<double>("weights", {.rule = Rule("half_way")})).value();
        const std::vector<double> ones(kJoinKeys.size(), 1);
        const auto joins_with = [&](const std::function<void(RuleRegistry&)>& add_rules) {
            JoinOptions joiner;
            joiner.contact = open.at;
            joiner.shards = 1;
            joiner.add_rules = add_rules;
            auto joined = Job::join(joiner, config_with({}));
            REQUIRE(joined.has_value());
            const std::string text = text_of((*joined)->serve());
            CHECK(table.push(kJoinKeys, ones).wait());  // the job goes on
            return text;
        };
        const std::string without = joins_with({});
        CHECK_MESSAGE(
            without.find("table 'weights': no update rule 'half_way'") != std::string::npos,
            without);
        CHECK(without.find("JoinOptions") != std::string::npos);
        const std::string other = joins_with(
            [](RuleRegistry& rules) { CHECK(rules.register_rule<HalfWay<2>>("half_way")); });
        CHECK_MESSAGE(
            other.find("rule 'half_way' has version 2 here, and version 1") != std::string::npos,
            other);
        CHECK(client->leave());
        CHECK(open.job->serve());
    }

    TEST_CASE("a table whose rule a server lacks, or has as another version, is not made") {
        JobOptions options;
        options.add_rules = [](RuleRegistry& rules) {
            CHECK(rules.register_rule<HalfWay<1>>("half_way"));
        };
        const OpenJob open(options);
        auto client = open.job->make_client(0);
        REQUIRE(client.has_value());
        auto sums = std::move(client->create_table<double>("sums", {})).value();
        const std::vector<double> ones(kJoinKeys.size(), 1);
        const uint64_t alone_bytes = client->stats()->servers_registered_bytes;
        double pushed = 0;
        const auto refused_beside = [&](const std::function<void(RuleRegistry&)>& add_rules) {
            JoinOptions joiner;
            joiner.contact = open.at;
            joiner.shards = 1;
            joiner.add_rules = add_rules;
            auto joined = Job::join(joiner, config_with({}));
            REQUIRE(joined.has_value());
            std::atomic<bool> is_over = false;
            std::thread serving(
                [&] { CHECK(text_of((*joined)->serve([&] { return is_over.load(); })) == "ok"); });
            const auto has_joined = [&] {
                const auto stats = client->stats();
                REQUIRE(stats);
                return stats->servers_registered_bytes > alone_bytes;
            };
            REQUIRE(testing::wait_until(
                has_joined, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
            const auto made = client->create_table<double>("weights", {.rule = Rule("half_way")});
            const std::string text = made ? "ok" : made.error().text();
            CHECK(client->open_table<double>("weights").code() == Errc::kNotFound);
            REQUIRE(sums.push(kJoinKeys, ones).wait());  // the job goes on
            ++pushed;
            is_over = true;
            serving.join();
            std::vector<double> values(kJoinKeys.size());
            REQUIRE(sums.pull(kJoinKeys, values).wait());
            CHECK(values == std::vector<double>(kJoinKeys.size(), pushed));
            return text;
        };
        const std::string without = refused_beside({});
        CHECK_MESSAGE(
            without.find("table 'weights': no update rule 'half_way'") != std::string::npos,
            without);
        const std::string other = refused_beside(
            [](RuleRegistry& rules) { CHECK(rules.register_rule<HalfWay<2>>("half_way")); });
        CHECK_MESSAGE(
            other.find("rule 'half_way' has version 2 here, and version 1") != std::string::npos,
            other);
        for (const std::string& text : {without, other})
            CHECK_MESSAGE(text.find("shard ") != std::string::npos, text);
        auto table =
            std::move(client->create_table<double>("weights", {.rule = Rule("half_way")})).value();
        REQUIRE(table.push(kJoinKeys, ones).wait());
        CHECK(client->leave());
        CHECK(open.job->serve());
    }

    TEST_CASE("with kContinue the others go on when a worker that joined gives up") {
        JobOptions options;
        options.on_worker_loss = OnWorkerLoss::kContinue;
        const OpenJob open(options);
        auto client = open.job->make_client(0);
        REQUIRE(client);
        auto table = std::move(client->create_table<int64_t>("counts", dense_counts())).value();
        std::atomic<bool> is_gone = false;
        std::thread joining([&] {
            const auto joined = open.join(0, 1);
            REQUIRE(joined);
            auto mine = (*joined)->make_client(0);
            REQUIRE(mine);
            auto same = std::move(mine->open_table<int64_t>("counts")).value();
            const uint64_t first = same.next_iteration().value();
            CHECK(text_of(push_iterations(same, first, first + 2)) == "ok");
            is_gone = true;  // without leave()
        });
        uint64_t last = 0;
        for (int more = 10; more > 0; more -= is_gone ? 1 : 0) {
            ++last;
            REQUIRE(text_of(push_iterations(table, last, last)) == "ok");
        }
        joining.join();
        CHECK(client->barrier());
        CHECK(client->leave());
        CHECK(text_of(open.job->serve()) == "ok");
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs with a plugin: on all servers, on some, and on none.

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include "lib/base/config.h"
#include "lib/weir.h"
#include "transport/net/reserved_port.h"

namespace weir {
namespace {

const std::string kSound = WEIR_TEST_PLUGINS "/sound.so";
const std::vector<uint64_t> kThreeKeys = {3, 14, 1'000'000'007};

Config plugin_config(Environment::Map more = {}) {
    more["WEIR_POOL_MIB"] = "16";
    return Config(Environment(std::move(more)));
}

std::string message_of(const Status& status) {
    return status ? "ok" : status.error().message();
}

JobOptions with_plugins(std::vector<std::string> plugins) {
    JobOptions options;
    options.plugins = std::move(plugins);
    return options;
}

/// It is gone at the end.
class OwnFolder {
public:
    OwnFolder() { REQUIRE(::mkdtemp(folder_) != nullptr); }

    OwnFolder(const OwnFolder&) = delete;
    OwnFolder& operator=(const OwnFolder&) = delete;

    ~OwnFolder() { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string path() const { return folder_; }

private:
    char folder_[32] = "/tmp/weir-plugin-job.XXXXXX";
};

/// Another file of the same name.
class OtherSound {
public:
    OtherSound() { std::filesystem::copy_file(WEIR_TEST_PLUGINS "/other_content.so", path()); }

    [[nodiscard]] std::string path() const { return folder_.path() + "/sound.so"; }

private:
    OwnFolder folder_;
};

/// Pushes with the rule of the plugin, as if nothing were special about it.
Status use_rule(Client& client) {
    const auto workers = static_cast<float>(client.worker_count());  // before any leaves
    const TableOptions options{.width = 2, .rule = Rule("times", {{3}})};
    WEIR_ASSIGN(auto table, client.create_table<float>("rows", options));
    if (table.pushed_width() != 2) return Error(Errc::kException, "another width");
    WEIR_TRY(client.barrier());
    const std::vector<float> ones(kThreeKeys.size() * 2, 1);
    WEIR_TRY(table.push(kThreeKeys, ones).wait());
    WEIR_TRY(table.push(kThreeKeys, ones, {.arguments = {{"factor", 0.5}}}).wait());
    WEIR_TRY(client.barrier());
    WEIR_ASSIGN(auto same, client.open_table<float>("rows"));
    std::vector<float> values(ones.size());
    WEIR_TRY(same.pull(kThreeKeys, values).wait());
    const std::vector<float> wanted(ones.size(), 3.5F * workers);
    if (values == wanted) return {};
    return Error(Errc::kException,
                 fmt::format("values are {}, not {}", fmt::join(values, " "), wanted[0]));
}

/// Ranks in threads of this process, which meet at a rendezvous: how each of them ended.
template <size_t N>
std::array<std::string, N> run_ranks(const std::array<JobOptions, N>& of_ranks) {
    const auto port = transport::ReservedPort::make();
    const std::string at = fmt::format("127.0.0.1:{}", port.value().number());
    std::array<std::string, N> ended;
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < N; ++rank) {
        ranks.emplace_back([&, rank] {
            const Config config = plugin_config({{"WEIR_RENDEZVOUS", at},
                                                 {"WEIR_RANK", std::to_string(rank)},
                                                 {"WEIR_SIZE", std::to_string(N)}});
            ended[rank] = message_of(run(of_ranks[rank], config, use_rule));
        });
    }
    for (std::thread& rank : ranks)
        rank.join();
    return ended;
}

/// A job with a plugin that others may join.
struct PluginJob {
    PluginJob() {
        auto started = Job::start(
            with_plugins({kSound}),
            plugin_config({{"WEIR_RENDEZVOUS", at}, {"WEIR_RANK", "0"}, {"WEIR_SIZE", "1"}}));
        REQUIRE_MESSAGE(started, (started ? "" : started.error().message()));
        job = std::move(*started);
    }

    [[nodiscard]] Result<std::unique_ptr<Job>> join(uint32_t shards, uint32_t workers,
                                                    std::vector<std::string> plugins) const {
        JoinOptions options;
        options.contact = at;
        options.shards = shards;
        options.workers = workers;
        options.plugins = std::move(plugins);
        return Job::join(options, plugin_config());
    }

    Result<transport::ReservedPort> port = transport::ReservedPort::make();
    std::string at = fmt::format("127.0.0.1:{}", port.value().number());
    std::unique_ptr<Job> job;
};

}  // namespace

TEST_SUITE("plugins of jobs") {
    TEST_CASE("a table has the rule of a plugin, on several servers with copies") {
        JobOptions options = with_plugins({kSound});
        options.servers = 3;
        options.replicas = 1;
        options.workers = 2;
        CHECK(message_of(run(options, plugin_config(), use_rule)) == "ok");
    }

    TEST_CASE("ranks with servers load it, and those that only work need not") {
        JobOptions serves = with_plugins({kSound});
        JobOptions works;
        serves.servers = works.servers = 2;
        for (const std::string& ended : run_ranks<4>({serves, serves, works, serves}))
            CHECK(ended == "ok");
    }

    TEST_CASE(
        "a plugin that one rank with a server lacks, or has as another file, is named by all") {
        const OtherSound other;
        JobOptions has = with_plugins({kSound});
        JobOptions lacks;
        JobOptions differs = with_plugins({other.path()});
        has.servers = lacks.servers = differs.servers = 2;
        for (const std::string& ended : run_ranks<3>({has, lacks, has})) {
            INFO(ended);
            CHECK(ended.find("rank 1 (") != std::string::npos);
            CHECK(ended.find(") lacks the plugin sound.so, which rank 0 (") != std::string::npos);
            CHECK(ended.find("`plugins` (WEIR_PLUGINS)") != std::string::npos);
        }
        for (const std::string& ended : run_ranks<3>({lacks, has, lacks})) {
            INFO(ended);
            CHECK(ended.find(") lacks the plugin sound.so, which rank 1 (") != std::string::npos);
        }
        for (const std::string& ended : run_ranks<3>({has, differs, lacks})) {
            INFO(ended);
            CHECK(ended.find("the plugin sound.so of rank 1 (") != std::string::npos);
            CHECK(ended.find("is another file than that of rank 0 (") != std::string::npos);
        }
    }

    TEST_CASE(
        "WEIR_PLUGINS counts more than what the program says, and what is wrong ends the start") {
        const auto start = [](std::vector<std::string> plugins, const std::string& variable) {
            Environment::Map variables;
            if (!variable.empty()) variables["WEIR_PLUGINS"] = variable;
            return message_of(
                run(with_plugins(std::move(plugins)), plugin_config(variables), use_rule));
        };
        CHECK(start({}, kSound) == "ok");
        CHECK(start({"/nowhere.so"}, kSound) == "ok");
        CHECK(start({}, "").find("no update rule 'times'") != std::string::npos);
        CHECK(start({"/nowhere.so"}, "").find("the plugin /nowhere.so: it cannot be found") !=
              std::string::npos);
        CHECK(start({kSound}, kSound + ":/nowhere.so").find("the plugin /nowhere.so") !=
              std::string::npos);
    }

    TEST_CASE("a plugin that only ranks with workers have is of no use, and the rule is named") {
        JobOptions has = with_plugins({kSound});
        JobOptions lacks;
        for (const std::string& ended : run_ranks<2>({lacks, has})) {
            INFO(ended);
            CHECK(ended.find("no update rule 'times' in this process") != std::string::npos);
            CHECK(ended.find("WEIR_PLUGINS") != std::string::npos);
        }
    }

    TEST_CASE(
        "a job goes on from a checkpoint with the plugin; without, its error names the rule") {
        const OwnFolder folder;
        const auto values_of = [](Client& client, bool pushes) -> Result<std::vector<float>> {
            WEIR_ASSIGN(auto table, client.create_table<float>("rows", {.rule = {"times", {{2}}}}));
            std::vector<float> values = {1, 2, 3};
            if (pushes) {
                WEIR_TRY(table.push(kThreeKeys, values).wait());
                WEIR_TRY(client.checkpoint());
            }
            WEIR_TRY(table.pull(kThreeKeys, values).wait());
            return values;
        };
        const auto run_from = [&](JobOptions options, bool pushes) {
            options.checkpoint_folder = folder.path();
            if (!pushes) options.resume = folder.path();
            std::vector<float> values;
            const Status done = run(options, plugin_config(), [&](Client& client) -> Status {
                WEIR_ASSIGN(values, values_of(client, pushes));
                return {};
            });
            CHECK((!done || values == std::vector<float>{2, 4, 6}));
            return message_of(done);
        };
        CHECK(run_from(with_plugins({kSound}), true) == "ok");
        const std::string without = run_from({}, false);
        INFO(without);
        CHECK(without.find("table 'rows': no update rule 'times'") != std::string::npos);
        CHECK(without.find("`plugins`, WEIR_PLUGINS") != std::string::npos);
        CHECK(run_from(with_plugins({kSound}), false) == "ok");
    }

    TEST_CASE("an update that fails, or throws, ends the job with its text, rule and key") {
        for (const float pushed : {-1000.0F, -2000.0F}) {
            JobOptions options = with_plugins({kSound});
            options.servers = 2;
            options.replicas = 1;
            const Status done = run(options, plugin_config(), [&](Client& client) -> Status {
                WEIR_ASSIGN(auto table,
                            client.create_table<float>("rows", {.rule = {"times", {{1}}}}));
                const std::vector<uint64_t> key = {14};
                const std::vector<float> bad = {pushed};
                return table.push(key, bad).wait();
            });
            CHECK(done.code() == Errc::kException);
            INFO(message_of(done));
            CHECK(message_of(done).find(fmt::format(
                      "rule 'times' of table 'rows' threw at key 14: a push of {}", pushed)) !=
                  std::string::npos);
        }
    }

    TEST_CASE("workers that join need no plugin; servers that join need the same") {
        const OtherSound other;
        const PluginJob open;
        auto client = open.job->make_client(0);
        REQUIRE(client);
        {
            const auto joined = open.join(0, 1, {});
            REQUIRE(joined);
            auto mine = (*joined)->make_client(0);
            REQUIRE(mine);
            const TableOptions options{.rule = Rule("times", {{3}})};
            const auto table = mine->create_table<float>("of_a_joiner", options);
            REQUIRE_MESSAGE(table, (table ? "" : table.error().message()));
            CHECK(mine->create_table<float>("none", {.rule = Rule("tiems")})
                      .error()
                      .text()
                      .find("no update rule 'tiems'") != std::string::npos);
            CHECK(mine->create_table<float>("bad", {.rule = Rule("times", {{-1}})})
                      .error()
                      .text()
                      .find("factor must be greater than 0, is -1") != std::string::npos);
            CHECK(mine->create_table<double>("bad", options).code() == Errc::kTypeMismatch);
            CHECK(mine->leave());
        }
        auto table = client->open_table<float>("of_a_joiner");
        REQUIRE(table);
        const std::vector<float> three_ones(3, 1);
        const auto why_not_joined = [&](std::vector<std::string> plugins) {
            const auto joined = open.join(1, 0, std::move(plugins));
            REQUIRE_MESSAGE(joined, (joined ? "" : joined.error().message()));
            const std::string text = message_of((*joined)->serve());
            CHECK(table->push(kThreeKeys, three_ones).wait());  // the job goes on
            return text;
        };
        const std::string without = why_not_joined({});
        INFO(without);
        CHECK(without.find("this server (") != std::string::npos);
        CHECK(
            without.find(") lacks the plugin sound.so, which each server of the job has loaded") !=
            std::string::npos);
        const std::string another = why_not_joined({other.path()});
        INFO(another);
        CHECK(another.find("the plugin sound.so of this server (") != std::string::npos);
        const auto joined = open.join(1, 0, {kSound});
        REQUIRE(joined);
        std::string served;
        std::thread serving([&] { served = message_of((*joined)->serve()); });
        float pushes = 2;
        for (bool has_joined = false; !has_joined; ++pushes) {
            REQUIRE(table->push(kThreeKeys, three_ones).wait());
            const auto events = client->take_events();
            REQUIRE(events);
            for (const JobEvent& event : *events)
                has_joined = has_joined || event.kind == JobEvent::Kind::kServerJoined;
        }
        std::vector<float> values(3);
        CHECK(table->pull(kThreeKeys, values).wait());
        CHECK(values == std::vector<float>(3, 3 * pushes));
        CHECK(client->leave());
        CHECK(message_of(open.job->serve()) == "ok");
        serving.join();
        CHECK(served == "ok");
    }
}

}  // namespace weir

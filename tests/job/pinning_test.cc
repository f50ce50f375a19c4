// SPDX-License-Identifier: Apache-2.0

#include "lib/job/pinning.h"

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/machine/sys_file.h"
#include "lib/job/job.h"
#include "tests/log_lines.h"
#include "transport/net/reserved_port.h"
#include "transport/pool/memory_pool.h"

namespace weir {
namespace {

using Cpus = std::vector<int>;

RankThreads rank_of(uint32_t shards, uint32_t workers, Cpus cpus) {
    return {"this host", shards, workers, std::move(cpus)};
}

/// By the name of a thread of this process: the CPUs that it may run on, and how many have it.
struct Named {
    std::string cpus;
    size_t count = 0;
};

std::map<std::string, Named> threads_of_this_process() {
    std::map<std::string, Named> threads;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        const std::string folder = task.path();
        const std::string status = read_sys_text(folder + "/status").value_or("");
        constexpr std::string_view kField = "Cpus_allowed_list:\t";
        const size_t at = status.find(kField);
        if (at == std::string::npos) continue;
        const size_t from = at + kField.size();
        Named& named = threads[read_sys_text(folder + "/comm").value_or("")];
        named.cpus = status.substr(from, status.find('\n', from) - from);
        ++named.count;
    }
    return threads;
}

/// What the threads of a job of one server with two shards and two workers may use.
std::map<std::string, Named> threads_of_job(const char* pin) {
    JobOptions options;
    options.shards_per_server = 2;
    options.workers = 2;
    const Config config(Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}, {"WEIR_PIN", pin}}));
    const auto job = Job::start(options, config);
    REQUIRE(job.has_value());
    std::map<std::string, Named> threads;
    CHECK((*job)->run_workers([&](Client& client) -> Status {
        WEIR_TRY(client.barrier());
        if (client.worker() == 0) threads = threads_of_this_process();
        return client.barrier();
    }));
    CHECK((*job)->serve().has_value());
    return threads;
}

}  // namespace

TEST_SUITE("pinning") {
    TEST_CASE("shards get a core each, and those of the next rank the next ones") {
        const std::vector<RankThreads> ranks{rank_of(2, 1, {0, 2, 4, 6, 1, 3, 5, 7}),
                                             rank_of(2, 0, {0, 2, 4, 6, 1, 3, 5, 7}),
                                             rank_of(0, 2, {0, 1, 2, 3, 4, 5, 6, 7})};
        CHECK(choose_cpus(ranks, 0, PinPolicy::kAuto) == Cpus{0, 2});
        CHECK(choose_cpus(ranks, 1, PinPolicy::kAuto) == Cpus{4, 6});
        CHECK(choose_cpus(ranks, 2, PinPolicy::kAuto).empty());  // it has no shards
        CHECK(choose_cpus(ranks, 1, PinPolicy::kNever).empty());
    }

    TEST_CASE("what the launcher left a rank is all that it chooses from") {
        const std::vector<RankThreads> ranks{
            rank_of(2, 1, {4, 5, 6, 7}), rank_of(2, 0, {0, 1, 2, 3}), rank_of(1, 1, {4, 5, 6, 7})};
        CHECK(choose_cpus(ranks, 0, PinPolicy::kAuto) == Cpus{4, 5});
        CHECK(choose_cpus(ranks, 1, PinPolicy::kAuto) == Cpus{0, 1});
        CHECK(choose_cpus(ranks, 2, PinPolicy::kAuto) == Cpus{6});
    }

    TEST_CASE("auto leaves alone what has fewer CPUs than threads, or one CPU") {
        // two shards, two workers and the manager on two cores
        const std::vector<RankThreads> small{rank_of(2, 3, {0, 1})};
        CHECK(choose_cpus(small, 0, PinPolicy::kAuto).empty());
        CHECK(choose_cpus(small, 0, PinPolicy::kAlways) == Cpus{0, 1});
        // enough for either, but not for both
        const std::vector<RankThreads> two{rank_of(1, 1, {0, 1, 2}), rank_of(1, 1, {0, 1, 2})};
        CHECK(choose_cpus(two, 0, PinPolicy::kAuto).empty());
        // bound to a core each
        const std::vector<RankThreads> bound{rank_of(1, 0, {3}), rank_of(1, 0, {4})};
        CHECK(choose_cpus(bound, 1, PinPolicy::kAuto).empty());
        CHECK(choose_cpus(bound, 1, PinPolicy::kAlways) == Cpus{4});
        // other ranks have room, this one has not
        const std::vector<RankThreads> uneven{rank_of(1, 0, {0, 1, 2, 3, 4, 5}),
                                              rank_of(2, 1, {6, 7})};
        CHECK(choose_cpus(uneven, 1, PinPolicy::kAuto).empty());
        CHECK(choose_cpus(uneven, 0, PinPolicy::kAuto) == Cpus{0});
    }

    TEST_CASE("always shares CPUs evenly where there are too few") {
        const std::vector<RankThreads> ranks{rank_of(3, 1, {0, 1}), rank_of(2, 1, {0, 1})};
        CHECK(choose_cpus(ranks, 0, PinPolicy::kAlways) == Cpus{0, 1, 0});
        CHECK(choose_cpus(ranks, 1, PinPolicy::kAlways) == Cpus{1, 0});
    }

    TEST_CASE("threads share CPUs where the ranks of a host have more threads than CPUs") {
        // a server and a worker, alone or with a second worker, on two CPUs; the manager is idle
        const RankThreads server{"this host", 1, 0, {0, 1}, 0, 1};
        const std::vector<RankThreads> pair{server, rank_of(0, 1, {0, 1})};
        const std::vector<RankThreads> three{server, rank_of(0, 1, {0, 1}), rank_of(0, 1, {0, 1})};
        for (size_t self = 0; self < pair.size(); ++self)
            CHECK_FALSE(threads_share_cpus(pair, self));
        for (size_t self = 0; self < three.size(); ++self)
            CHECK(threads_share_cpus(three, self));
        // in one process
        CHECK_FALSE(threads_share_cpus(std::vector{rank_of(1, 1, {0, 1})}, 0));
        CHECK(threads_share_cpus(std::vector{rank_of(1, 2, {0, 1})}, 0));
        // bound to a core each, or two of three to the same
        const std::vector<RankThreads> bound{rank_of(1, 0, {0}), rank_of(0, 1, {1})};
        CHECK_FALSE(threads_share_cpus(bound, 0));
        CHECK_FALSE(threads_share_cpus(bound, 1));
        const std::vector<RankThreads> uneven{rank_of(1, 0, {0}), rank_of(0, 1, {1}),
                                              rank_of(0, 1, {1}), rank_of(0, 1, {0, 1, 2, 3})};
        CHECK_FALSE(threads_share_cpus(uneven, 0));
        CHECK(threads_share_cpus(uneven, 1));
        CHECK(threads_share_cpus(uneven, 2));
        CHECK_FALSE(threads_share_cpus(uneven, 3));
        CHECK_FALSE(threads_share_cpus(std::vector{rank_of(9, 9, {})}, 0));  // unknown
    }

    TEST_CASE("a store pool for every NUMA node that shards are pinned on, and no other") {
        const std::vector<NumaNode> nodes{
            {0, 1 << 30, {0, 1, 2, 3}}, {1, 1 << 30, {4, 5, 6, 7}}, {4, 1 << 30, {8, 9}}};
        StorePlan plan = plan_store_pools(nodes, Cpus{5, 8, 4, 9}, 4);
        CHECK(plan.nodes == std::vector<int>{1, 4});
        CHECK(plan.pool_of_shard == std::vector<size_t>{0, 1, 0, 1});
        plan = plan_store_pools(nodes, Cpus{2, 1}, 2);
        CHECK(plan.nodes == std::vector<int>{0});
        CHECK(plan.pool_of_shard == std::vector<size_t>{0, 0});
    }

    TEST_CASE("one store pool where there is one node, nobody is pinned, or a CPU is unknown") {
        const std::vector<NumaNode> two{{0, 1 << 30, {0, 1}}, {1, 1 << 30, {2, 3}}};
        const std::span<const NumaNode> one = std::span(two).first(1);
        for (const StorePlan& plan :
             {plan_store_pools(one, Cpus{0, 1, 0}, 3), plan_store_pools(two, Cpus{}, 3),
              plan_store_pools(two, Cpus{0, 2, 9}, 3), plan_store_pools({}, Cpus{0, 1, 2}, 3)}) {
            CHECK(plan.nodes == std::vector<int>{transport::kCurrentNode});
            CHECK(plan.pool_of_shard == std::vector<size_t>{0, 0, 0});
        }
    }

    TEST_CASE("what a rank tells the others comes back, and nonsense does not") {
        const RankThreads told{"host 3 d41d-8cd9", 4, 2, {0, 2, 4, 6, 1, 3, 5, 7}};
        const auto heard = RankThreads::decode(told.encode());
        REQUIRE(heard.has_value());
        CHECK(heard->host == told.host);
        CHECK(heard->shard_count == 4);
        CHECK(heard->worker_count == 2);
        CHECK(heard->cpus == told.cpus);
        for (const char* nonsense : {"", "4", "4 2", "4 2 0-3", "x 2 0-3\nhost", "-1 2 0\nhost"})
            CHECK_FALSE(RankThreads::decode(nonsense).has_value());
        RankThreads large = told;
        large.cpus.clear();
        for (int cpu = 0; cpu < 8192; cpu += 2)
            large.cpus.push_back(cpu);
        CHECK(large.encode().size() <= 4096);
        const auto some = RankThreads::decode(large.encode());
        REQUIRE(some.has_value());
        CHECK(std::equal(some->cpus.begin(), some->cpus.end(), large.cpus.begin()));
        CHECK(some->cpus.size() > 500);
    }

    TEST_CASE("threads have names, and WEIR_PIN says where shards run") {
        const std::string everywhere = cpu_list_text(allowed_cpus());
        const auto pinned = threads_of_job("always");
        std::set<std::string> used;
        for (const char* name : {"weir-shard-0", "weir-shard-1"}) {
            REQUIRE(pinned.contains(name));
            CHECK(pinned.at(name).count == 1);
            const std::vector<int> cpus = parse_cpu_list(pinned.at(name).cpus);
            REQUIRE(cpus.size() == 1);
            used.insert(pinned.at(name).cpus);
        }
        CHECK(used.size() == std::min<size_t>(2, allowed_cpus().size()));
        for (const char* name : {"weir-manager", "weir-worker-0", "weir-worker-1"}) {
            REQUIRE(pinned.contains(name));
            CHECK(pinned.at(name).cpus == everywhere);
        }
        const auto free = threads_of_job("never");
        REQUIRE(free.contains("weir-shard-1"));
        CHECK(free.at("weir-shard-1").cpus == everywhere);
        // automatically: only where there is a CPU for each of the five threads
        const auto automatic = threads_of_job("auto");
        REQUIRE(automatic.contains("weir-shard-1"));
        CHECK((parse_cpu_list(automatic.at("weir-shard-1").cpus).size() == 1) ==
              (allowed_cpus().size() >= 5 || allowed_cpus().size() == 1));
    }

    TEST_CASE("ranks that share a CPU know it from each other, and do not spin") {
        for (const bool share : {true, false}) {
            const std::vector<int> cpus = allowed_cpus();
            if (!share && cpus.size() < 2) continue;
            const auto port = transport::ReservedPort::make();
            REQUIRE(port.has_value());
            const std::string at = fmt::format("127.0.0.1:{}", port->number());
            const testing::LogLines log(LogLevel::kDebug);
            std::array<std::jthread, 2> ranks;
            for (uint32_t rank = 0; rank < 2; ++rank) {
                ranks[rank] = std::jthread([&, rank] {
                    REQUIRE(pin_this_thread(share ? cpus[0] : cpus[rank]).has_value());
                    const Config config(
                        Environment(Environment::Map{{"WEIR_POOL_MIB", "16"},
                                                     {"WEIR_TRANSPORT", "shm"},
                                                     {"WEIR_RENDEZVOUS", at},
                                                     {"WEIR_RANK", fmt::format("{}", rank)},
                                                     {"WEIR_SIZE", "2"}}));
                    const auto job = Job::start(JobOptions{}, config);
                    REQUIRE(job.has_value());
                    CHECK((*job)->run_workers([](Client&) { return Status{}; }).has_value());
                    CHECK((*job)->serve().has_value());
                });
            }
            for (std::jthread& rank : ranks)
                rank.join();
            CHECK(log.count("waiting threads do not spin") == (share ? 2 : 0));
        }
    }

    TEST_CASE("ranks of one host do not choose the same CPU") {
        const auto port = transport::ReservedPort::make();
        REQUIRE(port.has_value());
        const std::string at = fmt::format("127.0.0.1:{}", port->number());
        std::map<std::string, Named> threads;
        std::array<std::jthread, 2> ranks;
        for (uint32_t rank = 0; rank < 2; ++rank) {
            ranks[rank] = std::jthread([&, rank] {
                JobOptions options;
                options.servers = 2;
                options.colocate = true;
                const Config config(
                    Environment(Environment::Map{{"WEIR_POOL_MIB", "16"},
                                                 {"WEIR_PIN", "always"},
                                                 {"WEIR_TRANSPORT", "shm"},
                                                 {"WEIR_RENDEZVOUS", at},
                                                 {"WEIR_RANK", fmt::format("{}", rank)},
                                                 {"WEIR_SIZE", "2"}}));
                const auto job = Job::start(options, config);
                REQUIRE(job.has_value());
                auto client = (*job)->make_client(0);
                REQUIRE(client.has_value());
                CHECK(client->barrier().has_value());
                if (rank == 0) threads = threads_of_this_process();
                CHECK(client->barrier().has_value());
                CHECK(client->leave().has_value());
                CHECK((*job)->serve().has_value());
            });
        }
        for (std::jthread& rank : ranks)
            rank.join();
        REQUIRE(threads.contains("weir-shard-0"));
        REQUIRE(threads.contains("weir-shard-1"));
        CHECK(parse_cpu_list(threads.at("weir-shard-0").cpus).size() == 1);
        CHECK((threads.at("weir-shard-0").cpus == threads.at("weir-shard-1").cpus) ==
              (allowed_cpus().size() == 1));
    }
}

}  // namespace weir

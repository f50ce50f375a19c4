// SPDX-License-Identifier: Apache-2.0
#include "lib/job/host_threads.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/bootstrap/rendezvous/rendezvous.h"

namespace weir {
namespace {

/// Rank 1 of three. What the others have published is given.
class ThreeRanks final : public Bootstrap {
public:
    ThreeRanks(const RankThreads& first, const RankThreads& last) {
        published_ = {{0, first.encode()}, {2, last.encode()}};
    }

    [[nodiscard]] uint32_t rank() const noexcept override { return 1; }

    [[nodiscard]] uint32_t size() const noexcept override { return 3; }

    [[nodiscard]] std::string_view name() const noexcept override { return "three ranks"; }

    Status put(std::string_view /*key*/, std::string_view value) override {
        published_[rank()] = value;
        return {};
    }

    Status exchange(uint64_t /*deadline_ns*/) override { return {}; }

    Result<std::string> get(uint32_t rank, std::string_view /*key*/) override {
        return published_.at(rank);
    }

    Status finish() override { return {}; }

private:
    std::map<uint32_t, std::string> published_;  ///< by rank
};

RankThreads rank_on(std::string host, uint32_t workers) {
    RankThreads rank;
    rank.host = std::move(host);
    rank.worker_count = workers;
    rank.cpus = {4711};
    return rank;
}

HostThreads threads_of_one_worker() {
    HostThreads::Counts counts;
    counts.workers = 1;
    return std::move(HostThreads::of_this_process(Config(), counts)).value();
}

}  // namespace

TEST_SUITE("host_threads") {
    TEST_CASE("the threads of ranks on this host share its CPUs, those on another one do not") {
        const uint32_t many = 100'000;  // more than CPUs
        for (const bool is_here : {true, false}) {
            CAPTURE(is_here);
            const std::string host = is_here ? boot::this_host_id() : "another";
            ThreeRanks ranks(rank_on("another", many), rank_on(host, many));
            HostThreads threads = threads_of_one_worker();
            REQUIRE(threads.publish(ranks).has_value());
            CHECK_FALSE(threads.share_cpus());  // it does not know of the others yet
            REQUIRE(threads.find_ranks(ranks).has_value());
            CHECK(threads.share_cpus() == is_here);
            CHECK(threads.hosts() ==
                  std::vector<std::string>{"another", boot::this_host_id(), host});
        }
    }

    TEST_CASE("the CPUs of rank 0 are told if it is on this host") {
        const HostThreads threads = threads_of_one_worker();
        ThreeRanks here(rank_on(boot::this_host_id(), 1), rank_on("another", 1));
        CHECK(threads.cpus_of_rank_0(here).value() == std::vector<int>{4711});
        ThreeRanks elsewhere(rank_on("another", 1), rank_on(boot::this_host_id(), 1));
        CHECK(threads.cpus_of_rank_0(elsewhere).value().empty());
    }

    TEST_CASE("a process without shards pins none") {
        HostThreads threads = threads_of_one_worker();
        threads.choose_cpus_of_shards();
        CHECK(threads.cpu_of_shard(0) == std::nullopt);
    }
}

}  // namespace weir

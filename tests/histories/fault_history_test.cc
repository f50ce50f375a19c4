// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whole clusters over a network with faults: some posts are refused and have to be repeated,
/// completions come late, connections break, and (which no network may do) bits flip. Every push
/// adds one to its keys, so that a key's value says how many pushes it has counted.

#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"
#include "transport/fault/fault.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeysOfWorker = 64;  ///< of each worker
constexpr uint32_t kWorkers = 2;

/// Two workers that push to keys of their own; the network of the first, or of all, has faults.
struct FaultyCluster {
    FaultyCluster(uint64_t seed, bool of_all) : random(seed) {
        SimShape shape;
        shape.workers = kWorkers;
        shape.message_bytes_max = random.below(2) == 0 ? 8192 : 1024;
        shape.eager_bytes = random.below(2) == 0 ? 64 : 4096;
        shape.faults = faults;
        shape.faults_of_all = of_all;
        transport::sim::Options options;
        options.maps_memory = random.below(2) == 0;
        options.delay_ns_max = kMicrosecond * (2 + random.below(50));
        cluster = std::make_unique<SimCluster>(random(), shape, options);
        REQUIRE(cluster->start());
        const Layout layout = random.below(2) == 0 ? Layout::kDense : Layout::kSparse;
        const TableSchema schema =
            table_of(layout, "counts", kWorkers * kKeysOfWorker, ValueType::kUInt64);
        for (uint32_t worker = 0; worker < kWorkers; ++worker) {
            auto made = cluster->make_table(worker, schema);
            REQUIRE(made.has_value());
            tables.push_back(*made);
        }
    }

    struct Push {
        ClientCore::CallId call = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> ones;
    };

    void begin(uint32_t worker, Push& push) {
        std::set<uint64_t> chosen;
        while (chosen.size() < 1 + random.below(kKeysOfWorker / 2))
            chosen.insert(worker * kKeysOfWorker + random.below(kKeysOfWorker));
        push.keys.assign(chosen.begin(), chosen.end());
        push.ones.assign(push.keys.size(), 1);
        for (const uint64_t key : push.keys)
            ++issued[key];
        push.call = cluster->workers[worker]->push(tables[worker], push.keys,
                                                   std::as_bytes(std::span(push.ones)), {});
    }

    /// Every push ends, with success or with an error.
    void run(size_t pushes_of_each) {
        for (size_t round = 0; round < pushes_of_each; ++round) {
            std::array<Push, kWorkers> pushes;
            for (uint32_t worker = 0; worker < kWorkers; ++worker)
                begin(worker, pushes[worker]);
            for (uint32_t worker = 0; worker < kWorkers; ++worker) {
                const Status ended = cluster->finish(worker, pushes[worker].call);
                if (!ended) ++failed[worker];
            }
        }
    }

    /// All values, as the second worker sees them.
    [[nodiscard]] std::vector<uint64_t> values() {
        std::vector<uint64_t> keys(kWorkers * kKeysOfWorker);
        for (uint64_t key = 0; key < keys.size(); ++key)
            keys[key] = key;
        std::vector<uint64_t> out(keys.size());
        const auto call =
            cluster->workers[1]->pull(tables[1], keys, std::as_writable_bytes(std::span(out)), {});
        REQUIRE(cluster->finish(1, call).has_value());
        return out;
    }

    /// Checks the keys of the second worker, whose network has no faults.
    void check_second_worker(const std::vector<uint64_t>& now) {
        CHECK(failed[1] == 0);
        for (uint64_t key = kKeysOfWorker; key < 2 * kKeysOfWorker; ++key)
            REQUIRE(now[key] == issued[key]);
    }

    Random random;
    std::shared_ptr<transport::Faults> faults = std::make_shared<transport::Faults>(random());
    std::unique_ptr<SimCluster> cluster;
    std::vector<TableInfo> tables;
    std::vector<uint64_t> issued = std::vector<uint64_t>(kWorkers * kKeysOfWorker);
    std::array<uint64_t, kWorkers> failed{};
};

template <class Case>
void for_seeds(uint64_t count, Case&& run) {
    const uint64_t first = testing::seed_or(1);
    for (uint64_t seed = first; seed < first + testing::histories_or(count); ++seed) {
        INFO("WEIR_SEED=" << seed);
        run(seed);
    }
}

}  // namespace

TEST_SUITE("fault_history") {
    TEST_CASE("a network that takes nothing now and tells late loses nothing") {
        uint64_t refused = 0;
        for_seeds(100, [&](uint64_t seed) {
            FaultyCluster faulty(seed, true);
            faulty.faults->not_now = 0.3;
            faulty.faults->delay_polls_max = 20;
            faulty.run(20);
            CHECK(faulty.failed[0] + faulty.failed[1] == 0);
            CHECK(faulty.values() == faulty.issued);
            refused += faulty.faults->not_now_count;
        });
        CHECK(refused > 0);
    }

    TEST_CASE("where connections break, every push is counted once, and none fails") {
        uint64_t broken = 0;
        for_seeds(100, [&](uint64_t seed) {
            FaultyCluster faulty(seed, false);
            faulty.faults->broken = 0.02;
            faulty.faults->delay_polls_max = 5;
            faulty.run(20);
            const std::vector<uint64_t> now = faulty.values();
            faulty.check_second_worker(now);
            CHECK(faulty.failed[0] == 0);
            CHECK(now == faulty.issued);
            broken += faulty.faults->broken_count;
        });
        CHECK(broken > 0);
    }

    TEST_CASE("a worker that is told garbage ends all its calls and disturbs nobody") {
        uint64_t corrupted = 0;
        for_seeds(100, [&](uint64_t seed) {
            FaultyCluster faulty(seed, false);
            faulty.faults->corrupted = 0.1;
            faulty.run(20);
            const std::vector<uint64_t> now = faulty.values();
            faulty.check_second_worker(now);
            for (uint64_t key = 0; key < kKeysOfWorker; ++key)
                REQUIRE(now[key] <= faulty.issued[key]);
            corrupted += faulty.faults->corrupted_count;
        });
        CHECK(corrupted > 0);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Three replicas on this machine's clock, over shared memory.

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "tests/consensus/log_group.h"
#include "transport/shm/shm.h"

namespace weir::testing {
namespace {

struct RealGroup {
    RealGroup() : device(*transport::shm::make_device({})) {
        std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
        consensus::ReplicatedLogOptions options;
        options.group = 77;
        for (uint64_t id = 1; id <= 3; ++id) {
            endpoints.push_back(*device->make_endpoint({}));
            options.members.push_back({id, endpoints.back()->address()});
        }
        for (uint64_t id = 1; id <= 3; ++id) {
            options.self = id;
            options.seed = id;
            ledgers.push_back(std::make_unique<Ledger>(facts, id));
            auto started = consensus::start_replicated_log(options, std::move(endpoints[id - 1]),
                                                           clock, *ledgers.back());
            REQUIRE(started);
            logs.push_back(*std::move(started));
        }
    }

    [[nodiscard]] ReplicatedLog* leader() {
        for (const auto& log : logs)
            if (log->leadership().is_ready) return log.get();
        return nullptr;
    }

    /// Polls until it is so. The limit is for a machine that is busy with other things.
    template <class IsSo>
    void poll_until(IsSo is_so) {
        const uint64_t end_ns = clock.now_ns() + 60 * kSecond;
        while (!is_so()) {
            REQUIRE(clock.now_ns() < end_ns);
            for (const auto& log : logs)
                log->poll();
        }
    }

    [[nodiscard]] bool have_all(size_t count) const {
        for (const auto& ledger : ledgers)
            if (ledger->entries.size() != count) return false;
        return true;
    }

    /// Proposes until so many are applied by all, wherever the leader is.
    void fill(size_t count) {
        poll_until([&] {
            ReplicatedLog* const now = leader();
            if (now != nullptr && facts.applied.size() < count) {
                const size_t before = facts.applied.size();
                ByteWriter entry;
                entry.number(uint64_t{before});
                if (now->propose(std::move(entry).take()))
                    poll_until([&] { return facts.applied.size() > before || leader() != now; });
            }
            return have_all(facts.applied.size()) && facts.applied.size() >= count;
        });
    }

    SteadyClock clock;
    LogFacts facts;
    std::unique_ptr<transport::Device> device;
    std::vector<std::unique_ptr<Ledger>> ledgers;
    std::vector<std::unique_ptr<ReplicatedLog>> logs;
};

}  // namespace

TEST_SUITE("real_log" * doctest::skip(!consensus::have_replicated_log())) {
    TEST_CASE("three replicas agree over shared memory") {
        RealGroup group;
        group.fill(50);
        CHECK(group.facts.faults.empty());
    }
}

}  // namespace weir::testing

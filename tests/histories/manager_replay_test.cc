// SPDX-License-Identifier: Apache-2.0
/// \file
/// A manager does nothing by chance: one that hears the same at the same times does the same. That is what
/// several managers that agree on what they hear rest on.

#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/cluster/manager_record.h"
#include "tests/histories/machinery/elastic_history.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

void check_replays(uint32_t replicas) {
    HistoryCounts counts;
    size_t messages = 0;
    size_t calls = 0;
    for (uint64_t seed = testing::seed_or(1), last = seed + testing::histories_or(30); seed < last;
         ++seed) {
        INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
        const auto record = std::make_shared<ManagerRecord>();
        ElasticHistory history(seed, counts, replicas, record);
        (void)history.run();
        std::string fault;
        const View view = replay(*record, fault);
        CHECK(fault == "");
        CHECK(view.data() == history.managers_view().data());
        calls += record->calls.size();
        for (const ManagerRecord::Poll& poll : record->polls)
            messages += poll.messages.size();
    }
    MESSAGE(fmt::format("{} events were heard and {} calls made", messages, calls));
    CHECK(calls > 0);
}

}  // namespace

TEST_SUITE("manager_replay") {
    TEST_CASE("a manager that hears the same does the same, whoever joins, leaves and dies") {
        check_replays(0);
    }

    TEST_CASE("so it does when servers with copies die") {
        check_replays(1);
    }

    TEST_CASE("a difference is found") {
        HistoryCounts counts;
        const auto record = std::make_shared<ManagerRecord>();
        (void)ElasticHistory(testing::seed_or(1), counts, 0, record).run();
        std::string fault;
        ManagerRecord later = *record;
        later.options.replicas = 1;
        (void)replay(later, fault);
        CHECK(fault != "");
    }
}

}  // namespace weir::test

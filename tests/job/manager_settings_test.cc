// SPDX-License-Identifier: Apache-2.0
#include "lib/job/manager_settings.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/bootstrap/bootstrap.h"

namespace weir {
namespace {

ManagerOptions three_servers() {
    ManagerOptions options;
    options.server_count = 3;
    options.worker_count = 2;
    options.server_ranks = {0, 1, 2};
    options.worker_ranks = {3, 4};
    options.replicas = 1;
    options.checkpoints.folder = "/scratch/run 7";
    return options;
}

const std::vector<uint32_t> kRanks{0, 1, 2};

ManagerSettings settings_of(const ManagerOptions& options) {
    return {kRanks, options};
}

/// Of ranks 0, 1 and 2, which have managers, and of rank 3, which has none.
Status compare_with(const ManagerOptions& first, const ManagerOptions& third) {
    const std::vector<ManagerSettings> of_ranks{settings_of(first), settings_of(first),
                                                settings_of(third), ManagerSettings(kRanks)};
    return ManagerSettings::compare(of_ranks);
}

bool says(const Status& status, std::string_view text) {
    return !status && status.error().text().find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("manager settings") {
    TEST_CASE("equal ones are equal, also after they were sent") {
        CHECK(compare_with(three_servers(), three_servers()).has_value());
        const ManagerSettings before = settings_of(three_servers());
        const auto after = ManagerSettings::decode(before.encode());
        REQUIRE(after.has_value());
        CHECK(after->encode() == before.encode());
        CHECK(ManagerSettings::compare(std::vector{before, *after}).has_value());
    }

    TEST_CASE("each one that differs is named, with the values and the ranks") {
        const auto differs = [](void (*change)(ManagerOptions&), std::string_view text) {
            ManagerOptions other = three_servers();
            change(other);
            const Status compared = compare_with(three_servers(), other);
            CAPTURE(text);
            CHECK(compared.code() == Errc::kInvalidArgument);
            CHECK(says(compared, text));
        };
        differs([](auto& o) { o.lease_ns = 3 * kSecond; },
                "WEIR_LEASE_MS: rank 0 has 1000 ms, rank 2 has 3000 ms");
        differs([](auto& o) { o.replicas = 0; }, "`replicas`: rank 0 has 1, rank 2 has 0");
        differs([](auto& o) { o.on_worker_loss = OnWorkerLoss::kReassign; },
                "`on_worker_loss`: rank 0 has stop, rank 2 has reassign");
        differs([](auto& o) { o.work_lease_ns = 9 * kSecond; },
                "`work_lease`: rank 0 has 0 s, rank 2 has 9 s");
        differs([](auto& o) { o.server_count = 4; }, "`servers`: rank 0 has 3, rank 2 has 4");
        differs([](auto& o) { o.shards_per_server = 2; },
                "`shards_per_server`: rank 0 has 1, rank 2 has 2");
        differs([](auto& o) { o.worker_count = 4; }, "rank 0 has 2, rank 2 has 4");
        differs([](auto& o) { o.worker_ranks = {2, 3}; }, "rank 0 has 3,4, rank 2 has 2,3");
        differs([](auto& o) { o.join_timeout_ns = kSecond; }, "WEIR_JOIN_TIMEOUT_S: rank 0 has 30");
        differs([](auto& o) { o.checkpoints.folder.clear(); },
                "`checkpoint_folder`: rank 0 has /scratch/run 7, rank 2 has none");
        differs([](auto& o) { o.checkpoints.every_ns = kSecond / 2; },
                "`checkpoint_every`: rank 0 has none, rank 2 has 0.5 s, 0 iterations");
        differs([](auto& o) { o.resume.emplace(); },
                "to go on from (`resume`): rank 0 has nothing");
    }

    TEST_CASE("checkpoints with the same number may still be two") {
        ManagerOptions one = three_servers();
        one.resume.emplace();
        one.checkpoints.resumed_folder = "/local";
        one.checkpoints.resumed_from = 4;
        CHECK(compare_with(one, one).has_value());
        ManagerOptions other = one;
        other.resume->created_ns = 1;
        CHECK(says(compare_with(one, other), "rank 0 has /local, number 4 ("));
    }

    TEST_CASE("a rank without a manager must know how many there are, and no more") {
        const std::vector<ManagerSettings> of_ranks{settings_of(three_servers()),
                                                    ManagerSettings(std::vector<uint32_t>{0})};
        CHECK(says(ManagerSettings::compare(of_ranks), "`managers`: rank 0 has 3, rank 1 has 1"));
    }

    TEST_CASE("what rank 0 alone decides may differ, and who differs is named") {
        const auto settings_with = [](const char* replicas) {
            ManagerSettings settings(std::vector<uint32_t>{0});
            settings.add_of_rank_0("`replicas`", replicas);
            settings.add_of_rank_0("WEIR_LEASE_MS", "1000 ms");
            return *ManagerSettings::decode(settings.encode());
        };
        const std::vector alike{settings_with("1"), settings_with("1")};
        CHECK(ManagerSettings::compare(alike).has_value());
        CHECK(ManagerSettings::ignored(alike) == "");
        const std::vector other{settings_with("1"), settings_with("1"), settings_with("0")};
        CHECK(ManagerSettings::compare(other).has_value());
        CHECK(ManagerSettings::ignored(other) == "`replicas`: rank 0 has 1, rank 2 has 0");
    }

    TEST_CASE("ranks that do not choose the same ones for the managers are named") {
        const std::vector<ManagerSettings> of_ranks{
            ManagerSettings(kRanks), ManagerSettings(std::vector<uint32_t>{0, 1, 4})};
        CHECK(says(ManagerSettings::compare(of_ranks),
                   "the ranks with managers (`servers`): rank 0 has 0,1,2, rank 1 has 0,1,4"));
    }

    TEST_CASE("many that differ are named in a text that ends") {
        ManagerOptions other;
        other.lease_ns = 50 * kMillisecond;
        const Status compared = compare_with(three_servers(), other);
        CHECK(says(compared, "`servers`"));
        CHECK(says(compared, "; and 2 more; start all ranks with the same options"));
    }

    TEST_CASE("a rank that says nothing, or nonsense, is named") {
        for (const std::string text : {"", "`managers`", "`managers`\0001", "\0003\0"}) {
            CHECK_FALSE(ManagerSettings::decode(text).has_value());
        }
        const auto alone = make_bootstrap_alone();
        REQUIRE(ManagerSettings(kRanks).publish(*alone).has_value());
        REQUIRE(alone->exchange(~uint64_t{0}).has_value());
        CHECK(ManagerSettings::compare(*alone).has_value());
        const auto silent = make_bootstrap_alone();
        REQUIRE(silent->exchange(~uint64_t{0}).has_value());
        CHECK(says(ManagerSettings::compare(*silent), "rank 0 does not say"));
    }
}

}  // namespace weir

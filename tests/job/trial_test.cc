// SPDX-License-Identifier: Apache-2.0
#include "lib/job/trial.h"

#include <chrono>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include "lib/bootstrap/secret.h"
#include "lib/checkpoint/folder_owner.h"

namespace weir {
namespace {

using Step = Obstacle::Step;

Config config_of(Environment::Map variables) {
    variables.emplace("WEIR_POOL_MIB", "16");
    return Config{Environment(std::move(variables))};
}

std::vector<Step> steps_of(const Environment::Map& variables) {
    std::vector<Step> steps;
    for (const Obstacle& one : try_start({}, config_of(variables)).obstacles)
        steps.push_back(one.step);
    return steps;
}

}  // namespace

TEST_SUITE("trial") {
    TEST_CASE("nothing set is no obstacle: a server and a worker, each with its devices") {
        const JobTrial trial = try_start({}, config_of({}));
        CHECK(trial.obstacles.empty());
        CHECK(trial.size == 2);
        REQUIRE(trial.parts.size() == 2);
        CHECK(trial.parts[0].shape.is_server);
        CHECK(trial.parts[1].shape.local_workers == 1);
        const auto opened = try_devices(trial, config_of({}), make_secret());
        REQUIRE(opened.has_value());
        CHECK(opened->find("shm") != std::string::npos);
    }

    TEST_CASE("each step is an obstacle of its own") {
        CHECK(steps_of({{"WEIR_SERVERS", "many"}}) == std::vector{Step::kOptions});
        CHECK(steps_of({{"WEIR_PLUGINS", "/nowhere.so"}}) == std::vector{Step::kPlugins});
        CHECK(steps_of({{"WEIR_SIZE", "3"}}) == std::vector{Step::kMeeting});
        CHECK(steps_of({{"WEIR_RANK", "3"}, {"WEIR_SIZE", "3"}, {"WEIR_RENDEZVOUS", "h:1"}}) ==
              std::vector{Step::kMeeting});
        CHECK(steps_of({{"WEIR_MANAGERS", "2"}}) == std::vector{Step::kRoles});
        CHECK(steps_of({{"WEIR_WORK_LEASE_S", "3"}}) == std::vector{Step::kRoles});
        CHECK(steps_of({{"WEIR_REPLICAS", "2"}}) == std::vector{Step::kRoles});
        CHECK(steps_of({{"WEIR_CONTACT_FILE", "/nowhere/contact"}}) ==
              std::vector{Step::kContactFile});
        CHECK(steps_of({{"WEIR_CHECKPOINT_DIR", "/nowhere"}}) == std::vector{Step::kFolders});
        CHECK(steps_of({{"WEIR_CHECKPOINT_EVERY_S", "9"}}) == std::vector{Step::kFolders});
        CHECK(steps_of({{"WEIR_RESUME", "/nowhere"}}) == std::vector{Step::kFolders});
        CHECK(steps_of({{"WEIR_RESUME", std::filesystem::temp_directory_path().string()}}) ==
              std::vector{Step::kResume});
        CHECK(steps_of({{"WEIR_REPLICAS", "1"}, {"WEIR_RESUME", "/nowhere"}}) ==
              std::vector{Step::kRoles, Step::kFolders});
    }

    TEST_CASE("the size of the job counts where it is known, else there are enough ranks") {
        CHECK(try_start({}, config_of({{"WEIR_SERVERS", "3"}, {"WEIR_REPLICAS", "2"}})).size == 4);
        CHECK(steps_of({{"WEIR_SERVERS", "3"},
                        {"WEIR_RANK", "0"},
                        {"WEIR_SIZE", "3"},
                        {"WEIR_RENDEZVOUS", "h:1"}}) == std::vector{Step::kRoles});
    }

    TEST_CASE("folders are those of servers: a rank that only works need not see them") {
        Environment::Map variables{{"WEIR_RENDEZVOUS", "h:1"},
                                   {"WEIR_SIZE", "2"},
                                   {"WEIR_CHECKPOINT_DIR", "/nowhere"},
                                   {"WEIR_RANK", "1"}};
        CHECK(steps_of(variables).empty());
        variables["WEIR_RANK"] = "0";
        CHECK(steps_of(variables) == std::vector{Step::kFolders});
    }

    TEST_CASE("a folder that another job writes to names that job, and is left to it") {
        std::string folder = (std::filesystem::temp_directory_path() / "weir-XXXXXX").string();
        REQUIRE(::mkdtemp(folder.data()) != nullptr);
        const Config config = config_of({{"WEIR_CHECKPOINT_DIR", folder}});
        CHECK(try_start({}, config).folder_owner.empty());
        CHECK(std::filesystem::is_empty(folder));
        {
            const auto owner = checkpoint::FolderOwner::take(folder, 7, std::chrono::seconds(1));
            REQUIRE(owner.has_value());
            CHECK(try_start({}, config).folder_owner.find("process") != std::string::npos);
            CHECK((*owner)->check().has_value());
        }
        std::filesystem::remove_all(folder);
    }

    TEST_CASE("devices are those that the variables ask for") {
        const JobTrial trial = try_start({}, config_of({}));
        const Config tcp = config_of({{"WEIR_TRANSPORT", "tcp"}});
        CHECK(try_devices(trial, tcp, make_secret()).value() == "tcp");
        const Config bind = config_of({{"WEIR_TRANSPORT", "tcp"}, {"WEIR_BIND", "203.0.113.9"}});
        CHECK(try_devices(trial, bind, make_secret()).error().message().find("WEIR_BIND") !=
              std::string::npos);
        const Config huge =
            config_of({{"WEIR_HUGE_PAGES", "always"}, {"WEIR_POOL_MIB", "16777216"}});
        const auto opened = try_devices(trial, huge, make_secret());
        CHECK(opened.code() == Errc::kNoMemory);
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the managers of a job keep their log: what an earlier job has left is replaced, what a running one has
/// is not.

#include "lib/job/managers_log.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

namespace weir {
namespace {

struct LogFolder {
    LogFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }

    ~LogFolder() { std::filesystem::remove_all(path); }

    LogFolder(const LogFolder&) = delete;
    LogFolder& operator=(const LogFolder&) = delete;

    [[nodiscard]] std::vector<std::string> journals(uint32_t rank) const {
        std::vector<std::string> names;
        const std::string place = path + "/manager-" + std::to_string(rank);
        for (const auto& entry : std::filesystem::directory_iterator(place)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with("journal-")) names.push_back(name);
        }
        return names;
    }

    std::string path = (std::filesystem::temp_directory_path() / "weir-log-XXXXXX").string();
};

bool names(const Error& error, std::string_view what) {
    return error.text().find(what) != std::string::npos;
}

}  // namespace

TEST_SUITE("managers_log") {
    TEST_CASE("managers of a job have places of their own in one folder") {
        const LogFolder folder;
        std::vector<std::unique_ptr<ManagersLog>> logs;
        for (const uint32_t rank : {0, 4, 8}) {
            logs.push_back(ManagersLog::open(folder.path, rank).value());
            const auto storage = logs.back()->begin(77, rank + 1).value();
            CHECK(storage->promise({1, 1}));
            CHECK(folder.journals(rank).size() == 1);
        }
    }

    TEST_CASE(
        "what a running job has there is not touched, and what an ended one left is replaced") {
        const LogFolder folder;
        auto first = ManagersLog::open(folder.path, 4).value();
        {
            const auto storage = first->begin(77, 1).value();
            REQUIRE(storage->append({{1, consensus::EntryKind::kCommand, {std::byte{1}}}}));
            const auto second = ManagersLog::open(folder.path, 4);
            REQUIRE_FALSE(second);
            CHECK(second.code() == Errc::kAlreadyExists);
            CHECK(names(second.error(), folder.path + "/manager-4: the log of a job that runs"));
            CHECK(names(second.error(), "process " + std::to_string(::getpid()) + " on "));
            CHECK(storage->promise({2, 1}));
        }
        const std::vector<std::string> before = folder.journals(4);
        first.reset();
        const auto next = ManagersLog::open(folder.path, 4).value();
        CHECK(folder.journals(4) == before);  // until the job begins
        const auto storage = next->begin(78, 2).value();
        CHECK(storage->state().is_new());
        CHECK(folder.journals(4).size() == 1);
        CHECK(folder.journals(4) != before);
    }

    TEST_CASE("a folder that is not there, and a file in its place, are named") {
        const LogFolder folder;
        const std::string missing = folder.path + "/missing";
        const auto opened = ManagersLog::open(missing, 0);
        CHECK(opened.code() == Errc::kNotFound);
        CHECK(names(opened.error(), missing + ": there is no such folder"));
        std::filesystem::create_directory(missing);
        std::filesystem::create_symlink("nowhere", missing + "/manager-0");
        const auto second = ManagersLog::open(missing, 0);
        CHECK(second.code() == Errc::kIo);
        CHECK(names(second.error(), missing + "/manager-0/owner: cannot be created"));
    }
}

}  // namespace weir

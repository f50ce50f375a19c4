// SPDX-License-Identifier: Apache-2.0
/// \file
/// A folder of checkpoints belongs to one job while that lives, and to the next one when it has ended.

#include "lib/checkpoint/folder_owner.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/log_lines.h"
#include "tests/wait_until.h"

namespace weir::checkpoint {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

/// A folder that is gone at the end.
struct Folder {
    Folder() {
        std::string pattern = std::filesystem::temp_directory_path() / "weir-owner-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path = pattern;
    }

    ~Folder() { std::filesystem::remove_all(path); }

    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    [[nodiscard]] std::string file() const { return path + "/weir.owner"; }

    [[nodiscard]] std::string text() const {
        std::ostringstream out;
        out << std::ifstream(file()).rdbuf();
        return out.str();
    }

    void write(const std::string& text) const { std::ofstream(file()) << text; }

    /// The last sign of life came so long ago.
    void age(std::chrono::seconds by) const {
        const auto at = std::chrono::system_clock::now() - by;
        const timespec time{std::chrono::system_clock::to_time_t(at), 0};
        const timespec times[2] = {time, time};
        REQUIRE(::utimensat(AT_FDCWD, file().c_str(), times, 0) == 0);
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(path))
            found.push_back(entry.path().filename().string());
        return found;
    }

    std::string path;
};

/// Signs that never come, and an owner that is never gone because of that.
constexpr OwnerTimes kPatient{.between = hours(1), .gone = hours(1)};

/// A process of this host that has ended.
OwnerProcess ended_process() {
    OwnerProcess process = OwnerProcess::here();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    process.pid = static_cast<uint64_t>(child);
    return process;
}

std::string owned_by(const std::vector<OwnerProcess>& processes) {
    std::string text = "weir-owner 1\njob 0000000000000007\nbegan 1700000000\n";
    for (const OwnerProcess& process : processes)
        text += "process " + process.encode() + "\n";
    return text;
}

OwnerProcess elsewhere() {
    return {"another-boot/pid:[1]", 12, 34, "node17"};
}

}  // namespace

TEST_SUITE("folder_owner") {
    TEST_CASE("a second job is refused, and hears whose the folder is") {
        const Folder folder;
        const auto first = FolderOwner::take(folder.path, 1, hours(1), kPatient);
        REQUIRE_MESSAGE(first, first.error().text());
        const auto second = FolderOwner::take(folder.path, 2, hours(1), kPatient);
        REQUIRE(second.code() == Errc::kRefused);
        const std::string& why = second.error().text();
        const OwnerProcess here = OwnerProcess::here();
        CHECK(why.find(folder.path) != std::string::npos);
        CHECK(why.find("process " + std::to_string(here.pid)) != std::string::npos);
        CHECK(why.find("host " + here.host) != std::string::npos);
        CHECK((*first)->check().has_value());
        CHECK(folder.names() == std::vector<std::string>{"weir.owner"});
        CHECK(owner_of(folder.path)->find("process") != std::string::npos);
    }

    TEST_CASE("when the job is over the folder is free, and nothing is left in it") {
        const Folder folder;
        for (uint64_t job = 1; job <= 3; ++job) {
            const auto owner = FolderOwner::take(folder.path, job, hours(1), kPatient);
            REQUIRE_MESSAGE(owner, owner.error().text());
            (*owner)->give_up();
        }
        CHECK(folder.names().empty());
        CHECK(owner_of(folder.path)->empty());
    }

    TEST_CASE("a folder whose owner has ended on this host is taken over at once") {
        const Folder folder;
        folder.write(owned_by({ended_process(), ended_process()}));
        CHECK(owner_of(folder.path)->empty());
        const auto owner = FolderOwner::take(folder.path, 2, {}, kPatient);
        REQUIRE_MESSAGE(owner, owner.error().text());
        CHECK(folder.text().find("job 0000000000000002") != std::string::npos);
        CHECK(folder.names().size() == 1);
    }

    TEST_CASE("a process that has the number of one that ended is not taken for it") {
        const Folder folder;
        OwnerProcess before = OwnerProcess::here();
        before.started -= 1;
        folder.write(owned_by({before}));
        CHECK(FolderOwner::take(folder.path, 2, {}, kPatient).has_value());
    }

    TEST_CASE("one process of the owner that lives is enough") {
        const Folder folder;
        folder.write(owned_by({ended_process(), OwnerProcess::here()}));
        folder.age(hours(24));  // it may be stopped: here that is no end
        CHECK(FolderOwner::take(folder.path, 2, hours(1), kPatient).code() == Errc::kRefused);
    }

    TEST_CASE("an owner elsewhere is gone when its last sign of life is old, and else waited for") {
        const Folder folder;
        folder.write(owned_by({ended_process(), elsewhere()}));
        const auto early = FolderOwner::take(folder.path, 2, {}, kPatient);
        REQUIRE(early.code() == Errc::kRefused);
        folder.write(owned_by({elsewhere()}));
        const auto named = FolderOwner::take(folder.path, 2, {}, kPatient);
        REQUIRE(named.code() == Errc::kRefused);
        CHECK(named.error().text().find("process 12 on host node17") != std::string::npos);
        folder.age(minutes(61));
        CHECK(owner_of(folder.path)->empty());
        CHECK(FolderOwner::take(folder.path, 2, {}, kPatient).has_value());
        // One that becomes old while it is waited for.
        folder.write(owned_by({elsewhere()}));
        const testing::LogLines log;
        CHECK(FolderOwner::take(folder.path, 3, hours(1),
                                {.between = hours(1), .gone = milliseconds(700)})
                  .has_value());
        CHECK(log.has("waiting for a sign of life"));
    }

    TEST_CASE(
        "an owner elsewhere that gives a sign of life meanwhile is not waited for any longer") {
        const Folder folder;
        folder.write(owned_by({elsewhere()}));
        std::atomic<bool> is_over = false;
        std::thread signs([&] {
            for (int i = 0; !is_over; ++i) {
                folder.age(minutes(10 - i % 2));
                std::this_thread::sleep_for(milliseconds(1));
            }
        });
        const auto owner = FolderOwner::take(folder.path, 2, hours(1), kPatient);
        is_over = true;
        signs.join();
        CHECK(owner.code() == Errc::kRefused);
    }

    TEST_CASE("the owner gives signs of life") {
        const Folder folder;
        const auto owner = FolderOwner::take(folder.path, 1, hours(1),
                                             {.between = milliseconds(1), .gone = hours(1)});
        REQUIRE(owner);
        folder.age(hours(2));
        const auto is_fresh = [&] {
            struct stat facts = {};
            return ::stat(folder.file().c_str(), &facts) == 0 &&
                   facts.st_mtim.tv_sec + 3600 > std::time(nullptr);
        };
        CHECK(testing::wait_until(is_fresh, [] { std::this_thread::sleep_for(milliseconds(1)); }));
    }

    TEST_CASE(
        "a job that has lost its folder notices, says so once, and leaves the other's file alone") {
        const Folder folder;
        const testing::LogLines log;
        {
            const auto owner = FolderOwner::take(folder.path, 1, hours(1),
                                                 {.between = milliseconds(1), .gone = hours(1)});
            REQUIRE(owner);
            const std::string others = owned_by({elsewhere()});
            std::ofstream(folder.path + "/new") << others;
            std::filesystem::rename(folder.path + "/new", folder.file());
            CHECK((*owner)->check().code() == Errc::kRefused);
            const auto is_said = [&] { return log.has("writes no checkpoints any more"); };
            CHECK(
                testing::wait_until(is_said, [] { std::this_thread::sleep_for(milliseconds(1)); }));
            (*owner)->give_up();
        }
        CHECK(log.count("writes no checkpoints any more") == 1);
        CHECK(folder.text().find("node17") != std::string::npos);
    }

    TEST_CASE("a file that somebody removes is made again, and not in a folder that is gone") {
        const Folder folder;
        const auto owner = FolderOwner::take(folder.path, 1, hours(1), kPatient);
        REQUIRE(owner);
        std::filesystem::remove(folder.file());
        CHECK((*owner)->check().has_value());
        CHECK(folder.text().find("job 0000000000000001") != std::string::npos);
        CHECK(FolderOwner::take(folder.path, 2, {}, kPatient).code() == Errc::kRefused);
        std::filesystem::remove_all(folder.path);
        CHECK((*owner)->check().has_value());  // who writes there names the folder
        CHECK_FALSE(std::filesystem::exists(folder.path));
    }

    TEST_CASE("of several processes that keep it, any one that lives keeps it") {
        const Folder folder;
        const auto owner = FolderOwner::take(folder.path, 1, hours(1), kPatient);
        REQUIRE(owner);
        REQUIRE((*owner)->set_processes({OwnerProcess::here(), elsewhere()}));
        CHECK(folder.text().find("node17") != std::string::npos);
        const FolderOwner other(folder.path, 1, kPatient);
        CHECK(other.check().has_value());
        CHECK(FolderOwner(folder.path, 9, kPatient).check().code() == Errc::kRefused);
    }

    TEST_CASE("of many that take over a folder one gets it") {
        const Folder folder;
        for (int round = 0; round < 10; ++round) {
            folder.write(owned_by({ended_process()}));
            std::atomic<int> taken = 0;
            std::vector<std::unique_ptr<FolderOwner>> owners(8);
            std::vector<std::thread> threads;
            for (size_t i = 0; i < owners.size(); ++i) {
                threads.emplace_back([&, i] {
                    auto owner = FolderOwner::take(folder.path, 100 + i, hours(1), kPatient);
                    if (!owner) return;
                    owners[i] = std::move(*owner);
                    ++taken;
                });
            }
            for (std::thread& thread : threads)
                thread.join();
            CHECK(taken == 1);
            std::filesystem::remove(folder.file());
        }
    }

    TEST_CASE("a damaged file is nobody's that lives, once it is old") {
        const Folder folder;
        folder.write("nonsense\n");
        CHECK(FolderOwner::take(folder.path, 2, {}, kPatient).code() == Errc::kRefused);
        folder.age(hours(2));
        CHECK(FolderOwner::take(folder.path, 2, {}, kPatient).has_value());
    }

    TEST_CASE("a process is told to other ranks as it is") {
        const OwnerProcess here = OwnerProcess::here();
        CHECK(here.started > 0);
        const auto there = OwnerProcess::decode(here.encode());
        REQUIRE(there);
        CHECK(there->encode() == here.encode());
        CHECK(there->pid == here.pid);
        for (const char* const wrong : {"", "a", "a b c d", "a 1 x host"})
            CHECK(OwnerProcess::decode(wrong).code() == Errc::kProtocol);
    }
}

}  // namespace weir::checkpoint

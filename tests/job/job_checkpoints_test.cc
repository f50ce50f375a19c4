// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a process ends while its disk has something to do.

#include "lib/job/job_checkpoints.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/log_lines.h"
#include "tests/wait_until.h"

namespace weir::test {
namespace {

using checkpoint::Disk;

constexpr const char* kEndsWhen = "rank 7 ends when the disk of /d has finished what it was given";
constexpr const char* kEndsWithout = "rank 7 ends without the disk of /d";

/// The first piece of work that its thread is given ends when it is told to; the second is noted.
struct HangingDisk {
    /// Makes the thread, gives it both, and ends it.
    void run(DiskThread::Patience patience) {
        auto disk = std::make_shared<testing::SimDisk>();
        there = disk;
        const DiskThread thread("rank 7", std::move(disk), patience);
        std::promise<void> has_begun;
        (void)thread.queue()->add(
            [&has_begun, goes_on = goes_on.get_future().share()](Disk& folders) {
                (void)folders.list("/d");
                has_begun.set_value();
                goes_on.wait();
                return true;
            });
        (void)thread.queue()->add([has_second = has_second](Disk&) { return *has_second = true; });
        has_begun.get_future().wait();
    }

    std::promise<void> goes_on;
    std::shared_ptr<std::atomic<bool>> has_second = std::make_shared<std::atomic<bool>>(false);
    std::weak_ptr<Disk> there;  ///< expired: the thread has ended
};

void sleep_a_little() {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_SUITE("job_checkpoints") {
    TEST_CASE("a process whose disk is slow says once that it waits, and waits for all") {
        const testing::LogLines log;
        HangingDisk disk;
        std::thread ends([&] {
            disk.run({.silent = std::chrono::milliseconds(1), .stalled = std::chrono::hours(1)});
        });
        CHECK(testing::wait_until([&] { return log.has(kEndsWhen); }, sleep_a_little));
        for (int i = 0; i < 10; ++i)
            sleep_a_little();
        disk.goes_on.set_value();
        ends.join();
        CHECK(*disk.has_second);
        CHECK(disk.there.expired());
        CHECK(log.count(kEndsWhen) == 1);
        CHECK_FALSE(log.has(kEndsWithout));
    }

    TEST_CASE("a process whose disk hangs ends without it, and then nothing more is begun there") {
        const testing::LogLines log;
        HangingDisk disk;
        disk.run({.silent = std::chrono::hours(1), .stalled = {}});
        CHECK(log.count(kEndsWithout) == 1);
        CHECK_FALSE(log.has(kEndsWhen));
        CHECK_FALSE(disk.there.expired());
        disk.goes_on.set_value();
        CHECK(testing::wait_until([&] { return disk.there.expired(); }, sleep_a_little));
        CHECK_FALSE(*disk.has_second);
    }
}

}  // namespace weir::test

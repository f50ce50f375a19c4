// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk_queue.h"

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"

using namespace weir;
using namespace weir::checkpoint;

TEST_SUITE("disk_queue") {
    TEST_CASE("what is added is done in order, when the queue is run") {
        DiskQueue queue(std::make_shared<testing::SimDisk>());
        std::vector<int> done;
        const auto first = queue.add([&](Disk&) { return done.emplace_back(1); });
        const auto second = queue.add([&](Disk&) { return done.emplace_back(2); });
        CHECK_FALSE(is_done(first));
        CHECK(queue.run_one());
        CHECK(is_done(first));
        CHECK_FALSE(is_done(second));
        CHECK(queue.run_one());
        CHECK_FALSE(queue.run_one());
        CHECK(done == std::vector{1, 2});
    }

    TEST_CASE("a disk hangs that has finished nothing for long, not one that has nothing to do") {
        const auto clock = std::make_shared<ManualClock>();
        DiskQueue queue(std::make_shared<testing::SimDisk>(), clock);
        clock->advance(DiskQueue::kHangNs);
        CHECK(queue.check_moves());
        (void)queue.add([](Disk&) { return 1; });
        (void)queue.add([](Disk&) { return 2; });
        clock->advance(DiskQueue::kHangNs - 1);
        CHECK(queue.stalled_ns() == DiskQueue::kHangNs - 1);
        CHECK(queue.check_moves());
        clock->advance(1);
        CHECK(queue.check_moves().code() == Errc::kDeadline);
        CHECK(queue.run_one());
        CHECK(queue.check_moves());
        auto last = queue.add([&](Disk&) {
            clock->advance(DiskQueue::kHangNs);
            return queue.check_moves().code();  // nothing waits, but this is not finished
        });
        CHECK(queue.run_one());
        CHECK(queue.run_one());
        CHECK(last.get() == Errc::kDeadline);
        CHECK(queue.stalled_ns() == 0);
    }

    TEST_CASE("a disk that is slow does not hang while it comes to the end of single files") {
        const auto clock = std::make_shared<ManualClock>();
        DiskQueue queue(std::make_shared<testing::SimDisk>(), clock);
        auto at_last = queue.add([&](Disk& disk) {
            const auto moves_with = [&](auto step) {
                clock->advance(DiskQueue::kHangNs - 1);
                CHECK(queue.check_moves());
                (void)step();
                CHECK(queue.stalled_ns() == 0);
            };
            std::unique_ptr<NewFile> file;
            moves_with([&] { return (file = std::move(*disk.create("d/1"))) != nullptr; });
            moves_with([&] { return file->write(std::vector<std::byte>(7)); });
            moves_with([&] { return file->sync(); });
            moves_with([&] { return (file = nullptr) == nullptr; });  // it is closed
            moves_with([&] { return disk.create("d/1"); });           // an error is an answer, too
            moves_with([&] { return disk.rename("d/1", "d/2"); });
            moves_with([&] { return disk.sync_folder("d"); });
            moves_with([&] { return disk.list("d"); });
            moves_with([&] { return disk.size("d/2"); });
            moves_with([&] { return disk.read("d/2", 7); });
            moves_with([&] { return disk.remove("d/2"); });
            clock->advance(DiskQueue::kHangNs);
            return queue.check_moves().code();
        });
        CHECK(queue.run_one());
        CHECK(at_last.get() == Errc::kDeadline);
        CHECK(queue.check_moves());
    }

    TEST_CASE("the disk that hangs is named by the folder that it was asked for last") {
        const auto clock = std::make_shared<ManualClock>();
        DiskQueue queue(std::make_shared<testing::SimDisk>(), clock);
        CHECK(queue.disk_name() == "the disk for checkpoints");
        (void)queue.add([&](Disk& disk) {
            const auto names = [&](const char* folder, auto step) {
                (void)step();
                clock->advance(DiskQueue::kHangNs);
                CHECK(queue.check_moves().error().message() ==
                      std::string("the disk of ") + folder +
                          ", or the network to it, hangs: what it was given earlier has not moved "
                          "for 20 s");
            };
            std::unique_ptr<NewFile> file;
            names("a/b", [&] { return (file = std::move(*disk.create("a/b/1"))) != nullptr; });
            names("c", [&] { return disk.list("c"); });
            names("a/b", [&] { return file->write({}); });
            names("d", [&] { return disk.size("d/1"); });
            names("a/b", [&] { return file->sync(); });
            names("e", [&] { return disk.read("e/1", 1); });
            names("a/b", [&] { return (file = nullptr) == nullptr; });
            names("f", [&] { return disk.rename("a/b/1", "f/1"); });
            names("g", [&] { return disk.sync_folder("g"); });
            names("f", [&] { return disk.remove("f/1"); });
            return true;
        });
        CHECK(queue.run_one());
    }

    TEST_CASE("a thread does all that waits before it ends, and takes nothing after that") {
        DiskQueue queue(std::make_shared<testing::SimDisk>());
        std::vector<std::future<Status>> results;
        std::thread thread([&] { queue.run(); });
        for (int i = 0; i < 100; ++i) {
            results.push_back(queue.add([i](Disk& disk) -> Status {
                auto file = disk.create("d/" + std::to_string(i));
                return file ? Status() : file.error();
            }));
        }
        queue.close();
        thread.join();
        for (auto& result : results)
            CHECK(result.get());
        auto late = queue.add([](Disk&) { return 1; });
        CHECK(is_done(late));
        CHECK_THROWS_AS(late.get(), std::future_error);
    }
}

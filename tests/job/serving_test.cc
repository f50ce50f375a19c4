// SPDX-License-Identifier: Apache-2.0
#include "lib/job/serving.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <doctest/doctest.h>

#include "lib/base/clock.h"

namespace weir {
namespace {

/// A process whose two shards end when the test says so.
struct TwoShards {
    explicit TwoShards(uint64_t joiner)
        : serving({.local_servers = 1, .joiner = joiner}, *devices, managers, clock) {
        serving.add_shard(first.get_future());
        serving.add_shard(second.get_future());
    }

    Config config{
        Environment(Environment::Map{{"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", "shm"}})};
    std::shared_ptr<Devices> devices =
        std::move(Devices::open(config, transport::Secret{}, false)).value();
    Managers managers;
    SteadyClock clock;
    std::promise<Status> first;
    std::promise<Status> second;
    Serving serving;
};

}  // namespace

TEST_SUITE("serving") {
    TEST_CASE("a server that joins ends with the first error of a shard, and waits for no other") {
        TwoShards process(7);
        process.second.set_value(Error(Errc::kUnavailable, "the job has not begun yet"));
        const Status ended = process.serving.serve({}, {});  // the first shard still waits
        REQUIRE(ended.code() == Errc::kUnavailable);
        CHECK(ended.error().message() == "the job has not begun yet");
    }

    TEST_CASE(
        "of a server that was there at the start all shards end, and the first error counts") {
        TwoShards process(0);
        process.second.set_value(Error(Errc::kNoMemory, "first in time"));
        std::atomic<bool> serves = false;
        std::atomic<bool> has_ended = false;
        std::thread later([&] {
            while (!serves)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            has_ended = true;
            process.first.set_value(Error(Errc::kPeerLost, "second in time"));
        });
        serves = true;
        const Status ended = process.serving.serve({}, {});
        CHECK(has_ended);
        later.join();
        REQUIRE(ended.code() == Errc::kNoMemory);
        CHECK(ended.error().message() == "first in time");
    }
}

}  // namespace weir

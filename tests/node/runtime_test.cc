// SPDX-License-Identifier: Apache-2.0
#include "lib/node/runtime.h"

#include <atomic>
#include <new>

#include <doctest/doctest.h>

namespace {

using namespace weir;

/// Polls a few times, then ends; or runs out of memory.
class Counting final : public StateMachine {
public:
    Counting(int polls, bool memory_ends = false) : polls_(polls), memory_ends_(memory_ends) {}

    size_t poll() override {
        if (--polls_ == 0 && memory_ends_) throw std::bad_alloc();
        return 1;
    }

    [[nodiscard]] int arm() override { return -1; }

    [[nodiscard]] bool finished() const override { return polls_ <= 0; }

    [[nodiscard]] Status outcome() const override { return Error(Errc::kPeerLost, "it was lost"); }

    [[nodiscard]] std::string name() const override { return "a test's machine"; }

private:
    int polls_;
    bool memory_ends_;
};

}  // namespace

TEST_SUITE("runtime") {
    TEST_CASE("a function that throws ends its own thread only, and join() throws the same") {
        Runtime runtime{IdleOptions{}};
        std::atomic<int> count = 0;
        runtime.run([&] { ++count; });
        runtime.run([] { throw std::bad_alloc(); });
        runtime.run([&] { ++count; });
        CHECK_THROWS_AS(runtime.join(), std::bad_alloc);
        CHECK(count == 2);
        runtime.join();
    }

    TEST_CASE("a machine's future says how it ended, also where memory ran out in it") {
        Runtime runtime{IdleOptions{}};
        std::future<Status> lost = runtime.run(std::make_unique<Counting>(3));
        std::future<Status> empty = runtime.run(std::make_unique<Counting>(3, true));
        CHECK(lost.get().error().text() == "it was lost");
        const Status out_of_memory = empty.get();
        CHECK(out_of_memory.code() == Errc::kNoMemory);
        CHECK(out_of_memory.error().text().find("a test's machine") != std::string::npos);
        runtime.join();
    }
}

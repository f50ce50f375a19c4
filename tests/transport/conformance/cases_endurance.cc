// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: no leaks after thousands of cycles, and endpoints in several threads.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "tests/transport/conformance/stage.h"
#include "tests/wait_until.h"

namespace weir::transport::conformance {

namespace {

/// How much a process may grow in all and per cycle: noise, and what the stage records. Noise is
/// about the buffers of one endpoint (1.6 MiB over verbs); a leak would be as much per cycle.
constexpr size_t kGrowthBytesMax = 3 << 20;
constexpr size_t kGrowthBytesPerCycle = 512;

/// Compares both processes' usage before and after.
class LeakCheck {
public:
    explicit LeakCheck(Fabric& fabric)
        : fabric_(fabric), before_{fabric.usage(0), fabric.usage(1)} {}

    /// Waits until what is closed has gone, too.
    void finish(Stage& stage, uint64_t cycles) const {
        const size_t growth_bytes_max = kGrowthBytesMax + cycles * kGrowthBytesPerCycle;
        static_cast<void>(stage.until([&] {
            return fabric_.usage(0).open_files <= before_[0].open_files &&
                   fabric_.usage(1).open_files <= before_[1].open_files;
        }));
        for (size_t process = 0; process < 2; ++process) {
            const Usage after = fabric_.usage(process);
            CAPTURE(process);
            CHECK(after.open_files <= before_[process].open_files);
            if (kResidentMemoryTells) {
                CHECK(after.resident_bytes < before_[process].resident_bytes + growth_bytes_max);
            }
        }
    }

private:
    Fabric& fabric_;
    Usage before_[2];
};

/// Connections that are open at the same time; each side closes half of them.
constexpr uint64_t kTogether = 8;

void cycle(Stage& stage, Party& a, Party& b, uint64_t number) {
    std::vector<Link> links;
    const size_t accepted_before = b.accepted().size();
    for (uint64_t i = 0; i < kTogether; ++i) {
        const auto begun = a.connect(b.endpoint().address());
        REQUIRE_MESSAGE(begun.has_value(), "connect: " << why(begun));
        links.push_back({*begun, 0});
    }
    REQUIRE(stage.until([&] {
        return b.accepted().size() == accepted_before + kTogether &&
               std::all_of(links.begin(), links.end(), [&](const Link& link) {
                   return a.count(Event::kConnected, link.near) == 1;
               });
    }));
    for (uint64_t i = 0; i < kTogether; ++i)
        stage.send(a, links[i].near, pattern(number + i, 40));
    for (uint64_t i = 0; i < kTogether; ++i) {
        const auto brought = [&](const Seen& seen) {
            return seen.event == Event::kReceived && seen.message == pattern(number + i, 40);
        };
        const auto& seen = b.seen();
        REQUIRE(stage.until([&] { return std::any_of(seen.begin(), seen.end(), brought); }));
        links[i].far = std::find_if(seen.begin(), seen.end(), brought)->connection;
    }
    for (uint64_t i = 0; i < kTogether; ++i) {
        if (i % 2 == 0) {
            a.endpoint().close(links[i].near);
        } else {
            b.endpoint().close(links[i].far);
        }
    }
    REQUIRE(stage.until([&] {
        return std::all_of(links.begin(), links.end(), [&](const Link& link) {
            return a.closed(link.near) && b.closed(link.far);
        });
    }));
    a.forget();
    b.forget();
}

void connections_come_and_go_without_a_leak(Fabric& fabric) {
    const uint64_t cycles = number_from_environment("WEIR_CONFORMANCE_CYCLES", 2000);
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const uint64_t warm_up = cycles / 10 + 1;
    for (uint64_t i = 0; i < warm_up; i += kTogether)
        cycle(stage, a, b, i);
    stage.settle();
    const LeakCheck leaks(fabric);
    for (uint64_t i = 0; i < cycles; i += kTogether)
        cycle(stage, a, b, i);
    stage.settle();
    leaks.finish(stage, cycles);
}

void endpoints_come_and_go_without_a_leak(Fabric& fabric) {
    const uint64_t cycles = number_from_environment("WEIR_CONFORMANCE_CYCLES", 2000) / 20 + 1;
    Stage stage(fabric);
    const Registered memory(fabric, 0, Access::kRemote);
    const auto round = [&](uint64_t number) {
        Party& a = stage.add(0);
        Party& b = stage.add(1);
        const Link link = stage.connect(a, b);
        stage.send(a, link.near, pattern(number, 40));
        if (number % 2 == 0) REQUIRE(a.endpoint().expose(link.near, memory.bytes()).has_value());
        if (number % 3 == 0) stage.step();
        stage.remove(number % 2 == 0 ? a : b);
        stage.remove(number % 2 == 0 ? b : a);
    };
    for (uint64_t i = 0; i < cycles / 4 + 2; ++i)
        round(i);
    stage.settle();
    const LeakCheck leaks(fabric);
    for (uint64_t i = 0; i < cycles; ++i)
        round(i);
    stage.settle();
    leaks.finish(stage, cycles);
}

void registrations_come_and_go_without_a_leak(Fabric& fabric) {
    const uint64_t cycles = number_from_environment("WEIR_CONFORMANCE_CYCLES", 2000);
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    const MemoryBlock block = fabric.make_memory(1, size_t{64} * 1024);
    const auto round = [&] {
        const auto region = fabric.device(1).register_memory(block, Access::kRemote);
        REQUIRE(region.has_value());
        const auto span = b.endpoint().expose(link.far, block.bytes);
        REQUIRE(span.has_value());
        stage.step();
        static_cast<void>(a.endpoint().map(link.near, *span, Access::kRemoteRead));
        fabric.device(1).deregister_memory(*region);
        stage.step();
    };
    for (uint64_t i = 0; i < cycles / 10 + 1; ++i)
        round();
    stage.settle();
    const LeakCheck leaks(fabric);
    for (uint64_t i = 0; i < cycles; ++i)
        round();
    stage.settle();
    leaks.finish(stage, cycles);
    CHECK_FALSE(a.closed(link.near));
}

/// Sends every message back until the connection closes. Runs in a thread of its own, so it must
/// not use doctest.
bool echo_until_closed(Endpoint& endpoint, const std::atomic<bool>& give_up) {
    std::vector<Completion> completions(16);
    uint32_t idle_polls = 0;
    while (!give_up.load(std::memory_order_relaxed)) {
        const size_t count = endpoint.poll(completions);
        for (size_t i = 0; i < count; ++i) {
            const Completion& c = completions[i];
            if (c.event == Event::kClosed) return c.status == Errc::kOk;
            if (c.event != Event::kReceived) continue;
            // At most the window is in flight, so there is room for the reply.
            if (endpoint.send(c.connection, {&c.message, 1}) != Post::kPosted) return false;
        }
        endpoint.flush();
        if (count == 0 && ++idle_polls % testing::kPollsPerYield == 0) std::this_thread::yield();
    }
    return false;
}

void two_threads_talk(Fabric& fabric) {
    if (!fabric.has_threads()) {
        MESSAGE("does not apply: everything in one thread here");
        return;
    }
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    stage.stop_polling(b);
    std::atomic<bool> give_up{false};
    std::atomic<bool> well{false};
    std::thread echo([&] { well = echo_until_closed(b.endpoint(), give_up); });
    constexpr uint64_t kWindow = 32;
    const uint64_t rounds = number_from_environment("WEIR_CONFORMANCE_CYCLES", 2000) * 10;
    uint64_t sent = 0;
    uint64_t back = 0;
    const bool done = stage.until([&] {
        for (const Seen& seen : a.seen()) {
            if (seen.event == Event::kReceived && seen.message == pattern(back, 60)) ++back;
        }
        a.forget();
        while (sent < rounds && sent < back + kWindow &&
               a.send(link.near, pattern(sent, 60)) == Post::kPosted) {
            ++sent;
        }
        return back == rounds;
    });
    CHECK(done);
    a.endpoint().close(link.near);
    const bool closed = stage.until([&] { return a.closed(link.near) && well; });
    CHECK(closed);
    give_up = true;
    echo.join();
    CHECK(well);
}

}  // namespace

std::vector<Case> endurance_cases() {
    return {
        {"connections come and go without a leak", connections_come_and_go_without_a_leak},
        {"endpoints come and go without a leak", endpoints_come_and_go_without_a_leak},
        {"registrations come and go without a leak", registrations_come_and_go_without_a_leak},
        {"two threads talk", two_threads_talk},
    };
}

}  // namespace weir::transport::conformance

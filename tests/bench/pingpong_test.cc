// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/pingpong.h"

#include <limits>

#include <doctest/doctest.h>
#include <sched.h>

namespace weir::bench {
namespace {

/// One core that this process may use, for both sides, so that each must yield to the other.
int own_core() {
    cpu_set_t set;
    REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
    int core = 0;
    while (!CPU_ISSET(core, &set))
        ++core;
    return core;
}

PingpongOptions on_one_core() {
    PingpongOptions options;
    options.cpus = {own_core(), own_core()};
    return options;
}

using Pingpong = Result<PingpongResult> (*)(const PingpongOptions&);

TEST_SUITE("pingpong") {
    TEST_CASE("ends in time, whatever the number of rounds") {
        for (const Pingpong pingpong : {flag_pingpong, ring_pingpong}) {
            PingpongOptions options = on_one_core();
            options.rounds = std::numeric_limits<uint32_t>::max();
            options.duration_max_ns = 20'000'000;
            const Result<PingpongResult> result = pingpong(options);
            REQUIRE(result);
            CHECK(result->round_count >= 1);
            CHECK(result->round_count < options.rounds);
            CHECK(result->p50_ns > 0);
        }
    }

    TEST_CASE("plays no more rounds than it is asked for, and binds its thread only meanwhile") {
        for (const Pingpong pingpong : {flag_pingpong, ring_pingpong}) {
            cpu_set_t before;
            cpu_set_t after;
            REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
            PingpongOptions options = on_one_core();
            options.rounds = 3;
            options.duration_max_ns = 100'000'000'000;
            const Result<PingpongResult> result = pingpong(options);
            REQUIRE(result);
            CHECK(result->round_count == 3);
            REQUIRE(sched_getaffinity(0, sizeof(after), &after) == 0);
            CHECK(CPU_EQUAL(&before, &after));
        }
    }

    TEST_CASE("refuses options that it cannot run") {
        PingpongOptions options = on_one_core();
        SUBCASE("a message that fits into no ring") {
            options.message_bytes = (64 << 10) + 1;
        }
        SUBCASE("no rounds") {
            options.rounds = 0;
        }
        SUBCASE("a core that is not there") {
            options.cpus[1] = CPU_SETSIZE - 1;
        }
        for (const Pingpong pingpong : {flag_pingpong, ring_pingpong}) {
            const Result<PingpongResult> result = pingpong(options);
            REQUIRE_FALSE(result);
            CHECK(result.error().code() == Errc::kInvalidArgument);
        }
    }
}

}  // namespace
}  // namespace weir::bench

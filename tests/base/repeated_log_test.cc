// SPDX-License-Identifier: Apache-2.0
#include "lib/base/repeated_log.h"

#include <doctest/doctest.h>

#include "tests/log_lines.h"

namespace weir {
namespace {

using Lines = std::vector<std::string>;

}  // namespace

TEST_SUITE("repeated_log") {
    TEST_CASE("the first line is logged at once, the others once in a minute, as a sum") {
        ManualClock clock;
        testing::LogLines log;
        RepeatedLog repeated(clock);
        for (int port = 1000; port < 2235; ++port) {
            repeated.log(LogLevel::kWarning, "garbage",
                         fmt::format("closed 10.0.0.1:{}: garbage", port));
        }
        CHECK(log.lines() == Lines{"closed 10.0.0.1:1000: garbage"});
        CHECK(repeated.pending());
        clock.advance(59 * kSecond);
        repeated.look();
        CHECK(log.lines().size() == 1);
        clock.advance(kSecond);
        repeated.look();
        REQUIRE(log.lines().size() == 2);
        CHECK(log.lines()[1] ==
              "1,234 more like this in the last 60 s; the last one: closed 10.0.0.1:2234: garbage");
        CHECK_FALSE(repeated.pending());
        repeated.log(LogLevel::kWarning, "garbage", "one more");
        CHECK(log.lines().size() == 2);
        clock.advance(RepeatedLog::kIntervalNs);
        repeated.log(LogLevel::kWarning, "garbage", "and another");
        CHECK(log.lines()[2] == "1 more like this in the last 60 s; the last one: one more");
        CHECK(log.lines().size() == 3);
    }

    TEST_CASE("a reason that was quiet for a minute is a first one again") {
        ManualClock clock;
        testing::LogLines log;
        RepeatedLog repeated(clock);
        repeated.log(LogLevel::kWarning, "garbage", "a");
        clock.advance(RepeatedLog::kIntervalNs);
        repeated.log(LogLevel::kWarning, "garbage", "b");
        CHECK(log.lines() == Lines{"a", "b"});
    }

    TEST_CASE("numbers do not make another reason, words do") {
        ManualClock clock;
        testing::LogLines log;
        RepeatedLog repeated(clock);
        repeated.log(LogLevel::kWarning, "worker 7 of rank 12", "a");
        repeated.log(LogLevel::kWarning, "worker 123456 of rank 3", "b");
        repeated.log(LogLevel::kWarning, "shard 7 of rank 12", "c");
        CHECK(log.lines() == Lines{"a", "c"});
    }

    TEST_CASE("lines that are only counted so far are summed up at the end") {
        ManualClock clock;
        testing::LogLines log;
        {
            RepeatedLog repeated(clock);
            repeated.log(LogLevel::kWarning, "garbage", "a");
            repeated.log(LogLevel::kWarning, "garbage", "b");
            clock.advance(2 * kSecond);
        }
        CHECK(log.lines() == Lines{"a", "1 more like this in the last 2 s; the last one: b"});
    }

    TEST_CASE("endless new reasons take a bounded number of lines and of memory") {
        ManualClock clock;
        testing::LogLines log;
        RepeatedLog repeated(clock);
        constexpr size_t kCount = 1000;
        for (size_t i = 0; i < kCount; ++i) {
            const std::string reason(i + 1, 'x');
            repeated.log(LogLevel::kWarning, std::string(i % 500, 'x') + "!", reason);
        }
        CHECK(log.lines().size() <= RepeatedLog::kReasonsMax + 1);
        clock.advance(RepeatedLog::kIntervalNs);
        repeated.look();
        CHECK(log.lines().size() <= 2 * (RepeatedLog::kReasonsMax + 1));
        CHECK(log.has("more of other kinds in the last 60 s"));
        for (const std::string& line : log.lines())
            CHECK(line.size() <= RepeatedLog::kLineBytesMax + 100);
    }

    TEST_CASE("lines below the level of the log are not counted") {
        ManualClock clock;
        testing::LogLines log(LogLevel::kWarning);
        RepeatedLog repeated(clock);
        repeated.log(LogLevel::kDebug, "garbage", "a");
        repeated.log(LogLevel::kDebug, "garbage", "b");
        CHECK_FALSE(repeated.pending());
        CHECK(log.lines().empty());
    }
}

}  // namespace weir

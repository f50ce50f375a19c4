// SPDX-License-Identifier: Apache-2.0
#include "lib/base/log.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "lib/base/descriptor.h"

namespace weir {
namespace {

using LevelLines = std::vector<std::pair<LogLevel, std::string>>;

/// LevelLines of the level and above go to `lines` while it lives.
class CollectedLog {
public:
    CollectedLog(LevelLines& lines, LogLevel at_least) {
        set_log_sink(
            [&](LogLevel level, std::string_view line) { lines.emplace_back(level, line); },
            at_least);
    }

    CollectedLog(const CollectedLog&) = delete;
    CollectedLog& operator=(const CollectedLog&) = delete;

    ~CollectedLog() { set_log_sink(stderr_log_sink(), LogLevel::kWarning); }
};

constexpr LogLevel kAllLevels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                                   LogLevel::kError};

/// What `say` writes to stderr.
template <class Say>
std::string stderr_of(Say&& say) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const Descriptor out(ends[0]);
    Descriptor in(ends[1]);
    const Descriptor was(::dup(STDERR_FILENO));
    REQUIRE(::dup2(in.get(), STDERR_FILENO) >= 0);
    say();
    REQUIRE(::dup2(was.get(), STDERR_FILENO) >= 0);
    in.reset();
    std::string text(4096, '\0');
    const ssize_t count = ::read(out.get(), text.data(), text.size());
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
}

}  // namespace

TEST_SUITE("log") {
    TEST_CASE("a sink gets lines from its level on, formatted, and others are not formatted") {
        for (const LogLevel at_least : kAllLevels) {
            LevelLines lines;
            const CollectedLog log_lines(lines, at_least);
            size_t expected = 0;
            for (const LogLevel level : kAllLevels) {
                log(level, "{} of {}", 1, "two");
                const bool is_taken = level >= at_least;
                CHECK(log_enabled(level) == is_taken);
                expected += is_taken ? 1 : 0;
                REQUIRE(lines.size() == expected);
                if (is_taken) CHECK(lines.back() == std::pair{level, std::string("1 of two")});
            }
        }
    }

    TEST_CASE("log_line() gives a line of any level, and an empty sink ends logging") {
        LevelLines lines;
        const CollectedLog log_lines(lines, LogLevel::kError);
        log_line(LogLevel::kDebug, "as it is: {}");
        CHECK(lines == LevelLines{{LogLevel::kDebug, "as it is: {}"}});
        set_log_sink({}, LogLevel::kDebug);
        CHECK_FALSE(log_enabled(LogLevel::kError));
        log(LogLevel::kError, "nobody");
        log_line(LogLevel::kError, "nobody");
        CHECK(lines.size() == 1);
    }

    TEST_CASE("one thread may be quiet while others are not, and the inner one ends first") {
        LevelLines lines;
        const CollectedLog log_lines(lines, LogLevel::kInfo);
        {
            const QuietLog quiet(true);
            {
                const QuietLog not_quiet(false);
                log(LogLevel::kError, "still quiet");
            }
            log(LogLevel::kError, "quiet");
            std::thread([] { log(LogLevel::kInfo, "another thread"); }).join();
        }
        log(LogLevel::kInfo, "again");
        CHECK(lines == LevelLines{{LogLevel::kInfo, "another thread"}, {LogLevel::kInfo, "again"}});
    }

    TEST_CASE("a sink is called by one thread at a time") {
        std::atomic<int> inside = 0;
        std::atomic<bool> has_met = false;
        size_t count = 0;
        set_log_sink([&](LogLevel, std::string_view) {
            if (inside.fetch_add(1) != 0) has_met = true;
            ++count;
            inside.fetch_sub(1);
        });
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([] {
                for (int line = 0; line < 1000; ++line)
                    log(LogLevel::kInfo, "{}", line);
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        set_log_sink(stderr_log_sink(), LogLevel::kWarning);
        CHECK_FALSE(has_met);
        CHECK(count == 4000);
    }

    TEST_CASE("lines on stderr begin with the program and the level") {
        const std::string text = stderr_of([] {
            const LogSink sink = stderr_log_sink();
            sink(LogLevel::kDebug, "a");
            sink(LogLevel::kInfo, "b");
            sink(LogLevel::kWarning, "c");
            sink(LogLevel::kError, "d");
        });
        CHECK(text == "weir: debug: a\nweir: b\nweir: warning: c\nweir: error: d\n");
    }
}

}  // namespace weir

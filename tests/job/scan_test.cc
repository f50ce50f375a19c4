// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables of real jobs are read out by scans.

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "tests/log_lines.h"

namespace weir::test {
namespace {

/// All keys and values of a table.
template <class T>
std::map<uint64_t, std::vector<T>> read_out(Table<T>& table, const ScanOptions& options = {}) {
    std::map<uint64_t, std::vector<T>> rows;
    Scan<T> scan = table.scan(options);
    while (scan.next()) {
        const size_t width = table.width();
        REQUIRE_FALSE(scan.keys().empty());
        REQUIRE(scan.values().size() == scan.keys().size() * width);
        for (size_t i = 0; i < scan.keys().size(); ++i) {
            const auto row = scan.values().subspan(i * width, width);
            CHECK(rows.try_emplace(scan.keys()[i], row.begin(), row.end()).second);
        }
    }
    REQUIRE(scan.status().has_value());
    CHECK_FALSE(scan.next());
    return rows;
}

}  // namespace

TEST_SUITE("scan") {
    TEST_CASE("a scan reads out tables of any layout and width") {
        const auto job = start_job(2, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        for (const uint32_t width : {1U, 3U, 5000U}) {  // the last is longer than a message
            const uint64_t count = width == 5000 ? 20 : 20'000;
            TableOptions options;
            options.width = width;
            const std::string name = "sparse" + std::to_string(width);
            auto table = std::move(client.create_table<float>(name, options)).value();
            CHECK(read_out(table).empty());
            std::vector<uint64_t> keys(count);
            for (size_t i = 0; i < keys.size(); ++i)
                keys[i] = i * i;
            std::vector<float> values(keys.size() * width);
            std::iota(values.begin(), values.end(), 0.0F);
            REQUIRE(table.push(keys, values).wait().has_value());
            const auto rows = read_out(table);
            REQUIRE(rows.size() == keys.size());
            bool right = true;
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto row = std::span(values).subspan(i * width, width);
                right &= std::ranges::equal(rows.at(keys[i]), row);
            }
            CHECK(right);
            CHECK(read_out(table, {.keys = KeyRange{4, 10}}).size() == 2);
            CHECK(read_out(table, {.keys = KeyRange{4, 4}}).empty());

            options = dense_options(count);
            options.width = width;
            options.initial_value = 7;
            auto all = std::move(client.create_table<float>("dense" + name, options)).value();
            const std::vector<uint64_t> one = {5};
            const std::vector<float> ones(width, 1.0F);
            REQUIRE(all.push(one, ones).wait().has_value());
            const auto everything = read_out(all);
            REQUIRE(everything.size() == count);
            CHECK(everything.at(5) == std::vector<float>(width, 8.0F));
            CHECK(everything.at(count - 1) == std::vector<float>(width, 7.0F));
            CHECK(read_out(all, {.keys = KeyRange{5, 7}}).size() == 2);
        }
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a scan that cannot go on says why, and may be left at any point") {
        const auto job = start_job(1, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<uint64_t>("t", {})).value();
        std::vector<uint64_t> keys(300'000);  // several pieces
        std::iota(keys.begin(), keys.end(), 0);
        REQUIRE(table.push(keys, keys).wait().has_value());
        {
            auto left = table.scan();
            CHECK(left.next());
            auto moved = std::move(left);
            CHECK(moved.next());
        }
        auto late = table.scan({.deadline = std::chrono::nanoseconds(-1)});
        CHECK_FALSE(late.next());
        CHECK(late.status().code() == Errc::kDeadline);
        auto backwards = table.scan({.keys = KeyRange{2, 1}});
        CHECK_FALSE(backwards.next());
        CHECK(backwards.status().code() == Errc::kInvalidArgument);
        auto open = table.scan();
        CHECK(open.next());
        REQUIRE(client.leave().has_value());
        while (open.next()) {
        }
        CHECK(open.status().code() == Errc::kUnavailable);
        CHECK(open.keys().empty());
        auto after = table.scan();
        CHECK_FALSE(after.next());
        CHECK(after.status().code() == Errc::kUnavailable);
    }

    TEST_CASE("an error of a Scan that is destroyed without status() is logged and counted") {
        const testing::LogLines log;
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<uint64_t>("t", {})).value();
        const auto lost = [&] { return std::move(client.stats()).value().errors_lost; };
        {
            auto late = table.scan({.deadline = std::chrono::nanoseconds(-1)});
            CHECK(late.status().code() == Errc::kDeadline);
            CHECK_FALSE(late.next());
        }
        CHECK(lost() == 0);
        {
            auto late = table.scan({.deadline = std::chrono::nanoseconds(-1)});
            CHECK_FALSE(late.next());
        }
        CHECK(lost() == 1);
        CHECK(log.count("a scan of table 't' failed: ") == 1);
        CHECK(log.has("a Scan without status()"));
        { const auto never_used = table.scan({.keys = KeyRange{2, 1}}); }
        CHECK(lost() == 2);
        { const auto left = table.scan(); }
        CHECK(lost() == 2);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables of real jobs are read out by scans.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
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

/// Reads rows with their state by scans and by keys, and puts them into another table, which then
/// goes on as the first one does.
void use_rows(const char* transport, bool is_dense, std::optional<ValueType> kept) {
    JobOptions of_job;
    of_job.shards_per_server = 2;
    const auto job = start_job(of_job, {{"WEIR_TRANSPORT", transport}});
    auto client = std::move(job->make_client(0)).value();
    constexpr uint64_t kRowKeys = 30'000;
    TableOptions options = is_dense ? dense_options(kRowKeys) : TableOptions();
    options.width = 3;
    options.rule = adagrad(0.25);
    options.initial_value = 0.5;
    options.store_as = kept;
    if (kept) options.rounding = Rounding::kNearest;
    auto table = std::move(client.create_table<float>("t", options)).value();
    auto other = std::move(client.create_table<float>("other", options)).value();
    CHECK(table.state_bytes() == 3 * sizeof(float));
    const size_t value_bytes = 3 * (kept ? 2 : 4);
    REQUIRE(table.row_bytes() == value_bytes + table.state_bytes());
    std::vector<uint64_t> keys(kRowKeys);
    std::iota(keys.begin(), keys.end(), 0);
    const std::span pushed = std::span(keys).first(kRowKeys - 10);
    std::vector<float> values(pushed.size() * 3);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i % 97) - 48;
    REQUIRE(table.push(pushed, values).wait().has_value());
    std::vector<std::byte> rows(kRowKeys * table.row_bytes());
    REQUIRE(table.pull_rows(keys, rows).wait().has_value());
    const auto row = [&](uint64_t key) {
        return std::span(rows).subspan(key * table.row_bytes(), table.row_bytes());
    };
    std::vector<float> floats(kRowKeys * 3);
    REQUIRE(table.pull(keys, floats).wait().has_value());
    size_t seen = 0;
    size_t wrong = 0;
    Scan<float> scan = table.scan({.has_state = true});
    while (scan.next()) {
        REQUIRE(scan.state().size() == scan.keys().size() * table.state_bytes());
        for (size_t i = 0; i < scan.keys().size(); ++i, ++seen) {
            const uint64_t key = scan.keys()[i];
            const auto state = scan.state().subspan(i * 3 * sizeof(float), 3 * sizeof(float));
            const bool is_right = std::ranges::equal(scan.values().subspan(i * 3, 3),
                                                     std::span(floats).subspan(key * 3, 3)) &&
                                  std::ranges::equal(state, row(key).subspan(value_bytes));
            wrong += static_cast<size_t>(!is_right);
        }
    }
    CHECK(scan.status().has_value());
    CHECK(seen == (is_dense ? kRowKeys : pushed.size()));
    CHECK(wrong == 0);
    REQUIRE(other.push_rows(keys, rows).wait().has_value());
    std::vector<std::byte> again(rows.size());
    REQUIRE(other.pull_rows(keys, again).wait().has_value());
    CHECK(again == rows);
    if (is_dense) {
        const KeyRange all{0, kRowKeys};
        REQUIRE(other.push_rows(all, rows).wait().has_value());
        std::ranges::fill(again, std::byte{0});
        REQUIRE(other.pull_rows(all, again).wait().has_value());
        CHECK(again == rows);
    }
    for (Table<float>* const one : {&table, &other})
        REQUIRE(one->push(pushed, values).wait().has_value());
    REQUIRE(table.pull_rows(keys, rows).wait().has_value());
    REQUIRE(other.pull_rows(keys, again).wait().has_value());
    CHECK(again == rows);
    // Rows need not be aligned.
    const std::vector<uint64_t> one_key = {5};
    std::vector<std::byte> shifted(table.row_bytes() + 1);
    std::ranges::copy(row(7), shifted.begin() + 1);
    REQUIRE(other.push_rows(one_key, std::span(shifted).subspan(1)).wait().has_value());
    REQUIRE(other.pull_rows(one_key, std::span(again).first(table.row_bytes())).wait().has_value());
    CHECK(std::ranges::equal(std::span(again).first(table.row_bytes()), row(7)));
    // What is not finite is refused, but in the state, which is the rule's own.
    const float nan = std::nanf("");
    std::vector<std::byte> bad(row(7).begin(), row(7).end());
    std::memcpy(bad.data() + value_bytes, &nan, sizeof nan);
    CHECK(other.push_rows(one_key, bad).wait().has_value());
    const auto narrow_nan = BFloat16(nan);
    kept ? std::memcpy(bad.data() + 2, &narrow_nan, 2) : std::memcpy(bad.data() + 4, &nan, 4);
    CHECK(other.push_rows(one_key, bad).wait().code() == Errc::kNotFinite);
    CHECK(other.push_rows(one_key, rows).wait().code() == Errc::kInvalidArgument);
    CHECK(other.push_rows(one_key, row(7), {.iteration = 1}).wait().code() ==
          Errc::kInvalidArgument);
    REQUIRE(client.leave().has_value());
    CHECK(job->serve().has_value());
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

    TEST_CASE("a scan brings the state of the rule, and rows that were read are put elsewhere") {
        for (const char* const transport : {"shm", "tcp"}) {
            for (const bool is_dense : {false, true}) {
                for (const std::optional<ValueType> kept :
                     {std::optional<ValueType>(), std::optional(ValueType::kBFloat16)}) {
                    CAPTURE(transport);
                    CAPTURE(is_dense);
                    CAPTURE(kept.has_value());
                    use_rows(transport, is_dense, kept);
                }
            }
        }
    }

    TEST_CASE("each key is in one share, with its state") {
        const auto job = start_job(2, 2, 1);
        auto client = std::move(job->make_client(0)).value();
        for (const bool is_dense : {false, true}) {
            CAPTURE(is_dense);
            TableOptions options = is_dense ? dense_options(5000) : TableOptions();
            options.rule = adagrad(1);
            auto table =
                std::move(client.create_table<double>(is_dense ? "dense" : "sparse", options))
                    .value();
            std::vector<uint64_t> keys(5000);
            std::iota(keys.begin(), keys.end(), 0);
            std::vector<double> values(keys.begin(), keys.end());
            REQUIRE(table.push(keys, values).wait().has_value());
            std::vector<int> seen(keys.size());
            for (uint32_t share = 0; share < 3; ++share) {
                auto scan = table.scan({.share = share, .shares = 3, .has_state = true});
                size_t rows = 0;
                while (scan.next()) {
                    REQUIRE(scan.state().size() == scan.keys().size() * sizeof(double));
                    for (size_t i = 0; i < scan.keys().size(); ++i) {
                        const auto key = scan.keys()[i];
                        double sum = 0;
                        std::memcpy(&sum, scan.state().data() + i * sizeof sum, sizeof sum);
                        CHECK(sum == static_cast<double>(key * key));
                        ++seen[key];
                    }
                    rows += scan.keys().size();
                }
                CHECK(scan.status().has_value());
                CHECK(rows > 1000);
            }
            CHECK(std::ranges::count(seen, 1) == 5000);
            for (const uint32_t share : {3U, 4U}) {
                auto none = table.scan({.share = share, .shares = 3});
                CHECK_FALSE(none.next());
                CHECK(none.status().code() == Errc::kInvalidArgument);
            }
        }
        REQUIRE(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("a client lists the tables of its job, but for Weir's own") {
        const auto job = start_job(1, 2, 2);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            if (i == 0) CHECK(client.tables()->empty());
            std::vector<double> one = {1};
            CHECK(client.allreduce(one).has_value());  // makes a table of Weir's own
            if (i == 0) {
                TableOptions options{.width = 3, .rule = adam(0.1)};
                options.store_as = ValueType::kFloat16;
                CHECK(client.create_table<float>("first", options).has_value());
                for (int k = 0; k < 200; ++k) {  // more than one message has
                    CHECK(client.create_table<int64_t>("t" + std::to_string(k), dense_options(7))
                              .has_value());
                }
            }
            CHECK(client.barrier().has_value());
            const std::vector<TableSchema> tables = std::move(client.tables()).value();
            REQUIRE(tables.size() == 201);
            CHECK(tables[0].name == "first");
            CHECK(tables[0].layout == Layout::kSparse);
            CHECK(tables[0].value_type == ValueType::kFloat16);
            CHECK(tables[0].width == 3);
            CHECK(tables[0].rule == "adam");
            CHECK(tables[200].name == "t199");
            CHECK(tables[200].key_count == 7);
            CHECK(client.barrier().has_value());
            if (i == 0) CHECK(client.drop_table("t199").has_value());
            CHECK(client.barrier().has_value());
            CHECK(client.tables()->size() == 200);
            CHECK(client.leave().has_value());
        });
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

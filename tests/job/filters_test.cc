// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a trainer sees of filters: when what was held back is pushed, and what is counted.

#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/rules.h"
#include "tests/filter/shorn_codec.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

const std::vector<uint64_t> kHeldKeys{1, 5, 9};
const std::vector<float> kHeldOnes{1, 1, 1};

/// A client whose table holds back all that a few pushes bring.
struct Holding {
    Holding() {
        auto made = client.create_table<float>("held", {.filters = {filters::significant(100)}});
        REQUIRE(made.has_value());
        table = std::make_unique<Table<float>>(*made);
    }

    [[nodiscard]] float value() {
        std::vector<float> values(kHeldKeys.size());
        REQUIRE(table->pull(kHeldKeys, values).wait());
        CHECK(values == std::vector<float>(kHeldKeys.size(), values[0]));
        return values[0];
    }

    std::unique_ptr<Job> job = start_job(1, 1, 1);
    Client client = std::move(job->make_client(0)).value();
    std::unique_ptr<Table<float>> table;
};

const Filters kTableCodec{filters::table_codec()};

/// What a program's codec does with values that its trial did not have.
class BrokenCodec final : public ShornCodec {
public:
    static constexpr float kRefused = 512;  ///< a body of these is
    static constexpr float kThrows = 1024;  ///< one of these ends a server

    [[nodiscard]] Status decode(ValueType type, std::span<const std::byte> body,
                                std::span<std::byte> values) const override {
        WEIR_TRY(ShornCodec::decode(type, body, values));
        if (values.size() < sizeof(float)) return {};
        float first = 0;
        std::memcpy(&first, values.data(), sizeof first);
        if (first == kThrows) throw std::runtime_error("two of these");
        if (first == kRefused) return Error(Errc::kProtocol, "one of these");
        return {};
    }
};

std::vector<uint64_t> hundred_keys() {
    std::vector<uint64_t> keys(100);
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
}

JobOptions with_broken_codec() {
    JobOptions options;
    options.servers = 1;
    options.shards_per_server = 1;
    options.workers = 1;
    options.add_rules = [](RuleRegistry& rules) {
        REQUIRE(rules.register_codec("broken", std::make_shared<BrokenCodec>()));
    };
    return options;
}

}  // namespace

TEST_SUITE("filters") {
    TEST_CASE("what was held back is pushed by a flush, a barrier and before a worker leaves") {
        Holding of;
        REQUIRE(of.table->push(kHeldKeys, kHeldOnes).wait());
        CHECK(of.value() == 0);
        const Result<ClientStats> stats = of.client.stats();
        REQUIRE(stats.has_value());
        CHECK(stats->filters.rows_held == kHeldKeys.size());
        CHECK(stats->filters.rows_pushed == kHeldKeys.size());
        CHECK(stats->filters.rows_kept == 0);
        REQUIRE(of.client.flush());
        CHECK(of.value() == 1);
        REQUIRE(of.table->push(kHeldKeys, kHeldOnes).wait());
        REQUIRE(of.client.barrier());
        CHECK(of.value() == 2);
        REQUIRE(of.client.leave());
    }

    TEST_CASE("a barrier also takes along what tasks hold back that it waits for") {
        Holding of;
        Task first = of.table->push(kHeldKeys, kHeldOnes);
        Task second = of.table->push(kHeldKeys, kHeldOnes, {.after = {first.id()}});
        const std::vector<TaskId> both{first.id(), second.id()};
        REQUIRE(of.client.barrier({}, both));
        CHECK(of.value() == 2);
        REQUIRE(first.wait());
        REQUIRE(second.wait());
        REQUIRE(of.client.leave());
    }

    TEST_CASE("the codec of a table is used where filters name it, by pushes and pulls") {
        JobOptions options;
        options.servers = 2;
        options.shards_per_server = 1;
        options.workers = 1;
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_codec(ShornCodec::kName, std::make_shared<ShornCodec>(), 2));
        };
        const auto job = start_job(options);
        Client client = std::move(job->make_client(0)).value();
        auto table = client.create_table<float>(
            "shorn", {.width = 4, .codec = ShornCodec::kName, .filters = kTableCodec});
        REQUIRE_MESSAGE(table, table.error().text());
        std::vector<uint64_t> keys(1000);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = 3 * i;
        std::vector<float> values(4 * keys.size());
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i % 100);
        std::vector<float> pulled(values.size());
        REQUIRE(table->push(keys, values).wait());
        REQUIRE(table->pull(keys, pulled).wait());
        CHECK(pulled == values);
        const ClientStats stats = client.stats().value();
        CHECK(stats.filters.integers.before == sizeof(float) * values.size());
        CHECK(stats.filters.integers.after < stats.filters.integers.before * 3 / 4);
        CHECK(stats.filters.pulled_integers.after < stats.filters.pulled_integers.before * 3 / 4);
        CHECK(client.create_table<float>("shorn", {.width = 4}).code() == Errc::kAlreadyExists);
        const auto plain = client.create_table<float>("plain", {.filters = kTableCodec});
        CHECK(plain.error().text() ==
              "table 'plain': filter 'table-codec': the table names no codec "
              "(TableOptions::codec)");
        const auto unknown = client.create_table<float>("unknown", {.codec = "nobody's"});
        CHECK(unknown.code() == Errc::kNotFound);
        CHECK(unknown.error().text().find("register it") != std::string::npos);
        REQUIRE(client.leave());
    }

    TEST_CASE("a body that the codec of a table refuses ends its call, not the server") {
        const auto job = start_job(with_broken_codec());
        Client client = std::move(job->make_client(0)).value();
        auto table = client.create_table<float>("t", {.codec = "broken", .filters = kTableCodec});
        REQUIRE(table.has_value());
        const std::vector<uint64_t> keys = hundred_keys();
        const std::vector<float> refused(keys.size(), BrokenCodec::kRefused);
        const std::vector<float> ones(keys.size(), 1);
        const Status pushed = table->push(keys, refused).wait();
        MESSAGE((pushed ? "it has succeeded" : pushed.error().message()));
        CHECK_FALSE(pushed);
    }

    TEST_CASE("values that the codec of a table cannot decode end their pull, not the worker") {
        const auto job = start_job(with_broken_codec());
        Client client = std::move(job->make_client(0)).value();
        auto table = client.create_table<float>("t", {.rule = assign(), .codec = "broken"});
        REQUIRE(table.has_value());
        const std::vector<uint64_t> keys = hundred_keys();
        std::vector<float> out(keys.size());
        for (const float value : {BrokenCodec::kThrows, BrokenCodec::kRefused, 4.0F}) {
            const std::vector<float> values(keys.size(), value);
            REQUIRE(table->push(keys, values).wait());
            const Status pulled = table->pull(keys, out, {.filters = kTableCodec}).wait();
            if (value == BrokenCodec::kThrows) {
                CHECK(pulled.code() == Errc::kException);
                CHECK(pulled.error().text().find("codec 'broken' threw as it decoded: two of") !=
                      std::string::npos);
            } else if (value == BrokenCodec::kRefused) {
                CHECK(pulled.code() == Errc::kProtocol);
            } else {
                CHECK(pulled);
                CHECK(out[7] == 4);
            }
        }
        REQUIRE(client.leave());
    }

    TEST_CASE("a codec that throws at a server ends the job with its name") {
        const auto job = start_job(with_broken_codec());
        Client client = std::move(job->make_client(0)).value();
        auto table = client.create_table<float>("t", {.codec = "broken", .filters = kTableCodec});
        REQUIRE(table.has_value());
        const std::vector<uint64_t> keys = hundred_keys();
        const std::vector<float> throwing(keys.size(), BrokenCodec::kThrows);
        const Status pushed = table->push(keys, throwing).wait();
        CHECK(pushed.code() == Errc::kException);
        CHECK(pushed.error().text().find("codec 'broken' threw as it decoded: two of these") !=
              std::string::npos);
    }

    TEST_CASE("filters that a table cannot have are an error when it is made") {
        const auto job = start_job(1, 1, 1);
        Client client = std::move(job->make_client(0)).value();
        const auto made = client.create_table<float>(
            "means", {.rule = mean(), .filters = {filters::significant(1)}});
        CHECK(made.error().code() == Errc::kInvalidArgument);
        CHECK(made.error().text().find("table 'means'") != std::string::npos);
        REQUIRE(client.leave());
    }
}

}  // namespace weir::test

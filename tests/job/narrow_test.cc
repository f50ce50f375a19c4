// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables of real jobs that keep their values in 16 bits.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

std::unique_ptr<Job> start_over(const char* transport) {
    JobOptions options;
    options.servers = 2;
    options.shards_per_server = 2;
    auto job = Job::start(options, Config(Environment(Environment::Map{
                                       {"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", transport}})));
    REQUIRE_MESSAGE(job.has_value(), (job ? "" : job.error().message()));
    return std::move(*job);
}

TableOptions narrow_options(ValueType type, uint32_t width) {
    TableOptions options;
    options.width = width;
    options.store_as = type;
    options.rounding = Rounding::kNearest;
    return options;
}

/// Pushes to a table of each layout what the type holds exactly, and pulls and scans it in all ways.
template <class Narrow>
void use_table(Client& client, bool is_dense, uint32_t width, uint64_t key_count) {
    TableOptions options = narrow_options(value_type_of<Narrow>(), width);
    if (is_dense) {
        options.layout = Layout::kDense;
        options.key_count = key_count;
    }
    const std::string name = fmt::format("t{}{}{}", is_dense, width, key_count);
    auto made = client.create_table<float>(name, options);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message()));
    Table<float>& table = *made;
    CHECK(table.pushed_width() == width);
    std::vector<uint64_t> keys(key_count);
    for (uint64_t i = 0; i < key_count; ++i)
        keys[i] = is_dense ? i : i * 0x123456789ULL;
    std::vector<float> values(key_count * width);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i % 100) / 4;
    REQUIRE(table.push(keys, values).wait().has_value());
    std::vector<float> floats(values.size(), -1);
    REQUIRE(table.pull(keys, floats).wait().has_value());
    CHECK(floats == values);
    std::vector<Narrow> narrow(values.size());
    REQUIRE(table.pull_narrow(keys, narrow).wait().has_value());
    CHECK(std::equal(narrow.begin(), narrow.end(), values.begin()));
    auto buffer = std::move(client.make_buffer<Narrow>(values.size())).value();
    REQUIRE(table.pull_narrow(keys, buffer).wait().has_value());
    CHECK(std::equal(buffer.begin(), buffer.end(), values.begin()));
    if (is_dense) {
        std::fill(floats.begin(), floats.end(), -1.0F);
        REQUIRE(table.pull(KeyRange{0, key_count}, floats).wait().has_value());
        CHECK(floats == values);
        REQUIRE(table.pull_narrow(KeyRange{0, key_count}, narrow).wait().has_value());
        CHECK(std::equal(narrow.begin(), narrow.end(), values.begin()));
    }
    size_t seen = 0;
    size_t wrong = 0;
    Scan<float> scan = table.scan();
    while (scan.next()) {
        REQUIRE(scan.values().size() == scan.keys().size() * width);
        for (size_t i = 0; i < scan.keys().size(); ++i, ++seen) {
            const uint64_t row = is_dense ? scan.keys()[i] : scan.keys()[i] / 0x123456789ULL;
            for (uint32_t column = 0; column < width; ++column)
                wrong += static_cast<size_t>(scan.values()[i * width + column] !=
                                             values[row * width + column]);
        }
    }
    CHECK(scan.status().has_value());
    CHECK(seen == key_count);
    CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE("narrow tables") {
    TEST_CASE(
        "what is pushed as floats is pulled and scanned as floats, and pulled as it is kept") {
        for (const char* const transport : {"shm", "tcp"}) {
            CAPTURE(transport);
            const auto job = start_over(transport);
            auto client = std::move(job->make_client(0)).value();
            for (const bool is_dense : {false, true}) {
                CAPTURE(is_dense);
                use_table<BFloat16>(client, is_dense, 1, 5000);
                use_table<BFloat16>(client, is_dense, 3, 20'000);
                use_table<Float16>(client, is_dense, 64, 3000);
                use_table<Float16>(client, is_dense, 40'000, 5);  // longer than a message
            }
            CHECK(client.leave().has_value());
            CHECK(job->serve().has_value());
        }
    }

    TEST_CASE("a pull sends half, and into memory of the narrow type nothing is copied") {
        constexpr uint64_t kKeys = 1 << 18;
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        TableOptions options = dense_options(kKeys);
        options.store_as = ValueType::kBFloat16;
        auto table = std::move(client.create_table<float>("t", options)).value();
        auto ones = std::move(client.make_buffer<float>(kKeys)).value();
        std::fill(ones.begin(), ones.end(), 1.0F);
        const KeyRange all{0, kKeys};
        REQUIRE(table.push(all, ones).wait().has_value());
        auto narrow = std::move(client.make_buffer<BFloat16>(kKeys)).value();
        const ClientStats before = std::move(client.stats()).value();
        CHECK(before.bytes_copied == 0);
        REQUIRE(table.pull_narrow(all, narrow).wait().has_value());
        CHECK(narrow[kKeys - 1] == 1.0F);
        const ClientStats after = std::move(client.stats()).value();
        CHECK(after.bytes_copied == 0);
        CHECK(after.servers_bytes_copied == 0);
        const uint64_t sent = after.servers_bytes_sent - before.servers_bytes_sent;
        CHECK(sent >= kKeys * sizeof(BFloat16));
        CHECK(sent < kKeys * sizeof(BFloat16) + 4096);
        REQUIRE(table.pull(all, ones).wait().has_value());
        const ClientStats widened = std::move(client.stats()).value();
        CHECK(widened.bytes_copied == kKeys * sizeof(BFloat16));
        CHECK(widened.servers_bytes_copied == 0);
        CHECK(widened.servers_bytes_sent - after.servers_bytes_sent < kKeys * 2 + 4096);
        CHECK(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("iterations are summed as floats") {
        const auto job = start_job(2, 1, 3);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            auto table =
                std::move(client.create_table<float>("t", narrow_options(ValueType::kBFloat16, 2)))
                    .value();
            // 256 + 1 + 1 = 258, and each sum of two of them but 1 + 1 would be rounded to even: 256 or 258.
            const std::vector<uint64_t> key = {7};
            const std::vector<float> mine(2, i == 1 ? 256.0F : 1.0F);
            CHECK(table.push(key, mine, {.iteration = 1}).wait().has_value());
            std::vector<float> sum(2);
            CHECK(table.pull(key, sum, {.iteration = 1}).wait().has_value());
            CHECK(sum == std::vector<float>(2, 258));
            CHECK(client.leave().has_value());
        });
        CHECK(job->serve().has_value());
    }

    TEST_CASE(
        "batches, push_pull, contains and the mean of the workers work as in tables of floats") {
        const auto job = start_job(2, 1, 2);
        each_worker(*job, [&](uint32_t i) {
            auto client = std::move(job->make_client(i)).value();
            const std::string mine = std::to_string(i);
            auto sparse = std::move(client.create_table<float>(
                                        "sparse" + mine, narrow_options(ValueType::kBFloat16, 3)))
                              .value();
            // Keys in any order, some of them doubled, and more than fit into a message.
            std::vector<uint64_t> keys(20'000);
            for (size_t k = 0; k < keys.size(); ++k)
                keys[k] = k * 7919 % 15'000;
            KeyBatch batch(keys);
            std::vector<float> values(keys.size() * 3);
            for (size_t k = 0; k < values.size(); ++k)
                values[k] = static_cast<float>(keys[k / 3] % 16 + k % 3);
            std::vector<float> out(values.size());
            REQUIRE(sparse.push_pull(batch, values, out).wait().has_value());
            size_t wrong = 0;
            for (size_t k = 0; k < keys.size(); ++k) {
                const auto times = static_cast<float>(batch.counts()[batch.places()[k]]);
                for (size_t at = k * 3; at < k * 3 + 3; ++at)
                    wrong += static_cast<size_t>(out[at] != times * values[at]);
            }
            CHECK(wrong == 0);
            std::vector<float> again(out.size());
            REQUIRE(sparse.pull(batch, again).wait().has_value());
            CHECK(again == out);
            std::vector<uint8_t> known(3);
            const std::vector<uint64_t> some = {3, 14'999, 15'000};
            REQUIRE(sparse.contains(some, known).wait().has_value());
            CHECK(known == std::vector<uint8_t>{1, 1, 0});

            TableOptions options = narrow_options(ValueType::kFloat16, 2);
            options.combine = Combine::kMean;
            auto mean = std::move(client.create_table<float>("mean", options)).value();
            const std::vector<uint64_t> both = {7};
            const std::vector<float> pushed(2, i == 0 ? 1.0F : 4.0F);
            std::vector<float> shown(2);
            REQUIRE(mean.push_pull(both, pushed, shown, {.iteration = 1}).wait().has_value());
            CHECK(shown == std::vector<float>(2, 2.5F));
            std::vector<float> first(2);
            std::vector<float> second(3);
            const std::vector<uint64_t> one = {3};
            REQUIRE(client.pull({mean.pulling(both, first), sparse.pulling(one, second)})
                        .wait()
                        .has_value());
            CHECK(first == shown);
            CHECK(second[1] == second[0] + (second[2] - second[0]) / 2);
            CHECK(client.leave().has_value());
        });
        CHECK(job->serve().has_value());
    }

    TEST_CASE("rounding is as the rule says, unless the table says it") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        const auto rounding_of = [&](const char* name, const TableOptions& options) {
            auto table = client.create_table<float>(name, options);
            REQUIRE_MESSAGE(table.has_value(), (table ? "" : table.error().message()));
            return table->schema().rounding;
        };
        TableOptions options{.store_as = ValueType::kBFloat16};
        CHECK(rounding_of("add", options) == Rounding::kStochastic);
        options.rule = adam();
        CHECK(rounding_of("adam", options) == Rounding::kStochastic);
        options.rule = ftrl(0.1);
        CHECK(rounding_of("ftrl", options) == Rounding::kNearest);
        options.rule = assign();
        CHECK(rounding_of("assign", options) == Rounding::kNearest);
        options.rounding = Rounding::kStochastic;
        CHECK(rounding_of("drawn", options) == Rounding::kStochastic);
        CHECK(rounding_of("floats", {}) == Rounding::kNearest);
        CHECK(client.leave().has_value());
        CHECK(job->serve().has_value());
    }

    TEST_CASE("what cannot be kept, or is not what is kept, is named") {
        const auto job = start_job(1, 1, 1);
        auto client = std::move(job->make_client(0)).value();
        const TableOptions narrow{.store_as = ValueType::kBFloat16};
        CHECK(client.create_table<int32_t>("n", narrow).error().text() ==
              "table 'n': values of int32 kept as bfloat16: only those of float32 are, as bfloat16 "
              "or float16");
        CHECK(client.create_table<double>("n", narrow).code() == Errc::kInvalidArgument);
        CHECK(client.create_table<float>("n", {.store_as = ValueType::kInt32}).code() ==
              Errc::kInvalidArgument);
        CHECK(client.create_table<float>("n", {.rounding = Rounding::kNearest}).error().text() ==
              "table 'n': values of float32 kept as float32: they are not rounded; leave rounding "
              "out");
        CHECK(client.create_table<float>("same", {.store_as = ValueType::kFloat32}).has_value());
        auto table = std::move(client.create_table<float>("t", narrow)).value();
        CHECK(client.open_table<float>("t").has_value());
        CHECK(client.open_table<double>("t").error().text() ==
              "table 't' exists with 1 value of type bfloat16 per key; 1 of type float64 was asked "
              "for");
        CHECK(client.create_table<float>("t", {}).code() == Errc::kTypeMismatch);
        const std::vector<uint64_t> keys = {1, 2};
        std::vector<Float16> other(2);
        CHECK(
            table.pull_narrow(keys, other).wait().error().text() ==
            "table 't': a pull of float16, but it keeps bfloat16; pull what it keeps, or float32");
        std::vector<BFloat16> short_by_one(1);
        CHECK(table.pull_narrow(keys, short_by_one).wait().error().text() ==
              "table 't': 2 keys need 2 values, 1 each; got 1");
        const std::vector<float> nan(2, std::nanf(""));
        CHECK(table.push(keys, nan).wait().code() == Errc::kNotFinite);
        auto plain = std::move(client.create_table<float>("plain", {})).value();
        std::vector<BFloat16> out(2);
        CHECK(plain.pull_narrow(keys, out).wait().code() == Errc::kTypeMismatch);
        CHECK(client.leave().has_value());
        CHECK(job->serve().has_value());
    }
}

}  // namespace weir::test

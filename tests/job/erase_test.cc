// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows that end, in real jobs: erased, expired, and gone from copies and checkpoints, too.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/job/small_job.h"

namespace weir::test {
namespace {

using ErasedFloats = std::vector<float>;

TableOptions erasable_options(uint32_t width = 1) {
    TableOptions options;
    options.width = width;
    options.erasable = true;
    return options;
}

std::vector<uint64_t> every(uint64_t step, uint64_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i)
        keys[i] = step * i;
    return keys;
}

std::set<uint64_t> scanned(Table<float>& table) {
    std::set<uint64_t> keys;
    Scan<float> scan = table.scan();
    while (scan.next())
        keys.insert(scan.keys().begin(), scan.keys().end());
    REQUIRE(scan.status().has_value());
    return keys;
}

void check_erase_refused(Task task, std::string_view text) {
    const Status status = task.wait();
    REQUIRE_FALSE(status.has_value());
    INFO(status.error().message());
    CHECK(status.code() == Errc::kInvalidArgument);
    CHECK(status.error().message().find(text) != std::string::npos);
}

/// Runs `train` with the client of a job over each transport.
template <class Train>
void with_erasing_job(uint32_t servers, uint32_t replicas, Train&& train) {
    for (const char* const transport : {"shm", "tcp"}) {
        CAPTURE(transport);
        JobOptions options;
        options.servers = servers;
        options.replicas = replicas;
        options.shards_per_server = 2;
        auto job =
            Job::start(options, Config(Environment(Environment::Map{
                                    {"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", transport}})));
        REQUIRE(job.has_value());
        {
            auto client = std::move((*job)->make_client(0)).value();
            train(client);
            REQUIRE(client.leave().has_value());
        }
        CHECK((*job)->serve().has_value());
    }
}

}  // namespace

TEST_SUITE("erase") {
    TEST_CASE("erased keys are as if never pushed, for pulls, scans, look-ups and counts") {
        with_erasing_job(1, 0, [](Client& client) {
            auto table = std::move(client.create_table<float>("t", erasable_options(2))).value();
            for (const uint64_t count : {uint64_t{3}, uint64_t{5000}}) {
                const std::vector<uint64_t> keys = every(3, count);
                const ErasedFloats ones(2 * count, 1);
                for (int round = 0; round < 3; ++round)  // then they are known by their hash
                    REQUIRE(table.push(keys, ones).wait());
                CHECK(client.stats()->servers_keys_held == count);
                const std::vector<uint64_t> gone = every(6, (count + 1) / 2);
                REQUIRE(table.erase(gone).wait());
                CHECK(client.stats()->servers_keys_held == count - gone.size());
                ErasedFloats values(2 * count);
                REQUIRE(table.pull(keys, values).wait());
                std::vector<uint8_t> were_pushed(count);
                REQUIRE(table.contains(keys, were_pushed).wait());
                bool is_right = true;
                for (uint64_t i = 0; i < count; ++i) {
                    is_right &= values[2 * i] == (i % 2 == 0 ? 0 : 3);
                    is_right &= were_pushed[i] == i % 2;
                }
                CHECK(is_right);
                CHECK(scanned(table).size() == count - gone.size());
                REQUIRE(table.erase(keys).wait());
                REQUIRE(table.erase(keys).wait());
                CHECK(scanned(table).empty());
                REQUIRE(table.push(keys, ones).wait());
                REQUIRE(table.pull(keys, values).wait());
                CHECK(values == ones);
                REQUIRE(table.erase(keys).wait());
            }
        });
    }

    TEST_CASE("keys expire by the stamps of their pushes, and batches name them as they come") {
        with_erasing_job(1, 0, [](Client& client) {
            auto table = std::move(client.create_table<float>("t", erasable_options())).value();
            const std::vector<uint64_t> keys{1, 2, 3, 4};
            const ErasedFloats ones(4, 1);
            REQUIRE(table.push(keys, ones, {.stamp = 10}).wait());
            KeyBatch some(std::vector<uint64_t>{4, 2, 4});
            const ErasedFloats of_batch(3, 1);
            REQUIRE(table.push(some, of_batch, {.stamp = 12}).wait());
            REQUIRE(table.expire(keys, 10).wait());
            CHECK(scanned(table).size() == 4);
            REQUIRE(table.expire(keys, 12).wait());
            CHECK(scanned(table) == std::set<uint64_t>{2, 4});
            REQUIRE(table.expire(some, 13).wait());
            CHECK(scanned(table).empty());
            ErasedFloats out(4);
            REQUIRE(table.push_pull(keys, ones, out, {.stamp = 4'000'000'000}).wait());
            CHECK(out == ones);
            REQUIRE(table.expire(keys, 4'000'000'000).wait());
            CHECK(scanned(table).size() == 4);
            REQUIRE(table.erase(some).wait());
            CHECK(scanned(table) == std::set<uint64_t>{1, 3});
            REQUIRE(client.push({table.pushing(keys, ones)}, {.stamp = 5}).wait());
            REQUIRE(table.expire(keys, 6).wait());
            CHECK(scanned(table) == std::set<uint64_t>{1, 3});
        });
    }

    TEST_CASE("in iterations the stamp is the number of the iteration") {
        with_erasing_job(1, 0, [](Client& client) {
            auto table = std::move(client.create_table<float>("t", erasable_options())).value();
            const std::vector<uint64_t> keys{1, 2};
            const ErasedFloats ones(2, 1);
            REQUIRE(table.push(keys, ones, {.iteration = 1}).wait());
            REQUIRE(table.push(std::span(keys).first(1), std::span(ones).first(1), {.iteration = 2})
                        .wait());
            REQUIRE(table.expire(keys, 2).wait());
            CHECK(scanned(table) == std::set<uint64_t>{1});
            ErasedFloats values(2);
            REQUIRE(table.pull(keys, values, {.iteration = 2}).wait());
            CHECK(values == ErasedFloats{2, 0});
        });
    }

    TEST_CASE("what a table cannot erase is a named error, and changes nothing") {
        with_erasing_job(1, 0, [](Client& client) {
            auto dense = std::move(client.create_table<float>("d", dense_options(4))).value();
            auto plain = std::move(client.create_table<float>("p", {})).value();
            auto table = std::move(client.create_table<float>("t", erasable_options())).value();
            const std::vector<uint64_t> keys{1, 2};
            const ErasedFloats ones(2, 1);
            REQUIRE(plain.push(keys, ones).wait());
            check_erase_refused(dense.erase(keys), "table 'd': erase(): it is dense");
            check_erase_refused(plain.erase(keys), "TableOptions::erasable");
            check_erase_refused(plain.expire(keys, 3), "table 'p': expire()");
            check_erase_refused(plain.push(keys, ones, {.stamp = 3}), "a push with a stamp");
            check_erase_refused(table.push(keys, ones, {.stamp = 0}), "stamps count from 1");
            check_erase_refused(table.expire(keys, 0), "stamps count from 1");
            check_erase_refused(table.erase(keys, {.stamp = 3}), "takes no stamp");
            check_erase_refused(table.erase(keys, {.iteration = 1}), "takes no iteration");
            CHECK(scanned(plain).size() == 2);
            TableOptions options = dense_options(4);
            options.erasable = true;
            const auto refused = client.create_table<float>("e", options);
            CHECK(refused.code() == Errc::kInvalidArgument);
            const auto other = client.create_table<float>("t", {});
            REQUIRE_FALSE(other.has_value());
            CHECK(other.error().message().find("erasable") != std::string::npos);
        });
    }

    TEST_CASE("copies lose what was erased, also when the vacuum has taken its rows") {
        with_erasing_job(2, 1, [](Client& client) {
            auto table = std::move(client.create_table<float>("t", erasable_options(4))).value();
            const std::vector<uint64_t> keys = every(1, 4000);
            const ErasedFloats ones(4 * keys.size(), 1);
            for (int round = 0; round < 4; ++round) {
                REQUIRE(table.push(keys, ones).wait());
                REQUIRE(table.push(keys, ones).wait());
                REQUIRE(table.erase(std::span(keys).first(3000)).wait());
                CHECK(scanned(table).size() == 1000);
            }
            ErasedFloats values(ones.size());
            REQUIRE(table.pull(keys, values).wait());
            CHECK(values.front() == 0);
            CHECK(values.back() == 8);
        });
    }

    TEST_CASE(
        "a table that gains and loses keys again and again takes no more than its live rows") {
        const char* const all = std::getenv("WEIR_ENDING_KEYS");  // NOLINT(concurrency-mt-unsafe)
        const uint64_t count = all == nullptr ? 20'000 : std::strtoull(all, nullptr, 10);
        const uint64_t rounds = all == nullptr ? 20 : 100;
        JobOptions options;
        options.shards_per_server = 2;
        const auto job = start_job(options);
        {
            auto client = std::move(job->make_client(0)).value();
            auto table = std::move(client.create_table<float>("t", erasable_options(16))).value();
            const uint64_t step = std::max<uint64_t>(1, count / 20);
            const ErasedFloats ones(16 * step, 1);
            uint64_t first = 0;
            uint64_t most = 0;
            for (uint64_t round = 0; round < rounds; ++round) {
                std::vector<uint64_t> keys = every(1, count);
                for (uint64_t& key : keys)
                    key += round * count;
                for (uint64_t at = 0; at + step <= count; at += step)
                    REQUIRE(table.push(std::span(keys).subspan(at, step), ones).wait());
                const uint64_t used = client.stats()->servers_used_bytes;
                if (round == 0) first = used;
                most = std::max(most, used);
                for (uint64_t at = 0; at + step <= count; at += step)
                    REQUIRE(table.erase(std::span(keys).subspan(at, step)).wait());
                CHECK(client.stats()->servers_keys_held == 0);
            }
            MESSAGE("at most ", most, " bytes, with all keys of the first round ", first);
            CHECK(static_cast<double>(most) <= 1.5 * static_cast<double>(first));
            REQUIRE(client.leave().has_value());
        }
        CHECK(job->serve().has_value());
    }

    TEST_CASE(
        "sweep() keeps a table within its limits, while a row that is pushed meanwhile stays") {
        with_erasing_job(1, 0, [](Client& client) {
            auto table = std::move(client.create_table<float>("t", erasable_options(2))).value();
            const std::vector<uint64_t> keys = every(7, 3000);
            const ErasedFloats ones(2 * keys.size(), 1);
            for (uint32_t day = 0; day < 3; ++day) {
                REQUIRE(table
                            .push(std::span(keys).subspan(1000 * day, 1000),
                                  std::span(ones).first(2000), {.stamp = 10 + day})
                            .wait());
            }
            Swept swept = *sweep(table, {.before = 11});
            CHECK(swept.rows_counted == 3000);
            CHECK(swept.rows_chosen == 1000);
            CHECK(scanned(table).size() == 2000);
            swept = *sweep(table, {.before = 20, .rows_min = 1500});
            CHECK(swept.rows_chosen == 500);
            CHECK(scanned(table).size() == 1500);
            const uint64_t row_bytes = 8 + table.row_bytes();
            swept = *sweep(table, {.bytes_max = 400 * row_bytes + 1});
            CHECK(swept.cut == 13);
            const std::set<uint64_t> left = scanned(table);
            CHECK(left.size() == 400);
            CHECK(*left.begin() >= keys[2000]);  // the youngest
            CHECK(sweep(table, {.rows_min = 2, .bytes_max = row_bytes}).code() ==
                  Errc::kInvalidArgument);
            auto plain = std::move(client.create_table<float>("p", {})).value();
            CHECK(sweep(plain, {.before = 3}).code() == Errc::kInvalidArgument);
            Scan<float> scan = table.scan({.has_state = true, .has_stamps = true});
            while (scan.next()) {
                REQUIRE(scan.stamps().size() == scan.keys().size());
                REQUIRE(scan.values().size() == 2 * scan.keys().size());
                for (size_t i = 0; i < scan.keys().size(); ++i) {
                    CHECK(scan.stamps()[i] == 12);
                    uint32_t in_state = 0;
                    std::memcpy(&in_state, scan.state().data() + 4 * i, sizeof in_state);
                    CHECK(in_state == 12);
                }
            }
            CHECK(scan.status().has_value());
        });
    }

    TEST_CASE("an erased key does not come back from a checkpoint, and stamps are in it") {
        std::string folder = std::filesystem::temp_directory_path() / "weir-erased-XXXXXX";
        REQUIRE(::mkdtemp(folder.data()) != nullptr);
        const std::vector<uint64_t> keys = every(1, 1000);
        const ErasedFloats ones(keys.size(), 1);
        for (const bool goes_on : {false, true}) {
            CAPTURE(goes_on);
            JobOptions options;
            options.checkpoint_folder = folder;
            if (goes_on) options.resume = folder;
            const auto job = start_job(options);
            {
                auto client = std::move(job->make_client(0)).value();
                auto table = std::move(client.create_table<float>("t", erasable_options())).value();
                if (!goes_on) {
                    REQUIRE(table.push(keys, ones, {.stamp = 7}).wait());
                    REQUIRE(table
                                .push(std::span(keys).first(100), std::span(ones).first(100),
                                      {.stamp = 9})
                                .wait());
                    REQUIRE(client.checkpoint());
                    REQUIRE(table.erase(std::span(keys).subspan(50, 450)).wait());
                    REQUIRE(client.checkpoint());
                }
                CHECK(scanned(table).size() == 550);
                ErasedFloats values(keys.size());
                REQUIRE(table.pull(keys, values).wait());
                CHECK(values[49] == 2);
                CHECK(values[50] == 0);
                CHECK(values[500] == 1);
                REQUIRE(table.expire(keys, 8).wait());
                CHECK(scanned(table).size() == 50);
                REQUIRE(client.leave().has_value());
            }
            CHECK(job->serve().has_value());
        }
        std::filesystem::remove_all(folder);
    }
}

}  // namespace weir::test

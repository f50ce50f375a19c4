// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that trainers make as their keys come: several tables in one, a push that pulls, batches with
/// unsorted and repeated keys, which keys were pushed. Over shared memory and over TCP.

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/job/small_job.h"

namespace weir::test {
namespace {

using CalledFloats = std::vector<float>;

/// Runs `train` with a client of a job of two shards, over each transport.
template <class Train>
void over_each_transport(Train&& train) {
    for (const char* const transport : {"shm", "tcp"}) {
        CAPTURE(transport);
        JobOptions options;
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

void check_refused(Task task, std::string_view text) {
    const Status status = task.wait();
    REQUIRE_FALSE(status.has_value());
    INFO(status.error().message());
    CHECK(status.code() == Errc::kInvalidArgument);
    CHECK(status.error().message().find(text) != std::string::npos);
}

}  // namespace

TEST_SUITE("calls") {
    TEST_CASE("several tables are pushed and pulled in one call, by keys, ranges and batches") {
        over_each_transport([](Client& client) {
            auto users = std::move(client.create_table<float>("users", {.width = 2})).value();
            auto items = std::move(client.create_table<float>("items", dense_options(4))).value();
            const std::vector<uint64_t> who{3, 9};
            KeyBatch what(std::vector<int32_t>{2, 0, 2});
            const CalledFloats p{1, 2, 3, 4}, q{10, 20, 30};
            REQUIRE(client.push({users.pushing(who, p), items.pushing(what, q)}).wait());
            CalledFloats u(4), v(4);
            const KeyRange all{0, 4};
            REQUIRE(client.pull({users.pulling(who, u), items.pulling(all, v)}).wait());
            CHECK(u == p);
            CHECK(v == CalledFloats{20, 0, 40, 0});
        });
    }

    TEST_CASE("a call of several tables waits for tasks, and takes part in iterations") {
        over_each_transport([](Client& client) {
            auto users = std::move(client.create_table<float>("users", {})).value();
            auto items = std::move(client.create_table<float>("items", dense_options(4))).value();
            const std::vector<uint64_t> keys{0, 3};
            const CalledFloats ones{1, 1};
            KeyBatch batch(std::vector<uint64_t>{3, 0, 3});
            const CalledFloats of_batch{1, 2, 4};
            Task first = client.push({users.pushing(keys, ones), items.pushing(keys, ones)},
                                     {.iteration = 1});
            Task second = client.push({users.pushing(batch, of_batch), items.pushing(keys, ones)},
                                      {.iteration = 2, .after = {first.id()}});
            REQUIRE(second.wait());
            REQUIRE(first.wait());
            CalledFloats u(2), v(2);
            REQUIRE(client.pull({users.pulling(keys, u), items.pulling(keys, v)}, {.iteration = 2})
                        .wait());
            CHECK(u == CalledFloats{3, 6});
            CHECK(v == CalledFloats{2, 2});
        });
    }

    TEST_CASE("push_pull shows the push, also that of an iteration, few values and many") {
        over_each_transport([](Client& client) {
            auto table = std::move(client.create_table<float>("t", dense_options(1 << 16))).value();
            auto sparse = std::move(client.create_table<float>("s", {})).value();
            for (const uint64_t count : {uint64_t{4}, uint64_t{1} << 16}) {
                const KeyRange keys{0, count};
                auto ones = std::move(client.make_buffer<float>(count)).value();
                auto out = std::move(client.make_buffer<float>(count)).value();
                std::fill(ones.begin(), ones.end(), 1.0F);
                REQUIRE(table.push_pull(keys, ones, out).wait());
                CHECK(out[count - 1] == 1);
                std::vector<uint64_t> list(count);
                for (uint64_t i = 0; i < count; ++i)
                    list[i] = 7 * i + count;
                CalledFloats plain(count);
                for (int round = 1; round <= 3; ++round) {
                    REQUIRE(sparse.push_pull(list, ones, plain).wait());
                    CHECK(plain == CalledFloats(count, static_cast<float>(round)));
                }
                const std::optional<uint64_t> next = sparse.next_iteration();
                Task task = sparse.push_pull(list, ones, plain, {.iteration = next});
                REQUIRE(task.wait());
                CHECK(task.iteration_shown() == next);
                CHECK(plain == CalledFloats(count, 4));
            }
            KeyBatch batch(std::vector<uint32_t>{5, 1, 5});
            CalledFloats rows{1, 1, 1};
            REQUIRE(sparse.push_pull(batch, rows, rows).wait());  // a batch has rows of its own
            CHECK(rows == CalledFloats{2, 1, 2});
        });
    }

    TEST_CASE("a batch is combined as the rule combines, and spread to all places") {
        over_each_transport([](Client& client) {
            KeyBatch batch(std::vector<int64_t>{8, -1, 8, 8});
            const CalledFloats values{2, 5, 9, 4};
            const auto pushed = [&](const Rule& rule) {
                auto table =
                    std::move(client.create_table<float>(rule.name, {.rule = rule})).value();
                REQUIRE(table.push(batch, values).wait());
                CalledFloats out(4);
                REQUIRE(table.pull(batch, out).wait());
                CHECK(out[0] == out[2]);
                CHECK(out[0] == out[3]);
                CHECK(out[1] == 5);
                return out[0];
            };
            CHECK(pushed(add()) == 15);
            CHECK(pushed(assign()) == 4);
            CHECK(pushed(max()) == 9);
            CHECK(pushed(mean()) == 5);
            auto table =
                std::move(client.create_table<float>("min", {.rule = weir::min()})).value();
            const CalledFloats below{-2, -5, -9, -4};
            REQUIRE(table.push(batch, below).wait());
            CalledFloats out(4);
            REQUIRE(table.pull(batch, out).wait());
            CHECK(out == CalledFloats{-9, -5, -9, -9});
            auto means = std::move(client.create_table<float>(
                                       "means", {.rule = add(), .combine = Combine::kMean}))
                             .value();
            REQUIRE(means.push(batch, values, {.iteration = 1}).wait());  // of one worker
            REQUIRE(means.pull(batch, out).wait());
            CHECK(out == CalledFloats{15, 5, 15, 15});
            // The next batch has the memory of the one before.
            const uint64_t used = std::move(client.stats()).value().used_bytes;
            for (uint64_t round = 0; round < 20; ++round) {
                batch.assign(std::vector<uint64_t>{round, 2, round});
                CalledFloats rows(3, 1), back(3);
                Task push = table.push(batch, rows);
                Task pull = table.pull(batch, back);
                REQUIRE(push.wait());
                REQUIRE(pull.wait());
            }
            CHECK(std::move(client.stats()).value().used_bytes <= used + 4096);
        });
    }

    TEST_CASE("contains() tells which keys were pushed, and pulls make none") {
        over_each_transport([](Client& client) {
            auto table = std::move(client.create_table<float>("t", {.width = 3})).value();
            const std::vector<uint64_t> some{4, 1'000'000'007}, keys{4, 5, 1'000'000'007};
            CalledFloats values(6), out(9);
            REQUIRE(table.push(some, values).wait());
            REQUIRE(table.pull(keys, out).wait());
            std::vector<uint8_t> flags(3, 9);
            REQUIRE(table.contains(keys, flags).wait());
            CHECK(flags == std::vector<uint8_t>{1, 0, 1});
            KeyBatch batch(std::vector<int32_t>{5, 4, 5, 4});
            flags.assign(4, 9);
            REQUIRE(table.contains(batch, flags).wait());
            CHECK(flags == std::vector<uint8_t>{0, 1, 0, 1});
        });
    }

    TEST_CASE("what makes no sense is named") {
        const auto job = start_job(1, 1, 1);
        const auto other_job = start_job(1, 1, 1);
        {
            auto client = std::move(job->make_client(0)).value();
            auto other = std::move(other_job->make_client(0)).value();
            auto mine = std::move(client.create_table<float>("mine", {})).value();
            auto dense = std::move(client.create_table<float>("dense", dense_options(4))).value();
            auto theirs = std::move(other.create_table<float>("mine", {})).value();
            const std::vector<uint64_t> keys{1, 2};
            CalledFloats two(2), three(3);
            std::vector<uint8_t> flags(2);
            check_refused(client.push({mine.pushing(keys, two), theirs.pushing(keys, two)}),
                          "table 'mine' is another client's");
            check_refused(client.pull(std::span<const Pulling>(), PullOptions()), "names none");
            check_refused(
                client.push({mine.pushing(keys, two), mine.pushing(keys, two)}, {.iteration = 1}),
                "table 'mine': it is twice in one push of iteration 1");
            check_refused(client.push({mine.pushing(keys, two)}, {.arguments = {{"rate", 1}}}),
                          "give them to Table::pushing()");
            check_refused(client.push({mine.pushing(keys, three)}),
                          "2 keys need 2 values, 1 each; got 3");
            check_refused(mine.push_pull(keys, two, three), "2 keys need 2 values of room");
            check_refused(mine.push_pull(keys, two, two), "overlap; use two buffers");
            check_refused(dense.contains(keys, flags), "only sparse tables know");
            KeyBatch batch(keys);
            check_refused(mine.pull(batch, three),
                          "a batch of 2 keys, as they came, needs 2 values");
            REQUIRE(other.leave().has_value());
            REQUIRE(client.leave().has_value());
        }
        CHECK(other_job->serve().has_value());
        CHECK(job->serve().has_value());
    }
}

}  // namespace weir::test

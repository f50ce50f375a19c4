// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/stream.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/log_lines.h"
#include "tests/seed.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;
using testing::sparse_table;

TEST_SUITE("stream") {
    TEST_CASE("a learner that cannot be reached is logged once, and tried ever more rarely") {
        const testing::LogLines log;
        StreamPair pair(1);
        for (ViewShard& shard : pair.data.shards) {
            if (shard.number == 1) shard.address = "nowhere";
        }
        pair.name_learner({pair.segments_of_primary()[0]});
        std::vector<uint64_t> tried_ns;
        const uint64_t end_ns = pair.clock.now_ns() + 10 * kSecond;
        for (; pair.clock.now_ns() < end_ns; pair.clock.advance(kMillisecond)) {
            if (pair.streams.send(1) > 0) tried_ns.push_back(pair.clock.now_ns());
            CHECK(pair.streams.due_ns() > pair.clock.now_ns());
            CHECK_FALSE(pair.streams.must_poll());
        }
        REQUIRE(tried_ns.size() > 2);
        CHECK(tried_ns.size() < 20);
        CHECK(tried_ns[1] - tried_ns[0] == Stream::kPauseNs);
        CHECK(tried_ns.back() - tried_ns[tried_ns.size() - 2] == Stream::kPauseNsMax);
        pair.failures.finish();
        CHECK(log.count("cannot connect to shard 1 at nowhere") == 1);
    }

    TEST_CASE("each time that a learner is out of reach is logged, and the pauses begin anew") {
        const testing::LogLines log;
        StreamPair pair(1);
        pair.make_some_tables();
        const std::vector<size_t> named = pair.segments_of_primary();
        for (const size_t i : {named[0], named[1]}) {
            pair.network.partition(0, 1);
            pair.name_learner({i});
            const uint64_t heals_ns = pair.clock.now_ns() + 10 * kSecond;
            (void)pair.run_until([&] { return pair.clock.now_ns() >= heals_ns; }, 20'000);
            pair.network.heal(0, 1);
            pair.wait_until_all_is_there();
            CHECK(pair.clock.now_ns() - heals_ns < 3 * Stream::kPauseNsMax);
        }
        CHECK(log.count("cannot connect to shard 1") == 1);  // it is the same reason
        pair.failures.finish();
        CHECK(log.count("cannot connect to shard 1") == 2);
    }

    TEST_CASE("a learner ends with the same bits, whatever happens meanwhile, in many histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t last = first + testing::histories_or(60);
        for (uint64_t seed = first; seed < last; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            StreamPair pair(seed, ~size_t{0}, seed % 2 == 0);
            pair.make_some_tables();
            for (uint64_t n = pair.random.below(60); n > 0; --n)
                pair.push_something();
            const std::vector<size_t> named = pair.segments_of_primary();
            seed % 3 == 0 ? pair.name_backup({named[0], named[2]})
                          : pair.name_learner({named[0], named[2]});
            const uint64_t more_at = pair.random.below(150);
            const uint64_t breaks_at = pair.random.below(300);
            for (uint64_t i = 0; i < 150; ++i) {
                if (i == more_at) pair.name_learner({named[1]});
                if (i == breaks_at) pair.break_stream();
                pair.are_iterations = pair.random.below(6) == 0;
                if (pair.random.below(2) == 0) pair.push_something();
                if (pair.random.below(20) == 0)
                    pair.push_list(static_cast<uint32_t>(pair.random.below(4)), 80);
                if (pair.list_count() > 0 && pair.random.below(4) == 0)
                    pair.push_again(pair.random.below(pair.list_count()));
                if (pair.random.below(25) == 0) pair.close_iteration(pair.random.below(4) == 0);
                if (pair.list_count() > 0 && pair.random.below(12) == 0)
                    pair.close_iteration_of(pair.random.below(pair.list_count()));
                for (uint64_t n = pair.random.below(6); n > 0; --n)
                    (void)pair.step();
            }
            (void)pair.run_until([&] { return pair.has_all(); });
            REQUIRE(pair.wrong == "");
            REQUIRE(pair.has_all());
            for (uint64_t n = pair.random.below(20); n > 0; --n)
                pair.push_something();
            pair.settle();
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE("a stream is a window ahead of its learner at most, and what waits has a limit") {
        StreamPair pair(1);
        pair.make_table(dense_table("big", 1'000'000));
        pair.make_table(dense_table("wide", 2000, ValueType::kFloat32, 600));
        pair.push_something();
        for (ShardTable* const table : pair.primary.tables)
            table->was_pushed = true;
        const uint64_t ahead_bytes = pair.packets_ahead() * uint64_t{kMessageBytesMax};
        CHECK(ahead_bytes > Stream::kWindowBytes / 2);
        CHECK(ahead_bytes < Stream::kWindowBytes * 11 / 10);
        // One step goes beyond the limit of a poll, and takes as much as two messages.
        CHECK(pair.sent_max < pair.chunk_bytes + 4 * kMessageBytesMax);

        CHECK(pair.streams.has_room());
        size_t pushes = 0;
        for (; pair.streams.has_room() && pushes < 5000; ++pushes)
            pair.push_something();
        CHECK(pushes > 100);
        CHECK_FALSE(pair.streams.has_room());
        pair.is_learner_stopped = false;
        CHECK(pair.run_until([&] { return pair.streams.has_room(); }));
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        pair.settle();
        pair.check_equal();
    }

    TEST_CASE("while there are pushes, a stream is a few short chunks ahead") {
        StreamPair pair(1);
        pair.sent_what = Stream::What::kFewChunks;
        pair.make_table(dense_table("big", 1'000'000));
        pair.primary.tables[0]->was_pushed = true;
        const uint64_t ahead_bytes = pair.packets_ahead() * uint64_t{kMessageBytesMax};
        CHECK(ahead_bytes > Stream::kFewChunksBytes / 2);
        CHECK(ahead_bytes < 2 * Stream::kFewChunksBytes);
        pair.push_something();  // a record has all of the window
        CHECK(pair.streams.has_room());
        pair.is_learner_stopped = false;
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        pair.check_equal();
    }

    TEST_CASE("that nothing is heard of a learner for long is told, once in that time") {
        constexpr uint64_t kMostNs = kSecond;
        StreamPair pair(1);
        pair.make_table(dense_table("d", 10'000));
        pair.primary.tables[0]->was_pushed = true;
        const std::vector<size_t> segments = pair.segments_of_primary();
        pair.name_backup(segments);
        const auto reports_in = [&](uint64_t eighths) {
            size_t reports = 0;
            for (uint64_t i = 0; i < eighths; ++i) {
                pair.clock.advance(kMostNs / 8);
                reports += pair.streams.take_stuck(pair.clock.now_ns(), kMostNs).size();
            }
            return reports;
        };
        pair.wait_until_all_is_there();
        CHECK(reports_in(20) == 0);  // nothing is on its way
        pair.is_learner_stopped = true;
        pair.push_something();
        pair.settle(20);
        CHECK(reports_in(7) == 0);
        CHECK(reports_in(2) == segments.size());
        CHECK(reports_in(6) == 0);
        CHECK(reports_in(2) == segments.size());
        pair.clock.advance(5 * kMostNs);  // nobody has looked
        CHECK(reports_in(1) == 0);
        pair.is_learner_stopped = false;
        pair.settle();
        CHECK(reports_in(20) == 0);
        pair.check_equal();
    }

    TEST_CASE("one that learns gets its chunks though records of pushes wait all the time") {
        struct Case {
            bool is_copy = false;
            Stream::What sent_what = Stream::What::kChunks;
        };

        for (const Case one : {Case{false}, Case{true}, Case{true, Stream::What::kFewChunks}}) {
            CAPTURE(one.is_copy);
            StreamPair pair(1);
            pair.sent_what = one.sent_what;
            pair.make_table(dense_table("big", 10'000));
            pair.push_extent(0);
            const std::vector<size_t> named = pair.segments_of_primary();
            one.is_copy ? pair.name_backup(named) : pair.name_learner(named);
            // A turn takes less than one push.
            const size_t push_bytes = pair.keys_of_primary(0).size() * sizeof(float);
            const size_t steps = push_bytes / pair.chunk_bytes / 2;
            size_t turns = 0;
            for (; turns < 4000 && !pair.has_all(); ++turns) {
                pair.push_extent(0);
                for (size_t i = 0; i < steps; ++i)
                    (void)pair.step();
            }
            MESSAGE(turns << " turns");
            CHECK(pair.has_all());
            pair.settle();
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE("of rows that have to be found, fewer are under way and come at once") {
        StreamPair pair(1);
        pair.make_table(sparse_table("t"));
        ShardTable& table = *pair.primary.tables[0];
        table.was_pushed = true;
        std::vector<uint64_t> keys;
        const PositionSet& held = pair.primary.holdings.primary();
        for (uint64_t key = 0; keys.size() < 20'000; ++key) {
            if (held.contains(table.positions.position(key))) keys.push_back(key);
        }
        REQUIRE(table.rows->rows_for_push(keys));
        const uint64_t packets = pair.packets_ahead();
        constexpr uint64_t kRowsAhead = Stream::kWindowBytes / kFoundKeyBytes;
        constexpr uint64_t kRowBytes = sizeof(uint64_t) + sizeof(float);
        CHECK(packets > 10);
        CHECK(packets * kMessageBytesMax < 2 * kRowsAhead * kRowBytes + 20 * kMessageBytesMax);
        pair.is_learner_stopped = false;
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        pair.check_equal();
    }

    TEST_CASE("a record of which only a part was sent cannot have been applied") {
        StreamPair pair(1);
        pair.make_table(
            dense_table("wide", 20, ValueType::kFloat32, 600));  // longer than a message
        pair.back_up_all();
        pair.push_extent(0);
        REQUIRE(pair.streams.send(1, Stream::What::kRecords) > 0);  // its first message
        wire::FrameHeader answer = wire::header_of(wire::Kind::kApplied);
        for (const bool is_taken : {false, true}) {
            answer.first = pair.applied + (is_taken ? 0 : 1);
            answer.request = pair.applied + 1;
            CHECK(pair.streams.receive(pair.stream_connection(), answer) ==
                  "an ack of a record that was not sent");
        }
        CHECK(pair.run_until(
            [&] { return pair.streams.replicated_change() == Stream::kAllChanges; }));
        pair.check_equal();
        CHECK(pair.wrong == "");
    }
}

}  // namespace
}  // namespace weir::test

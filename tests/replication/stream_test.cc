// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/replication/follower.h"
#include "lib/wire/messages.h"
#include "tests/cluster/stream_pair.h"
#include "tests/heap_bytes.h"
#include "tests/log_lines.h"
#include "tests/seed.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;
using testing::sparse_table;

std::vector<TableSchema> some_tables() {
    TableSchema state = dense_table("state", 300);
    state.rule = "adagrad";
    state.parameters.value = {0.1, 1e-8};
    TableSchema wide = dense_table("wide", 20, ValueType::kFloat32, 600);  // longer than a message
    TableSchema sparse = sparse_table("sparse");
    sparse.rule = "adagrad";
    sparse.parameters.value = {0.1, 1e-8};
    TableSchema pairs = sparse_table("pairs", ValueType::kFloat32, 3);
    return {state, wide, sparse, pairs};
}

/// How many packets a stream sends to a learner that stops as soon as it follows.
uint64_t packets_ahead(StreamPair& pair) {
    const uint64_t before = pair.network.counters().packets;
    pair.name_learner(pair.segments_of_primary());
    REQUIRE(pair.run_until([&] { return pair.follower != nullptr; }));
    pair.is_learner_stopped = true;
    (void)pair.run_until([] { return false; }, 50);
    return pair.network.counters().packets - before;
}

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
        pair.make_table(some_tables()[0]);
        const std::vector<size_t> named = pair.segments_of_primary();
        for (const size_t i : {named[0], named[1]}) {
            pair.network.partition(0, 1);
            pair.name_learner({i});
            const uint64_t heals_ns = pair.clock.now_ns() + 10 * kSecond;
            (void)pair.run_until([&] { return pair.clock.now_ns() >= heals_ns; }, 20'000);
            pair.network.heal(0, 1);
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
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
            for (const TableSchema& schema : some_tables())
                pair.make_table(schema);
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
            (void)pair.run_until([] { return false; }, 50);
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE("a list that comes again by its hash costs its stream no keys") {
        StreamPair pair(1);
        for (const TableSchema& schema : some_tables())
            pair.make_table(schema);
        pair.name_learner(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        const auto sent_for = [&](auto&& push) {
            const size_t before = pair.sent_bytes;
            push();
            (void)pair.run_until([] { return false; }, 10);
            return pair.sent_bytes - before;
        };
        const size_t in_full = sent_for([&] { pair.push_list(3, 2000); });
        const size_t named = sent_for([&] { pair.push_again(0); });
        const size_t known = sent_for([&] { pair.push_again(0); });
        CHECK(named == in_full);
        CHECK(known + 8 * 100 < named);
        // Another stream, and another learner: they know nothing.
        pair.break_stream();
        (void)pair.run_until([] { return false; }, 3000);
        CHECK(sent_for([&] { pair.push_again(0); }) >= named);
        (void)sent_for([&] { pair.push_again(0); });
        CHECK(sent_for([&] { pair.push_again(0); }) == known);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    TEST_CASE("nor does an iteration of it alone, also if it came before the copy") {
        StreamPair pair(1);
        for (const TableSchema& schema : some_tables())
            pair.make_table(schema);
        pair.are_iterations = true;
        pair.push_list(3, 2000);  // its keys do not come again
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        const auto sent = [&] {
            const size_t before = pair.sent_bytes;
            pair.push_again(0);
            (void)pair.run_until([] { return false; }, 10);
            return pair.sent_bytes - before;
        };
        const size_t in_full = sent();
        CHECK(sent() == in_full);
        CHECK(sent() + 8 * 100 < in_full);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    TEST_CASE("nor does a sum of it that comes again") {
        struct Case {
            uint32_t table = 0;
            bool is_part = false;
        };

        for (const Case one : {Case{0}, Case{2}, Case{3}, Case{3, true}}) {
            CAPTURE(one.table);
            CAPTURE(one.is_part);
            StreamPair pair(1);
            for (const TableSchema& schema : some_tables())
                pair.make_table(schema);
            for (int i = 0; i < 60; ++i)  // rows in another order than that of keys
                pair.push_something();
            pair.push_list(one.table, 200);
            const std::vector<size_t> all = pair.segments_of_primary();
            pair.name_backup(one.is_part ? std::vector{all[0], all[2]} : all);
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
            const auto sent = [&] {
                const size_t before = pair.sent_bytes;
                pair.close_iteration_of(0);
                (void)pair.run_until([] { return false; }, 10);
                return pair.sent_bytes - before;
            };
            const size_t first = sent();
            const size_t in_full = sent();  // with its number
            const size_t known = sent();
            CHECK(in_full <= first);
            CHECK(known + 8 * 16 < in_full);
            CHECK(sent() == known);
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE(
        "sums that come once are forgotten beyond a limit, and those that came again are not") {
        constexpr size_t kLength = 2 * kRememberedKeysMin;
        StreamPair pair(1);
        pair.make_table(dense_table("t", 4 * Streams::kSumsMax));
        const std::vector<uint64_t> held = pair.keys_of_primary(0);
        REQUIRE(held.size() > Streams::kSumsMax + 2 * kLength);
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        const auto close = [&](size_t sum) {
            std::vector<uint64_t> keys(kLength);
            for (size_t i = 0; i < kLength; ++i)
                keys[i] = held[sum + 2 * i];  // they are no range
            pair.close_iteration_of(0, std::move(keys));
        };
        const auto settle = [&] { (void)pair.run_until([] { return false; }, 10); };
        const auto sent_for = [&](size_t sum) {
            const size_t before = pair.sent_bytes;
            close(sum);
            settle();
            return pair.sent_bytes - before;
        };
        size_t next = 0;
        for (; next < Streams::kSumsMax - 1; ++next) {
            close(next);
            if (next % 64 == 0) settle();
        }
        settle();
        const size_t in_full = sent_for(0);
        const size_t known = sent_for(0);
        CHECK(known + 8 * (kLength / 2) < in_full);
        close(next);
        close(next + 1);  // beyond the limit
        settle();
        (void)sent_for(1);  // is the first one anew
        CHECK(sent_for(1) == in_full);
        CHECK(sent_for(1) == known);
        CHECK(sent_for(0) == known);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    // The learner has the view only when this shard has stopped, and keeps the beginning of what is
    // new waiting until then. Answers wait for that from the beginning, but what is leaving does not.
    TEST_CASE("what a shard takes over while it loses something is counted at once") {
        StreamPair pair(1);
        pair.make_table(some_tables()[0]);
        const std::vector<size_t> named = pair.segments_of_primary();
        pair.name_backup({named[2]});
        pair.name_learner({named[0]});
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        pair.take_over_and_lose(named[1], named[0]);
        pair.is_learner_stopped = true;
        (void)pair.run_until([] { return false; }, 50);
        CHECK(pair.streams.have_leavers_arrived());
        CHECK(pair.streams.is_counted());
        pair.primary.holdings.hand_over();
        pair.streams.take_view(pair.view_of_primary, 0);
        CHECK(pair.streams.is_counted());
    }

    TEST_CASE("what iterations have changed of a large table is not queued again for a takeover") {
        for (const bool is_filled : {false, true}) {
            INFO("filled " << is_filled);
            StreamPair pair(1);
            pair.chunk_bytes = size_t{64} << 10;
            pair.make_table(dense_table("big", 2'000'000));
            const std::vector<size_t> named = pair.segments_of_primary();
            pair.push_something();
            pair.name_backup({named[2]});
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
            pair.name_learner({named[0]});
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
            if (is_filled) {
                pair.streams.table_filled(0);
                CHECK_FALSE(pair.streams.has_filled(0));
                pair.is_learner_stopped = true;
                (void)pair.run_until([] { return false; }, 20);
                CHECK_FALSE(pair.streams.has_filled(0));
                pair.streams.forget_filled(0);  // this shard holds something else, so it fails
            } else {
                for (size_t i = 0; i < 4; ++i)
                    pair.close_iteration(false);
                pair.is_learner_stopped = true;
            }
            const size_t before = testing::heap_bytes();
            pair.take_over_and_lose(named[1], named[0]);
            CHECK(testing::heap_bytes() - before < (size_t{512} << 10));
            pair.is_learner_stopped = false;
            (void)pair.run_until([] { return false; }, 50);
            CHECK(pair.wrong.empty());
            CHECK(pair.streams.have_leavers_arrived());
            if (!is_filled) pair.check_equal(0, named[0]);
        }
    }

    TEST_CASE("a table is filled when those to whom segments move have its rows, too") {
        StreamPair pair(1);
        pair.make_table(dense_table("big", 400'000));
        const std::vector<size_t> named = pair.segments_of_primary();
        pair.push_something();
        pair.name_backup({named[2]});
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        pair.name_learner({named[0]});
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        for (const size_t i : {named[0], named[2]}) {
            const PositionRange range = pair.view.range(i);
            const PositionSet positions(std::span(&range, 1));
            for (const KeyRange keys : positions.dense_keys(400'000)) {
                const std::vector<float> read(keys.key_count(), 7);
                REQUIRE(
                    pair.primary.tables[0]->rows->take(keys, std::as_bytes(std::span(read)), {}));
            }
        }
        pair.streams.table_filled(0);
        REQUIRE(pair.run_until([&] { return pair.streams.has_filled(0); }));
        pair.check_equal();
    }

    TEST_CASE("a sum that makes several records may come again and again") {
        StreamPair pair(1);
        pair.chunk_bytes = size_t{256} << 10;
        pair.make_table(dense_table("big", 2'400'000));
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        std::vector<uint64_t> keys = pair.keys_of_primary(0);
        std::erase_if(keys, [](uint64_t key) { return key % 2 == 0; });  // they are no range
        REQUIRE(keys.size() * (sizeof(uint64_t) + sizeof(float)) > RecordMessage::kCutBytes);
        for (int time = 0; time < 3; ++time) {
            pair.close_iteration_of(0, keys);
            (void)pair.run_until([] { return false; }, 50);
            REQUIRE(pair.wrong == "");
            pair.check_equal();
        }
    }

    TEST_CASE("a copy applies a long change in steps, or all of it where that is due") {
        for (const bool is_due : {false, true}) {
            CAPTURE(is_due);
            StreamPair pair(1);
            pair.chunk_bytes = size_t{256} << 10;
            pair.make_table(dense_table("big", 2'400'000));
            pair.name_backup(pair.segments_of_primary());
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
            pair.close_iteration_of(0, pair.keys_of_primary(0));
            size_t steps = 0;
            const auto is_over = [&] {
                if (!pair.follower->is_preparing()) return steps > 0;
                ++steps;
                CHECK(pair.follower->take_progress() == std::nullopt);
                if (!is_due) return false;
                pair.follower->finish_change();
                CHECK_FALSE(pair.follower->is_preparing());
                return true;
            };
            REQUIRE(pair.run_until(is_over));
            CHECK(pair.wrong.empty());
            pair.check_equal();
            CHECK((is_due ? steps == 1 : steps > 1));
        }
    }

    TEST_CASE(
        "what is malformed in the rest of a change is told, and its segment counts as learned no "
        "more") {
        StreamPair pair(1);
        pair.make_table(dense_table("big", 8'000'000));
        pair.name_learner({0});
        const PositionRange range = pair.view.range(0);
        const KeyRange keys = PositionSet(std::span(&range, 1)).dense_keys(8'000'000)[0];
        const std::vector<float> values(keys.key_count(), 5);
        REQUIRE(values.size() * sizeof(float) >= Follower::kStepBytes);
        RecordMessage begin;
        begin.kind = RecordMessage::Kind::kBegin;
        begin.segments = {{range, pair.data.epoch}};
        RecordMessage rows;
        rows.is_range = true;
        rows.first_key = keys.begin;
        rows.row_count = keys.key_count();
        rows.values = std::as_bytes(std::span(values));
        RecordMessage end = begin;
        end.kind = RecordMessage::Kind::kEnd;
        RecordMessage part = rows;
        part.has_more = part.is_shared = true;
        RecordMessage last;
        last.is_shared = true;
        last.times = {{~0U, range, 5}};  // of no worker
        Follower follower({0, 1, 1, 1}, pair.view, pair.learner.holdings, pair.learner.tables);
        uint64_t index = 0;
        for (const RecordMessage& record : {begin, rows, end, part, part, last}) {
            wire::Frame frame;
            frame.header = wire::header_of(wire::Kind::kRecord);
            frame.header.first = ++index;
            const std::vector<std::byte> bytes = record.encode();
            frame.values = bytes;
            REQUIRE(follower.receive(frame, {*pair.to, 0}).empty());
            for (int i = 0; i < 100'000 && follower.is_preparing() && index < 4; ++i)
                REQUIRE(follower.go_on().empty());
        }
        const auto learned = [&] {
            return pair.learner.holdings.in_role({Holdings::Role::kLearned}).ranges().size();
        };
        REQUIRE(follower.is_preparing());  // it has applied the first part
        REQUIRE(learned() == 1);
        CHECK(follower.finish_change() ==
              "times of segments that it has not begun, or of workers that cannot be");
        CHECK(learned() == 0);
    }

    TEST_CASE("a learner without memory says so, and is asked again later") {
        StreamPair pair(1, size_t{1} << 20);
        pair.make_table(dense_table("big", 100'000));
        pair.push_something();
        pair.learner.heap.set_limit(pair.learner.heap.bytes_in_use());
        pair.name_learner({pair.segments_of_primary()[0]});
        CHECK(pair.run_until([&] { return pair.refusal == Errc::kNoMemory; }));
        CHECK_FALSE(pair.has_all());
        pair.learner.heap.set_limit(size_t{1} << 30);
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        pair.check_equal();
    }

    TEST_CASE("a learner takes the memory for a segment step by step") {
        StreamPair pair(1);
        pair.make_table(dense_table("big", 200'000));
        pair.make_table(dense_table("wide", 20'000, ValueType::kFloat32, 10));
        pair.push_something();
        pair.learner.heap.unprepared_bytes_max = 0;
        pair.name_learner(pair.segments_of_primary());
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        CHECK(pair.learner.heap.unprepared_bytes_max < PreparedMemory::kStepBytes);
        pair.check_equal();
    }

    TEST_CASE("a table that both ends drop on the way is left out, and all others arrive") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 50; ++seed) {
            INFO("WEIR_SEED=" << seed);
            StreamPair pair(seed);
            for (const TableSchema& schema : some_tables())
                pair.make_table(schema);
            for (int i = 0; i < 200; ++i)
                pair.push_something();
            pair.name_learner(pair.segments_of_primary());
            for (uint64_t steps = pair.random.below(150); steps > 0; --steps)
                (void)pair.step();
            const auto dropped = static_cast<uint32_t>(pair.primary.tables.size() - 1);
            pair.learner.tables.pop_back();
            pair.learner.tables.dropped.insert(dropped);
            for (int i = 0; i < 20; ++i) {
                pair.push_list(dropped, 40);
                pair.push_again(pair.random.below(pair.list_count()));
            }
            for (uint64_t steps = pair.random.below(50); steps > 0; --steps)
                (void)pair.step();
            pair.streams.forget_table(dropped);
            pair.primary.tables.pop_back();
            pair.push_something();
            REQUIRE(pair.run_until([&] { return pair.has_all(); }));
            (void)pair.run_until([] { return false; }, 20);
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
        const uint64_t ahead_bytes = packets_ahead(pair) * uint64_t{kMessageBytesMax};
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
        (void)pair.run_until([] { return false; }, 50);
        pair.check_equal();
    }

    TEST_CASE("while there are pushes, a stream is a few short chunks ahead") {
        StreamPair pair(1);
        pair.sent_what = Stream::What::kFewChunks;
        pair.make_table(dense_table("big", 1'000'000));
        pair.primary.tables[0]->was_pushed = true;
        const uint64_t ahead_bytes = packets_ahead(pair) * uint64_t{kMessageBytesMax};
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
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        CHECK(reports_in(20) == 0);  // nothing is on its way
        pair.is_learner_stopped = true;
        pair.push_something();
        (void)pair.run_until([] { return false; }, 20);
        CHECK(reports_in(7) == 0);
        CHECK(reports_in(2) == segments.size());
        CHECK(reports_in(6) == 0);
        CHECK(reports_in(2) == segments.size());
        pair.clock.advance(5 * kMostNs);  // nobody has looked
        CHECK(reports_in(1) == 0);
        pair.is_learner_stopped = false;
        (void)pair.run_until([] { return false; }, 50);
        CHECK(reports_in(20) == 0);
        pair.check_equal();
    }

    TEST_CASE("while what has come waits at a learner, that says that it is in reach") {
        StreamPair pair(1);
        pair.primary.make_table(dense_table("d", 10'000));  // the learner will have it later
        pair.primary.tables[0]->was_pushed = true;
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until(
            [&] { return pair.follower != nullptr && pair.follower->has_begun_record(); }));
        (void)pair.run_until([] { return false; }, 50);
        CHECK_FALSE(pair.follower->take_progress());
        const auto sign = pair.follower->take_sign_of_life(pair.clock.now_ns());
        REQUIRE(sign);
        CHECK_FALSE(pair.follower->take_sign_of_life(pair.clock.now_ns()));
        // It is all that the primary needs.
        uint64_t reports = 0;
        for (int i = 0; i < 40; ++i) {
            pair.clock.advance(kSecond / 8);
            const auto next = pair.follower->take_sign_of_life(pair.clock.now_ns());
            REQUIRE(next);
            wire::FrameHeader header = testing::frame_header(wire::Kind::kApplied);
            header.first = next->applied;
            if (next->taken > next->applied) header.request = next->taken;
            CHECK(pair.streams.receive(pair.stream_connection(), header).empty());
            reports += pair.streams.take_stuck(pair.clock.now_ns(), kSecond).size();
        }
        CHECK(reports == 0);
        pair.learner.make_table(dense_table("d", 10'000));
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        CHECK_FALSE(pair.follower->has_begun_record());
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
            (void)pair.run_until([] { return false; }, 50);
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
        const uint64_t packets = packets_ahead(pair);
        constexpr uint64_t kRowsAhead = Stream::kWindowBytes / kFoundKeyBytes;
        constexpr uint64_t kRowBytes = sizeof(uint64_t) + sizeof(float);
        CHECK(packets > 10);
        CHECK(packets * kMessageBytesMax < 2 * kRowsAhead * kRowBytes + 20 * kMessageBytesMax);
        pair.is_learner_stopped = false;
        CHECK(pair.run_until([&] { return pair.has_all(); }));
        pair.check_equal();
    }

    TEST_CASE(
        "a shard with tables is not made primary of what it has not; one without has all of it") {
        Side side;
        constexpr uint64_t kMiddle = uint64_t{1} << 63;
        const std::vector<PositionRange> half{{0, kMiddle - 1}};
        const std::vector<PositionRange> ring{{0, kMiddle - 1}, {kMiddle, ~uint64_t{0}}};
        side.holdings.begin(half);
        REQUIRE(side.holdings.set_primary(ring));
        CHECK(PositionSet(ring).without(side.holdings.primary()).ranges().empty());
        side.holdings.begin(half);
        side.make_table(sparse_table("t"));
        CHECK(side.holdings.set_primary(ring).code() == Errc::kProtocol);
        CHECK(side.holdings.primary().without(PositionSet(half)).ranges().empty());
    }

    TEST_CASE("rows that were handed over are dropped in small steps") {
        Side side;
        const PositionRange ring{0, ~uint64_t{0}};
        side.holdings.begin(std::span(&ring, 1));
        side.make_table(sparse_table("t"));
        TableShard& rows = *side.tables[0]->rows;
        std::vector<uint64_t> keys(200'000);
        std::iota(keys.begin(), keys.end(), 0);
        const std::vector<float> ones(keys.size(), 1);
        REQUIRE(rows.push(*rows.rows_for_push(keys), std::as_bytes(std::span(ones))));
        REQUIRE(side.holdings.set_primary({}));
        side.tables[0]->iterations.state().restart({});
        CHECK_FALSE(side.holdings.drop_some());  // the manager has not said that they may go
        side.holdings.hand_over();
        CHECK_FALSE(side.holdings.drop_some());
        side.holdings.let_go();
        size_t steps = 0;
        size_t most = 0;
        for (size_t before = rows.row_count(); side.holdings.drop_some(); ++steps) {
            most = std::max(most, before - rows.row_count());
            before = rows.row_count();
        }
        CHECK(rows.row_count() == 0);
        CHECK(steps > 20);
        CHECK(most < 12'000);
        CHECK(side.holdings.is_settled());
    }

    TEST_CASE("rows that the network still reads are dropped when it has read them") {
        Side side;
        const PositionRange ring{0, ~uint64_t{0}};
        side.holdings.begin(std::span(&ring, 1));
        side.make_table(dense_table("t", 1000));
        ShardTable& table = *side.tables[0];
        table.pins.pin(7, {10, 20});
        REQUIRE(side.holdings.set_primary({}));
        table.iterations.state().restart({});
        side.holdings.hand_over();
        side.holdings.let_go();
        for (int i = 0; i < 10; ++i)
            (void)side.holdings.drop_some();
        CHECK(table.rows->row_count() == 1000);
        CHECK_FALSE(side.holdings.is_settled());
        CHECK(table.pins.unpin(7));
        while (side.holdings.drop_some()) {
        }
        CHECK(table.rows->row_count() == 0);
        CHECK(side.holdings.is_settled());
    }

    TEST_CASE("a record of which only a part was sent cannot have been applied") {
        StreamPair pair(1);
        pair.make_table(
            dense_table("wide", 20, ValueType::kFloat32, 600));  // longer than a message
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        pair.push_extent(0);
        REQUIRE(pair.streams.send(1, Stream::What::kRecords) > 0);  // its first message
        wire::FrameHeader answer = wire::header_of(wire::Kind::kApplied);
        for (const bool is_taken : {false, true}) {
            answer.first = pair.applied + (is_taken ? 0 : 1);
            answer.request = pair.applied + 1;
            CHECK(pair.streams.receive(pair.stream_connection(), answer) ==
                  "an answer to a record that was not sent");
        }
        CHECK(pair.run_until([&] { return pair.streams.confirmed_state() == Stream::kAllStates; }));
        pair.check_equal();
        CHECK(pair.wrong == "");
    }

    TEST_CASE("what a stream must not bring closes it, and changes nothing") {
        StreamPair pair(1);
        pair.make_table(dense_table("t", 100));
        pair.name_learner({0});
        const PositionRange range = pair.view.range(0);
        const KeyRange keys = PositionSet(std::span(&range, 1)).dense_keys(100)[0];
        const std::vector<float> values(100, 5);
        RecordMessage begin;
        begin.kind = RecordMessage::Kind::kBegin;
        begin.segments = {{range, pair.data.epoch}};
        RecordMessage rows;
        rows.is_range = true;
        rows.first_key = keys.begin;
        rows.row_count = keys.key_count();
        rows.values = std::as_bytes(std::span(values)).first(keys.key_count() * 4);
        bool is_lent = false;
        bool is_lasting = false;
        const auto follow = [&](const std::vector<RecordMessage>& records, uint64_t skip = 0) {
            Follower follower({0, 1, 1, is_lasting ? uint64_t{1} : 0}, pair.view,
                              pair.learner.holdings, pair.learner.tables);
            std::string_view wrong;
            uint64_t index = skip;
            for (const RecordMessage& record : records) {
                wire::Frame frame;
                frame.header = wire::header_of(wire::Kind::kRecord);
                frame.header.first = ++index;
                std::vector<std::byte> memory(record.rows_bytes());
                const bool lends = is_lent && record.kind == RecordMessage::Kind::kRows;
                const std::vector<std::byte> bytes =
                    lends ? record.encode_lent(memory) : record.encode();
                frame.values = bytes;
                wrong = follower.receive(frame, {*pair.to, 0});
                for (int i = 0; i < 5; ++i) {
                    (void)pair.learner.holdings.drop_some();
                    if (wrong.empty()) wrong = follower.go_on();
                }
            }
            return std::string(wrong);
        };
        CHECK(follow({begin, rows}).empty());
        CHECK(follow({begin, rows}, 1) == "a record with another index than is due");
        CHECK(follow({rows}) == "rows of segments that it has not begun");
        RecordMessage outside = rows;
        outside.first_key = keys.end;
        CHECK(follow({begin, outside}) == "rows of segments that it has not begun");
        RecordMessage beyond = rows;
        beyond.first_key = 1000;
        CHECK(follow({begin, beyond}) == "rows of segments that it has not begun");
        RecordMessage short_rows = rows;
        short_rows.values = rows.values.first(4);
        CHECK(follow({begin, short_rows}) ==
              "rows that do not fit the table, or a segment that this shard has");
        RecordMessage far_times;
        far_times.times = {{~0U, range, 5}};
        CHECK(follow({begin, far_times}) ==
              "times of segments that it has not begun, or of workers that cannot be");
        RecordMessage impossible;
        impossible.iterations = {{range, 3, {{9, Errc::kNoMemory, 0}}}};
        CHECK(follow({begin, impossible}) ==
              "iterations of segments that it has not begun, or that cannot be");
        const std::vector<uint64_t> listed{keys.begin, keys.begin + 1};
        RecordMessage list;
        list.row_count = 2;
        list.keys = std::as_bytes(std::span(listed));
        list.values = rows.values.first(8);
        list.list = 3;
        RecordMessage known = list;
        known.is_known = true;
        known.keys = {};
        CHECK(follow({begin, list, known, known}).empty());
        CHECK(follow({begin, known}) == "a list that it has not sent by this number");
        RecordMessage longer = known;
        longer.row_count = 3;
        longer.values = rows.values.first(12);
        CHECK(follow({begin, list, longer}) == "a list that it has not sent by this number");
        RecordMessage forget;
        forget.kind = RecordMessage::Kind::kForgetLists;
        CHECK(follow({begin, list, forget, known}) == "a list that it has not sent by this number");
        // By one number another list, also where that is behind its use in the same change.
        RecordMessage other_list = list;
        other_list.row_count = 1;
        other_list.keys = list.keys.first(8);
        other_list.values = list.values.first(4);
        CHECK(follow({begin, list, list}).empty());
        CHECK(follow({begin, list, other_list}) == "two lists by one number");
        is_lasting = true;
        RecordMessage first_part = known;
        first_part.has_more = first_part.is_shared = true;
        RecordMessage last_part = other_list;
        last_part.is_shared = true;
        last_part.times = {{0, range, 5}};
        CHECK(follow({begin, list, first_part, last_part}) == "two lists by one number");
        is_lasting = false;
        pair.learner.tables.dropped.insert(1);
        RecordMessage of_dropped = known;
        of_dropped.table = 1;
        of_dropped.row_count = 1;
        of_dropped.is_shared = true;
        of_dropped.times = {{0, range, 5}};
        CHECK(follow({begin, list, of_dropped}) == "a list that it has not sent by this number");
        const std::vector<uint64_t> descending{keys.begin + 1, keys.begin};
        RecordMessage unsorted = list;
        unsorted.keys = std::as_bytes(std::span(descending));
        CHECK(follow({begin, unsorted}) ==
              "rows that do not fit the table, or a segment that this shard has");
        const std::vector<uint64_t> far{keys.begin, keys.end};
        RecordMessage far_list = list;
        far_list.keys = std::as_bytes(std::span(far));
        CHECK(follow({begin, far_list}) == "rows of segments that it has not begun");
        RecordMessage no_table = rows;
        no_table.table = TableMessage::kTablesMax;
        CHECK(follow({begin, no_table}) == "a malformed record");
        is_lent = true;
        const std::string wrong(follow({begin, rows}));
        CHECK(wrong.starts_with("a record whose rows are not where it says"));
        CHECK(wrong.find("has its process ended since?") != std::string::npos);
        is_lent = false;
        // Not an error: the sender may have an older view, or be ahead of us.
        RecordMessage other = begin;
        other.segments[0].range = pair.view.range(1);
        CHECK(follow({other}).empty());
        RecordMessage later = begin;
        later.segments[0].named = pair.data.epoch + 1;
        CHECK(follow({later, rows}).empty());
        CHECK(pair.learner.holdings.in_role({Holdings::Role::kLearning}).ranges().size() <= 1);
    }
}

}  // namespace
}  // namespace weir::test

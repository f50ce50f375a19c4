// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/incoming_stream.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/messages.h"
#include "tests/cluster/stream_pair.h"
#include "tests/seed.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;

TEST_SUITE("incoming") {
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

    TEST_CASE("a copy applies a long change in steps, or all of it where that is due") {
        for (const bool is_due : {false, true}) {
            CAPTURE(is_due);
            StreamPair pair(1);
            pair.chunk_bytes = size_t{256} << 10;
            pair.make_table(dense_table("big", 2'400'000));
            pair.back_up_all();
            pair.close_iteration_of(0, pair.keys_of_primary(0));
            size_t steps = 0;
            const auto is_over = [&] {
                if (!pair.incoming->is_preparing()) return steps > 0;
                ++steps;
                CHECK(pair.incoming->take_progress() == std::nullopt);
                if (!is_due) return false;
                pair.incoming->finish_change();
                CHECK_FALSE(pair.incoming->is_preparing());
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
        REQUIRE(values.size() * sizeof(float) >= IncomingStream::kStepBytes);
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
        IncomingStream incoming({0, 1, 1, 1}, pair.view, pair.learner.holdings,
                                pair.learner.tables);
        uint64_t index = 0;
        for (const RecordMessage& record : {begin, rows, end, part, part, last}) {
            wire::Frame frame;
            frame.header = wire::header_of(wire::Kind::kRecord);
            frame.header.first = ++index;
            const std::vector<std::byte> bytes = record.encode();
            frame.values = bytes;
            REQUIRE(incoming.receive(frame, {*pair.to, 0}).empty());
            for (int i = 0; i < 100'000 && incoming.is_preparing() && index < 4; ++i)
                REQUIRE(incoming.go_on().empty());
        }
        const auto learned = [&] {
            return pair.learner.holdings.in_role({Holdings::Role::kLearned}).ranges().size();
        };
        REQUIRE(incoming.is_preparing());  // it has applied the first part
        REQUIRE(learned() == 1);
        CHECK(incoming.finish_change() ==
              "times of segments that it has not begun, or of workers that cannot be");
        CHECK(learned() == 0);
    }

    TEST_CASE("initial rows that do not come are made in steps, before a learner has all") {
        for (const bool is_pushed : {false, true}) {
            CAPTURE(is_pushed);
            StreamPair pair(1);
            constexpr uint32_t kWidth = 3;
            TableSchema random = dense_table("random", 200'000, ValueType::kFloat32, kWidth);
            random.initial_value = uniform(-1, 1, 7);
            pair.make_table(random);
            if (is_pushed) pair.push_something();
            const TableShard& rows = *pair.learner.tables[0]->rows;
            pair.name_learner({pair.segments_of_primary()[0]});
            size_t steps = 0;
            size_t before = 0;
            REQUIRE(pair.run_until([&] {
                const size_t now = rows.unfilled_rows();
                if (now < before) {
                    ++steps;
                    CHECK(before - now <= TableShard::kFilledValuesMax / kWidth);
                }
                before = now;
                return pair.has_all();
            }));
            CHECK(rows.unfilled_rows() == 0);
            CHECK(steps > 1);
            pair.settle();
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE("a table that both ends drop on the way is left out, and all others arrive") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 50; ++seed) {
            INFO("WEIR_SEED=" << seed);
            StreamPair pair(seed);
            pair.make_some_tables();
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
            pair.wait_until_all_is_there();
            pair.settle(20);
            CHECK(pair.wrong.empty());
            pair.check_equal();
        }
    }

    TEST_CASE("while what has come waits at a learner, that says that it is in reach") {
        StreamPair pair(1);
        pair.primary.make_table(dense_table("d", 10'000));  // the learner will have it later
        pair.primary.tables[0]->was_pushed = true;
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until(
            [&] { return pair.incoming != nullptr && pair.incoming->has_begun_record(); }));
        pair.settle();
        CHECK_FALSE(pair.incoming->take_progress());
        const auto sign = pair.incoming->take_sign_of_life(pair.clock.now_ns());
        REQUIRE(sign);
        CHECK_FALSE(pair.incoming->take_sign_of_life(pair.clock.now_ns()));
        // It is all that the primary needs.
        uint64_t reports = 0;
        for (int i = 0; i < 40; ++i) {
            pair.clock.advance(kSecond / 8);
            const auto next = pair.incoming->take_sign_of_life(pair.clock.now_ns());
            REQUIRE(next);
            wire::FrameHeader header = testing::frame_header(wire::Kind::kApplied);
            header.first = next->applied;
            if (next->accepted > next->applied) header.request = next->accepted;
            CHECK(pair.streams.receive(pair.stream_connection(), header).empty());
            reports += pair.streams.take_stuck(pair.clock.now_ns(), kSecond).size();
        }
        CHECK(reports == 0);
        pair.learner.make_table(dense_table("d", 10'000));
        pair.wait_until_all_is_there();
        CHECK_FALSE(pair.incoming->has_begun_record());
        pair.check_equal();
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
            IncomingStream incoming({0, 1, 1, is_lasting ? uint64_t{1} : 0}, pair.view,
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
                wrong = incoming.receive(frame, {*pair.to, 0});
                for (int i = 0; i < 5; ++i) {
                    (void)pair.learner.holdings.drop_some();
                    if (wrong.empty()) wrong = incoming.go_on();
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

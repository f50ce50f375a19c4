// SPDX-License-Identifier: Apache-2.0
/// \file
/// Lists of keys that streams carry again and again: by a number.

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;

TEST_SUITE("stream lists") {
    TEST_CASE("a list that comes again by its hash costs its stream no keys") {
        StreamPair pair(1);
        pair.make_some_tables();
        pair.learn_all();
        const auto sent_for = [&](auto&& push) { return pair.bytes_sent_for(push); };
        const size_t in_full = sent_for([&] { pair.push_list(3, 2000); });
        const size_t named = sent_for([&] { pair.push_again(0); });
        const size_t known = sent_for([&] { pair.push_again(0); });
        CHECK(named == in_full);
        CHECK(known + 8 * 100 < named);
        // Another stream, and another learner: they know nothing.
        pair.break_stream();
        pair.settle(3000);
        CHECK(sent_for([&] { pair.push_again(0); }) >= named);
        (void)sent_for([&] { pair.push_again(0); });
        CHECK(sent_for([&] { pair.push_again(0); }) == known);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    TEST_CASE(
        "a list that an iteration changes alone costs its stream no keys when it comes again, also "
        "if it came before the backup") {
        StreamPair pair(1);
        pair.make_some_tables();
        pair.are_iterations = true;
        pair.push_list(3, 2000);  // its keys do not come again
        pair.back_up_all();
        const auto sent = [&] { return pair.bytes_sent_for([&] { pair.push_again(0); }); };
        const size_t in_full = sent();
        CHECK(sent() == in_full);
        CHECK(sent() + 8 * 100 < in_full);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    TEST_CASE("a sum of the same keys that comes again costs its stream no keys") {
        struct Case {
            uint32_t table = 0;
            bool is_part = false;
        };

        for (const Case one : {Case{0}, Case{2}, Case{3}, Case{3, true}}) {
            CAPTURE(one.table);
            CAPTURE(one.is_part);
            StreamPair pair(1);
            pair.make_some_tables();
            for (int i = 0; i < 60; ++i)  // rows in another order than that of keys
                pair.push_something();
            pair.push_list(one.table, 200);
            const std::vector<size_t> all = pair.segments_of_primary();
            pair.name_backup(one.is_part ? std::vector{all[0], all[2]} : all);
            pair.wait_until_all_is_there();
            const auto sent = [&] {
                return pair.bytes_sent_for([&] { pair.close_iteration_of(0); });
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
        pair.back_up_all();
        const auto close = [&](size_t sum) {
            std::vector<uint64_t> keys(kLength);
            for (size_t i = 0; i < kLength; ++i)
                keys[i] = held[sum + 2 * i];  // they are no range
            pair.close_iteration_of(0, std::move(keys));
        };
        const auto sent_for = [&](size_t sum) { return pair.bytes_sent_for([&] { close(sum); }); };
        size_t next = 0;
        for (; next < Streams::kSumsMax - 1; ++next) {
            close(next);
            if (next % 64 == 0) pair.settle(10);
        }
        pair.settle(10);
        const size_t in_full = sent_for(0);
        const size_t known = sent_for(0);
        CHECK(known + 8 * (kLength / 2) < in_full);
        close(next);
        close(next + 1);  // beyond the limit
        pair.settle(10);
        (void)sent_for(1);  // is the first one anew
        CHECK(sent_for(1) == in_full);
        CHECK(sent_for(1) == known);
        CHECK(sent_for(0) == known);
        CHECK(pair.wrong.empty());
        pair.check_equal();
    }

    TEST_CASE("a sum that makes several records may come again and again") {
        StreamPair pair(1);
        pair.chunk_bytes = size_t{256} << 10;
        pair.make_table(dense_table("big", 2'400'000));
        pair.back_up_all();
        std::vector<uint64_t> keys = pair.keys_of_primary(0);
        std::erase_if(keys, [](uint64_t key) { return key % 2 == 0; });  // they are no range
        REQUIRE(keys.size() * (sizeof(uint64_t) + sizeof(float)) > RecordMessage::kCutBytes);
        for (int time = 0; time < 3; ++time) {
            pair.close_iteration_of(0, keys);
            pair.settle();
            REQUIRE(pair.wrong == "");
            pair.check_equal();
        }
    }
}

}  // namespace
}  // namespace weir::test

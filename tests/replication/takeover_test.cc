// SPDX-License-Identifier: Apache-2.0
/// \file
/// What streams carry beside changes: what is taken over while something leaves, tables that are filled.

#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/heap_bytes.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;

TEST_SUITE("takeover") {
    TEST_CASE("a backup that is taken over while something is lost is in sync at once") {
        StreamPair pair(1);
        pair.make_some_tables();
        const std::vector<size_t> named = pair.segments_of_primary();
        pair.name_backup({named[2]});
        pair.name_learner({named[0]});
        pair.wait_until_all_is_there();
        pair.take_over_and_lose(named[1], named[0]);
        pair.is_learner_stopped = true;
        pair.settle();
        CHECK(pair.streams.have_leavers_arrived());
        CHECK(pair.streams.has_in_sync());
        pair.primary.holdings.hand_over();
        pair.streams.apply_view(pair.view_of_primary, 0);
        CHECK(pair.streams.has_in_sync());
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
            pair.wait_until_all_is_there();
            pair.name_learner({named[0]});
            pair.wait_until_all_is_there();
            if (is_filled) {
                pair.streams.table_filled(0);
                CHECK_FALSE(pair.streams.has_filled(0));
                pair.is_learner_stopped = true;
                pair.settle(20);
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
            pair.settle();
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
        pair.wait_until_all_is_there();
        pair.name_learner({named[0]});
        pair.wait_until_all_is_there();
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
}

}  // namespace
}  // namespace weir::test

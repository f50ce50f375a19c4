// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/holdings.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::sparse_table;

TEST_SUITE("holdings") {
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
}

}  // namespace
}  // namespace weir::test

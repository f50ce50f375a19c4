// SPDX-License-Identifier: Apache-2.0
/// \file
/// How much of a table one step of a checkpoint takes.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/checkpoint/disk_queue.h"
#include "lib/server/table_snapshot.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/server/stream_pair.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::dense_table;
using testing::sparse_table;

constexpr uint64_t kStepKeys = 4000;
constexpr size_t kStepBytes = 4096;

/// Into how many steps the only table of a side is cut, whose rows are all read then.
size_t steps_of(Side& side, const PositionSet& positions) {
    const auto disk = std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
    TableSnapshot::Memory memory;
    const auto snapshot = TableSnapshot::begin(*side.tables[0], positions, side.holdings.segments(),
                                               {}, {disk, &memory, "folder", 1, 0});
    REQUIRE(snapshot);
    size_t steps = 0;
    for (; !(*snapshot)->waits_for_disk(); ++steps)
        REQUIRE((*snapshot)->step(kStepBytes));
    return steps;
}

}  // namespace

TEST_SUITE("checkpoint_steps") {
    TEST_CASE("a step takes fewer rows where each of them has to be found") {
        const std::vector<PositionRange> all{{0, ~uint64_t{0}}};
        std::vector<uint64_t> keys(kStepKeys);
        std::iota(keys.begin(), keys.end(), 1);
        Side sparse;
        sparse.holdings.begin(all);
        sparse.make_table(sparse_table("t"));
        REQUIRE(sparse.tables[0]->rows->rows_for_push(keys));
        const size_t rows_max = kStepBytes / kFoundKeyBytes + 1;
        CHECK(steps_of(sparse, sparse.holdings.primary()) >= kStepKeys / rows_max);

        Side dense;
        dense.holdings.begin(all);
        dense.make_table(dense_table("t", kStepKeys));
        const size_t pages = kStepKeys * sizeof(float) / kStepBytes;
        CHECK(steps_of(dense, dense.holdings.primary()) <= 2 * pages + 2);
    }

    TEST_CASE("tables share what may wait for the disk, and one that is given up leaves nothing") {
        const auto disk =
            std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
        Side side;
        side.holdings.begin(std::vector<PositionRange>{{0, ~uint64_t{0}}});
        side.make_table(dense_table("t", kStepKeys));
        TableSnapshot::Memory memory;
        const auto begin = [&] {
            return TableSnapshot::begin(*side.tables[0], side.holdings.primary(),
                                        side.holdings.segments(), {},
                                        {disk, &memory, "folder", 1, 0});
        };
        auto given_up = begin();
        REQUIRE(given_up);
        while (!(*given_up)->waits_for_disk())
            REQUIRE((*given_up)->step(kStepBytes));
        CHECK(memory.waiting_bytes > kStepKeys * sizeof(float));  // nobody runs the disk
        CHECK_FALSE(side.tables[0]->rows->has_snapshot());        // all rows were read
        given_up->reset();
        CHECK(memory.waiting_bytes == 0);

        memory.waiting_bytes = TableSnapshot::kWaitingBytesMax + 1;  // of another table
        const auto waits = begin();
        REQUIRE(waits);
        CHECK((*waits)->waits_for_disk());
        memory.waiting_bytes = 0;
        CHECK_FALSE((*waits)->waits_for_disk());
    }
}

}  // namespace weir::test

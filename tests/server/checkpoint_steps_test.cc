// SPDX-License-Identifier: Apache-2.0
/// \file
/// How much of a table one step of a checkpoint takes, and what is left of one that is given up.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/checkpoint/folder.h"
#include "lib/server/checkpoint/checkpoint_part.h"
#include "lib/server/checkpoint/table_snapshot.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/cluster/stream_pair.h"
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

/// A shard's part in checkpoints of one table, and a disk that works only when it is run.
struct OnePart {
    OnePart() {
        side.holdings.begin(std::vector<PositionRange>{{0, ~uint64_t{0}}});
        side.make_table(dense_table("t", kStepKeys));
    }

    /// Everything but what waits for the disk. Returns what it reports.
    std::vector<CheckpointReport> begin(uint64_t number) {
        part.freeze(number);
        CheckpointOrder order{.step = CheckpointOrder::Step::kTake};
        order.number = number;
        order.folder = "d";
        order.tables = {{0, 0}};
        part.take(order, 0);
        while (part.has_work())
            (void)part.step(kStepBytes, true);
        return part.take_reports();
    }

    size_t run_disk() {
        size_t pieces = 0;
        while (disk->run_one())
            ++pieces;
        return pieces;
    }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<testing::SimDisk> files = std::make_shared<testing::SimDisk>();
    std::shared_ptr<checkpoint::DiskQueue> disk =
        std::make_shared<checkpoint::DiskQueue>(files, clock);
    Side side;
    CheckpointPart part{side.tables, side.holdings, disk};
};

/// It counts files that are open.
class OpenFiles final : public checkpoint::Disk {
public:
    [[nodiscard]] size_t count() const { return static_cast<size_t>(open_.use_count()) - 1; }

    Result<std::unique_ptr<checkpoint::NewFile>> create(const std::string& /*path*/) override {
        return std::unique_ptr<checkpoint::NewFile>(std::make_unique<File>(open_));
    }

    Result<std::vector<std::byte>> read(const std::string& /*path*/, uint64_t /*max*/) override {
        return std::vector<std::byte>();
    }

    Result<uint64_t> size(const std::string& /*path*/) override { return uint64_t{0}; }

    Result<std::vector<std::string>> list(const std::string& /*folder*/) override {
        return std::vector<std::string>();
    }

    Status rename(const std::string& /*from*/, const std::string& /*to*/) override { return {}; }

    Status remove(const std::string& /*path*/) override { return {}; }

    Status sync_folder(const std::string& /*folder*/) override { return {}; }

private:
    class File final : public checkpoint::NewFile {
    public:
        explicit File(std::shared_ptr<int> open) : open_(std::move(open)) {}

        Status write(std::span<const std::byte> /*bytes*/) override { return {}; }

        Status sync() override { return {}; }

    private:
        std::shared_ptr<int> open_;
    };

    std::shared_ptr<int> open_ = std::make_shared<int>();
};

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

    TEST_CASE("a disk that hangs has what is left of one checkpoint, however many are asked for") {
        using Step = CheckpointReport::Step;
        OnePart once;
        CHECK(once.begin(1).size() == 2);  // it stood, and its rows are kept
        once.part.give_up(1);
        OnePart often;
        CHECK(often.begin(1).size() == 2);
        for (uint64_t number = 2; number < 7; ++number) {
            often.clock->advance(checkpoint::DiskQueue::kHangNs);
            often.part.give_up(number - 1);
            const std::vector<CheckpointReport> refused = often.begin(number);
            REQUIRE(refused.size() == 1);
            CHECK(refused[0].step == Step::kFailed);
            CHECK(refused[0].number == number);
            CHECK(refused[0].status == Errc::kDeadline);
            CHECK(refused[0].why.find("what it was given earlier has not moved for ") !=
                  std::string::npos);
            CHECK_FALSE(often.part.is_under_way());
        }
        CHECK(often.run_disk() == once.run_disk());  // it goes on
        CHECK(often.files->list("d")->empty());      // what was given up left memory at once

        CHECK(often.begin(7).size() == 2);
        often.run_disk();
        (void)often.part.step(kStepBytes, true);
        const std::vector<CheckpointReport> saved = often.part.take_reports();
        REQUIRE(saved.size() == 2);
        CHECK(saved[0].step == Step::kChunk);
        CHECK(saved[1].step == Step::kSaved);
        const checkpoint::ChunkEntry& entry = saved[0].chunk;
        const auto bytes = often.files->read("d/" + entry.name, entry.size_bytes);
        REQUIRE(bytes);
        const auto chunk = checkpoint::decode_chunk(entry.name, *bytes);
        REQUIRE(chunk);
        CHECK(chunk->checksum == entry.checksum);
    }

    TEST_CASE("rows that were kept wait for the disk's thread of one checkpoint at a time") {
        const auto disk =
            std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
        Side side;
        side.holdings.begin(std::vector<PositionRange>{{0, ~uint64_t{0}}});
        TableSnapshot::Memory memory;
        for (const char* name : {"a", "b"})
            side.make_table(dense_table(name, kStepKeys));
        const auto begin = [&](size_t table) {
            auto snapshot =
                TableSnapshot::begin(*side.tables[table], side.holdings.primary(),
                                     side.holdings.segments(), {}, {disk, &memory, "folder", 1, 0});
            REQUIRE(snapshot);
            REQUIRE((*snapshot)->step(kStepBytes));
            return std::move(*snapshot);
        };
        for (int round = 0; round < 3; ++round) {
            for (int checkpoint = 0; checkpoint < 5; ++checkpoint) {
                auto of_a = begin(0);
                auto of_b = begin(1);
                CHECK(side.tables[0]->rows->has_snapshot());
                of_a.reset();  // given up, before there is anything to write
                of_b.reset();
                CHECK_FALSE(side.tables[0]->rows->has_snapshot());
                CHECK_FALSE(side.tables[1]->rows->has_snapshot());
            }
            for (size_t table = 0; table < side.tables.size(); ++table)
                CHECK(disk->run_one());
            CHECK_FALSE(disk->run_one());
        }
    }

    TEST_CASE("a disk that is slow is asked again, also for one after another that is given up") {
        OnePart one;
        for (uint64_t number = 1; number < 7; ++number) {
            CHECK(one.begin(number).size() == 2);
            one.clock->advance(checkpoint::DiskQueue::kHangNs - 1);
            REQUIRE(one.disk->run_one());
            one.part.give_up(number);
        }
    }

    TEST_CASE("files of a checkpoint that is given up are closed by the disk's thread") {
        constexpr uint64_t kChunksKeys = checkpoint::Chunk::kBytesWanted / sizeof(float) * 3 / 2;
        const auto files = std::make_shared<OpenFiles>();
        const auto disk = std::make_shared<checkpoint::DiskQueue>(files);
        Side side;
        side.holdings.begin(std::vector<PositionRange>{{0, ~uint64_t{0}}});
        side.make_table(dense_table("t", kChunksKeys));
        TableSnapshot::Memory memory;
        auto snapshot =
            TableSnapshot::begin(*side.tables[0], side.holdings.primary(), side.holdings.segments(),
                                 {}, {disk, &memory, "folder", 1, 0});
        REQUIRE(snapshot);
        while (!disk->run_one())
            REQUIRE((*snapshot)->step(kStepBytes));
        CHECK(files->count() == 1);
        snapshot->reset();
        CHECK(files->count() == 1);
        while (disk->run_one()) {
        }
        CHECK(files->count() == 0);
    }
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/chunk.h"

#include <cstring>

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

const std::string kChunkName = chunk_name(1, 0, 0, 0);

std::vector<std::byte> bytes_of(const TableSchema& table, PositionRange range = {}) {
    SimDisk disk;
    REQUIRE(finish(small_chunk(table, range, 7, kChunkName), disk, "d"));
    return disk.read("d/" + kChunkName, 1 << 20).value();
}

/// With a checksum that fits, as a program that writes wrong chunks would leave it.
std::vector<std::byte> resealed(std::vector<std::byte> bytes) {
    const uint64_t sum = checksum_of(kChunkName, std::span(bytes).first(bytes.size() - 8));
    std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
    return bytes;
}

std::string chunk_refusal(std::span<const std::byte> bytes) {
    const Result<Chunk> chunk = decode_chunk(kChunkName, bytes);
    return chunk ? "" : chunk.error().message();
}

}  // namespace

TEST_SUITE("chunk") {
    TEST_CASE("a chunk has the rows, the state, the times and the iterations that were added") {
        const PositionRange half{0, ~uint64_t{0} / 2};
        const auto dense_bytes = bytes_of(dense_table(), half);
        const Result<Chunk> dense = decode_chunk(kChunkName, dense_bytes);
        REQUIRE(dense);
        CHECK(dense->row_count == 20);
        REQUIRE(dense->rows.size() == 2);
        CHECK(dense->rows[1].range == KeyRange{10, 20});
        CHECK(dense->closed == std::vector<ClosedUpTo>{{half, 7}});
        REQUIRE(dense->clocks.size() == 1);
        CHECK(dense->clocks[0].workers[0].steps[0].time == 12);
        const auto sparse_bytes = bytes_of(sparse_table());
        const Result<Chunk> sparse = decode_chunk(kChunkName, sparse_bytes);
        REQUIRE(sparse);
        CHECK(sparse->row_count == 60);
        CHECK(sparse->rows[0].state.size() == 60 * 8);
        CHECK(rows_are<int64_t>(sparse_keys(), sparse->rows[0].values, 7));
    }

    TEST_CASE("a chunk with any flipped bit, or of any other length, is refused and named") {
        for (const TableSchema& table : {dense_table(6), sparse_table()}) {
            const auto bytes = bytes_of(table);
            REQUIRE(chunk_refusal(bytes).empty());
            for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
                auto flipped = bytes;
                flipped[bit / 8] ^= std::byte(1 << bit % 8);
                const std::string why = chunk_refusal(flipped);
                REQUIRE_MESSAGE(why.starts_with(kChunkName + ": "), "bit ", bit);
            }
            for (size_t size = 0; size < bytes.size(); ++size) {
                REQUIRE_MESSAGE(!chunk_refusal(std::span(bytes).first(size)).empty(), "size ",
                                size);
                // Cut, and with a checksum that fits.
                if (size < 8) continue;
                const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + long(size));
                REQUIRE_MESSAGE(!chunk_refusal(resealed(cut)).empty(), "size ", size);
            }
            auto longer = bytes;
            longer.resize(bytes.size() + 1);
            CHECK_FALSE(chunk_refusal(longer).empty());
        }
    }

    TEST_CASE("a chunk under another name is refused") {
        const auto bytes = bytes_of(dense_table());
        const Result<Chunk> chunk = decode_chunk(chunk_name(1, 0, 0, 1), bytes);
        REQUIRE_FALSE(chunk);
        CHECK(chunk.error().message().find("checksum") != std::string::npos);
    }

    TEST_CASE("a chunk of a newer format says so, whatever else is in it") {
        auto bytes = bytes_of(dense_table());
        bytes[8] = std::byte{3};
        const Result<Chunk> chunk = decode_chunk(kChunkName, bytes);
        REQUIRE(chunk.code() == Errc::kUnavailable);
        CHECK(chunk.error().message().find("version 3") != std::string::npos);
    }

    TEST_CASE("a chunk of the version before is read, and does not say what a push was") {
        for (const TableSchema& table : {dense_table(), sparse_table()}) {
            const auto written = bytes_of(table);
            const Result<Chunk> now = decode_chunk(kChunkName, written);
            REQUIRE(now);
            auto bytes = written;
            bytes[8] = std::byte{1};                   // version
            bytes[18] = std::byte{0};                  // where the type of a push is now
            bytes[24] = std::byte{uint8_t(table.id)};  // values of state for each value
            bytes[28] = std::byte{0};                  // where its values are now
            bytes = resealed(bytes);
            const Result<Chunk> before = decode_chunk(kChunkName, bytes);
            REQUIRE(before);
            CHECK(before->place.rows.holds_the_same(now->place.rows));
            CHECK(before->place.rows.pushed_values == 0);
            CHECK(before->row_count == now->row_count);
            CHECK(std::ranges::equal(before->rows[0].state, now->rows[0].state));
        }
    }

    TEST_CASE("what is wrong in spite of a right checksum is refused") {
        const auto bytes = bytes_of(dense_table());
        const auto with = [&](size_t at, uint8_t value) {
            auto changed = bytes;
            changed[at] = std::byte{value};
            return chunk_refusal(resealed(changed));
        };
        CHECK(with(12, 5).empty());         // another table: the manifest knows better
        CHECK_FALSE(with(16, 1).empty());   // sparse, with a range of keys
        CHECK_FALSE(with(17, 9).empty());   // no value type
        CHECK_FALSE(with(20, 3).empty());   // width
        CHECK_FALSE(with(18, 9).empty());   // no type of a push
        CHECK_FALSE(with(24, 1).empty());   // state
        CHECK_FALSE(with(28, 0).empty());   // nothing pushed
        CHECK_FALSE(with(32, 41).empty());  // one more key
        CHECK_FALSE(with(56, 2).empty());   // a list instead of a range
        CHECK_FALSE(with(56, 77).empty());  // an unknown block
        CHECK_FALSE(with(72, 1).empty());   // another first key
        CHECK_FALSE(with(bytes.size() - 24, 41).empty());  // rows in the end block
        // A dense chunk whose rows are not all there.
        ChunkPlace place = place_in(dense_table(), rows_of(dense_table()));
        ChunkWriter writer(place, kChunkName);
        (void)writer.add(KeyRange{0, 39});
        SimDisk disk;
        REQUIRE(finish(std::move(writer), disk, "d"));
        CHECK(
            chunk_refusal(disk.read("d/" + kChunkName, 1 << 20).value()).find("rows are missing") !=
            std::string::npos);
        // A sparse one with a key that lies elsewhere.
        place = place_in(sparse_table(), rows_of(sparse_table()));
        place.range = {0, 99};
        ChunkWriter sparse(place, kChunkName + "2");
        (void)sparse.add(std::vector<uint64_t>{1});
        REQUIRE(finish(std::move(sparse), disk, "d"));
        const auto stray = disk.read("d/" + kChunkName + "2", 1 << 20).value();
        CHECK(decode_chunk(kChunkName + "2", stray).error().message().find("outside") !=
              std::string::npos);
    }
}

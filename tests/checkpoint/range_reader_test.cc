// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/range_reader.h"

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

/// What a reader of the whole table says in the end.
Status read_all(SimDisk& disk, const Manifest& manifest, uint32_t table, const RowLayout& rows) {
    RangeReader reader(disk, "d", manifest, manifest.tables[table], rows,
                       PositionSet::whole_ring());
    RangeReader::Part part;
    for (;;) {
        WEIR_ASSIGN(const bool more, reader.next(part));
        if (!more) return {};
    }
}

}  // namespace

TEST_SUITE("range reader") {
    TEST_CASE("what n shards have written, m shards read, each row once") {
        for (const uint64_t writers : {1, 2, 3, 5, 16}) {
            SimDisk disk;
            REQUIRE(write_small(disk, "d", 1, 8, writers, 101));
            for (const uint64_t readers : {1, 2, 3, 4, 7, 40}) {
                const std::string wrong = check_small(disk, "d", 1, 8, readers);
                CHECK_MESSAGE(wrong.empty(), wrong, " (", writers, " to ", readers, ")");
            }
        }
    }

    TEST_CASE("positions in several ranges are read, and no others") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 3, 3));
        const Manifest manifest = read_manifest(disk, "d", 1).value();
        const auto eighths = cut_ring(8);
        const std::vector<PositionRange> some = {eighths[1], eighths[4], eighths[7]};
        const PositionSet positions{std::span(some)};
        std::vector<uint64_t> keys;
        RangeReader dense(disk, "d", manifest, manifest.tables[0], rows_of(manifest.tables[0]),
                          positions);
        RangeReader::Part part;
        while (*dense.next(part)) {
            for (uint64_t key = part.range.begin; key < part.range.end; ++key)
                keys.push_back(key);
        }
        std::vector<uint64_t> expected;
        for (uint64_t key = 0; key < 40; ++key) {
            if (positions.contains(PositionMap::dense(40).position(key))) expected.push_back(key);
        }
        CHECK(keys == expected);
        size_t count = 0;
        RangeReader sparse(disk, "d", manifest, manifest.tables[1], rows_of(manifest.tables[1]),
                           positions);
        while (*sparse.next(part)) {
            for (const uint64_t key : part.keys)
                CHECK(positions.contains(mix64(key)));
            CHECK(rows_are<int64_t>(part.keys, part.values, 3));
            CHECK(rows_are<int64_t>(part.keys, part.state, 4));
            count += part.keys.size();
        }
        CHECK(count == static_cast<size_t>(std::ranges::count_if(sparse_keys(), [&](uint64_t key) {
                  return positions.contains(mix64(key));
              })));
    }

    TEST_CASE("a chunk that is damaged, missing, or not the one that is named is refused") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 3, 2));
        REQUIRE(write_small(disk, "e", 1, 4, 2));  // another job's, with the same names
        const Manifest manifest = read_manifest(disk, "d", 1).value();
        REQUIRE(read_all(disk, manifest, 0, rows_of(manifest.tables[0])));
        const std::string path = "d/" + manifest.chunks[0].name;
        const auto good = disk.read(path, 1 << 20).value();

        auto flipped = good;
        flipped[70] ^= std::byte{4};
        disk.damage(path, flipped);
        const Status damaged = read_all(disk, manifest, 0, rows_of(manifest.tables[0]));
        REQUIRE(damaged.code() == Errc::kParse);
        CHECK(damaged.error().message().find(manifest.chunks[0].name) != std::string::npos);

        disk.damage(path, disk.read("e/" + manifest.chunks[0].name, 1 << 20).value());
        CHECK(read_all(disk, manifest, 0, rows_of(manifest.tables[0]))
                  .error()
                  .message()
                  .find("not the one") != std::string::npos);

        disk.damage(path, {good.begin(), good.end() - 1});
        CHECK(read_all(disk, manifest, 0, rows_of(manifest.tables[0]))
                  .error()
                  .message()
                  .find("bytes instead of") != std::string::npos);

        REQUIRE(disk.remove(path));
        CHECK(read_all(disk, manifest, 0, rows_of(manifest.tables[0])).code() == Errc::kNotFound);
        disk.damage(path, good);
        CHECK(read_all(disk, manifest, 0, rows_of(manifest.tables[0])));
    }

    TEST_CASE("a rule that keeps another state is refused") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 3, 2));
        const Manifest manifest = read_manifest(disk, "d", 1).value();
        RowLayout rows = rows_of(manifest.tables[1]);
        rows.state_bytes *= 2;
        const Status other = read_all(disk, manifest, 1, rows);
        REQUIRE(other.code() == Errc::kTypeMismatch);
        CHECK(other.error().message().find("adagrad") != std::string::npos);
        rows = rows_of(manifest.tables[1]);
        rows.pushed_values *= 2;
        CHECK(read_all(disk, manifest, 1, rows).code() == Errc::kTypeMismatch);
    }
}

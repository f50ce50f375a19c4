// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/folder.h"

#include <algorithm>
#include <cerrno>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"
#include "tests/seed.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

std::string as_text(const Result<std::vector<uint64_t>>& numbers) {
    std::string text;
    for (const uint64_t number : numbers.value())
        text += std::to_string(number) + " ";
    return text;
}

}  // namespace

TEST_SUITE("checkpoint folder") {
    TEST_CASE("the newest checkpoint is found, and the next one gets a number of its own") {
        SimDisk disk;
        CHECK(latest(disk, "d").code() == Errc::kNotFound);
        CHECK(*next_number(disk, "d") == 1);
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        REQUIRE(write_small(disk, "d", 12, 2, 3));
        CHECK(*latest(disk, "d") == 12);
        REQUIRE(write_file(disk, "d", chunk_name(13, 0, 0, 0), {}));  // of one that was interrupted
        REQUIRE(write_file(disk, "d", "notes.txt", {}));
        CHECK(*latest(disk, "d") == 12);
        CHECK(*next_number(disk, "d") == 14);
        CHECK(as_text(list_checkpoints(disk, "d")) == "1 12 ");
        CHECK(write_small(disk, "d", 12, 2, 3).code() == Errc::kAlreadyExists);
    }

    TEST_CASE("a crash at any step of a checkpoint leaves the one before, or the new one") {
        WEIR_TEST_SEED(seed, 14);
        SimDisk steps;
        REQUIRE(write_small(steps, "d", 1, 1, 2));
        const uint64_t step_count = steps.steps();
        CHECK(step_count == 4 * 3 + 1 + 6);
        uint64_t new_count = 0;
        uint64_t old_count = 0;
        for (uint64_t step = 1; step <= step_count; ++step) {
            for (uint64_t i = 0; i < 40; ++i) {
                SimDisk disk;
                REQUIRE(write_small(disk, "d", 1, 1, 2));
                disk.fail_at(step);
                CHECK_FALSE(write_small(disk, "d", 2, 2, 2));
                disk.crash(seed + step * 1000 + i);
                const uint64_t number = latest(disk, "d").value();
                ++(number == 2 ? new_count : old_count);
                const std::string wrong = check_small(disk, "d", number, number, 3);
                REQUIRE_MESSAGE(wrong.empty(), wrong, " (step ", step, ", try ", i, ")");
                // The next one is written beside what is left, and then that can go.
                const uint64_t next = next_number(disk, "d").value();
                REQUIRE(write_small(disk, "d", next, next, 1));
                REQUIRE(prune(disk, "d", {.newest = 1}, PruneCheck::kBytes));
                CHECK(disk.list("d")->size() == 3);
                REQUIRE(check_small(disk, "d", next, next, 2).empty());
            }
        }
        CHECK(new_count > 0);
        CHECK(old_count > new_count);
    }

    TEST_CASE("a finished checkpoint survives a crash") {
        for (uint64_t seed = 0; seed < 200; ++seed) {
            SimDisk disk;
            REQUIRE(write_small(disk, "d", 1, 1, 2));
            disk.crash(seed);
            REQUIRE(check_small(disk, "d", 1, 1, 1).empty());
        }
    }

    TEST_CASE("a full disk is an error, and what was written of the file is removed") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        const size_t files = disk.list("d")->size();
        disk.fill();
        const Status full = write_small(disk, "d", 2, 2, 2);
        REQUIRE_FALSE(full);
        CHECK(full.error().os_error() == ENOSPC);
        CHECK(disk.list("d")->size() == files);
        disk.empty_out();
        CHECK(write_small(disk, "d", 2, 2, 2));
    }

    TEST_CASE("pruning keeps the newest, and chunks that they share with older ones") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 4));
        REQUIRE(write_small(disk, "d", 2, 2, 4));
        // The third one has a dense table as the second, which did not change, and new counts.
        REQUIRE(write_increment(disk, "d", 3, 2, 2));
        const Manifest third = read_manifest(disk, "d", 3).value();
        CHECK(writer_of(third.chunks_of(0)[0].name) == 2);
        CHECK(writer_of(third.chunks_of(1)[0].name) == 3);
        CHECK(third.new_bytes() > 0);
        CHECK(third.new_bytes() < third.bytes());
        CHECK(read_manifest(disk, "d", 2)->new_bytes() == read_manifest(disk, "d", 2)->bytes());
        REQUIRE(write_file(disk, "d", chunk_name(4, 0, 0, 0), {}));  // one that is being written
        REQUIRE(write_file(disk, "d", chunk_name(2, 0, 0, 9), {}));  // one that was interrupted
        REQUIRE(write_file(disk, "d", "notes.txt", {}));
        const Pruned pruned = prune(disk, "d", {.newest = 1}, PruneCheck::kBytes).value();
        CHECK(pruned.checkpoints == std::vector<uint64_t>{1, 2});
        CHECK(pruned.chunk_count == 8 + 4 + 1);
        CHECK(disk.list("d")->size() == 1 + 4 + 4 + 2);
        CHECK(check_small(disk, "d", 3, 2, 3).empty());
        CHECK(prune(disk, "d", {.newest = 0}, PruneCheck::kBytes)->checkpoints.empty());
        CHECK(check_small(disk, "d", 3, 2, 3).empty());
    }

    TEST_CASE(
        "a crash while chunks are named again, or their checkpoint is pruned, harms no other") {
        WEIR_TEST_SEED(seed, 16);
        for (uint64_t step = 1; step <= 40; ++step) {
            for (uint64_t i = 0; i < 20; ++i) {
                SimDisk disk;
                REQUIRE(write_small(disk, "d", 1, 1, 2));
                REQUIRE(write_small(disk, "d", 2, 2, 2));
                disk.fail_at(step);
                if (write_increment(disk, "d", 3, 2, 2))
                    (void)prune(disk, "d", {.newest = 1}, PruneCheck::kBytes);
                disk.crash(seed + step * 100 + i);
                const auto numbers = list_checkpoints(disk, "d").value();
                REQUIRE(numbers.back() >= 2);
                for (const uint64_t number : numbers) {
                    const std::string wrong =
                        check_small(disk, "d", number, std::min<uint64_t>(number, 2), 2);
                    REQUIRE_MESSAGE(wrong.empty(), wrong, " (step ", step, ", try ", i, ")");
                }
            }
        }
    }

    TEST_CASE("a chunk that somebody has removed or cut is missed before it is named again") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        const std::string name = read_manifest(disk, "d", 1)->chunks_of(0)[1].name;
        auto bytes = disk.read("d/" + name, 1 << 20).value();
        bytes.pop_back();
        disk.damage("d/" + name, bytes);
        const Status cut = write_increment(disk, "d", 2, 1, 1);
        REQUIRE(cut.code() == Errc::kParse);
        CHECK(cut.error().text().find(name) != std::string::npos);
        REQUIRE(disk.remove("d/" + name));
        const Status missed = write_increment(disk, "d", 3, 1, 1);
        REQUIRE(missed.code() == Errc::kNotFound);
        CHECK(missed.error().text().find(name) != std::string::npos);
        CHECK(*latest(disk, "d") == 1);
    }

    TEST_CASE("what is left of failed checkpoints goes, of some numbers, and no complete one") {
        SimDisk disk;
        REQUIRE(write_file(disk, "d", chunk_name(1, 0, 0, 0), {}));
        CHECK(*remove_unfinished(disk, "d") == 1);  // also where none is complete
        CHECK(disk.list("d")->empty());
        REQUIRE(write_small(disk, "d", 2, 1, 2));
        const size_t whole_count = disk.list("d")->size();
        for (uint64_t number = 3; number <= 5; ++number)
            REQUIRE(write_file(disk, "d", chunk_name(number, 0, 0, 0), {}));
        REQUIRE(write_file(disk, "d", manifest_name(3) + std::string(kPartSuffix), {}));
        REQUIRE(write_file(disk, "d", "notes.txt", {}));
        const std::vector<uint64_t> spared = {4};
        CHECK(*remove_unfinished(disk, "d", {.lowest = 4, .highest = 4, .spared = spared}) == 0);
        CHECK(*remove_unfinished(disk, "d", {.highest = 4, .spared = spared}) == 2);
        CHECK(disk.list("d")->size() == whole_count + 3);
        CHECK(*remove_unfinished(disk, "d", {.lowest = 5}) == 1);
        CHECK(list_unfinished(disk, "d")->size() == 1);
        CHECK(*remove_unfinished(disk, "d") == 1);
        CHECK(disk.list("d")->size() == whole_count + 1);
        CHECK(check_small(disk, "d", 2, 1, 2).empty());
    }

    TEST_CASE("a chunk that a complete checkpoint names stays, though its number is higher") {
        SimDisk disk;
        REQUIRE(write_small(disk, "other", 9, 1, 2));
        Manifest copied = read_manifest(disk, "other", 9).value();
        for (const ChunkEntry& chunk : copied.chunks) {
            const auto bytes = disk.read("other/" + chunk.name, 1 << 20).value();
            REQUIRE(write_file(disk, "d", chunk.name, bytes));
        }
        copied.number = 2;
        REQUIRE(write_manifest(disk, "d", copied));
        REQUIRE(write_file(disk, "d", chunk_name(9, 0, 0, 7), {}));
        CHECK(*remove_unfinished(disk, "d") == 1);
        CHECK(disk.list("d")->size() == copied.chunks.size() + 1);
        CHECK(check_small(disk, "d", 2, 1, 2).empty());
    }

    TEST_CASE("nothing is pruned if a checkpoint that stays cannot be read") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        REQUIRE(write_small(disk, "d", 2, 2, 2));
        auto bytes = disk.read("d/" + manifest_name(2), 1 << 20).value();
        bytes[40] ^= std::byte{1};
        disk.damage("d/" + manifest_name(2), bytes);
        const size_t files = disk.list("d")->size();
        const auto pruned = prune(disk, "d", {.newest = 1}, PruneCheck::kBytes);
        CHECK(pruned.code() == Errc::kParse);
        CHECK(pruned.error().text().find("nothing was removed") != std::string::npos);
        CHECK(pruned.error().text().find("remove d/000002.manifest, and prune again") !=
              std::string::npos);
        CHECK(disk.list("d")->size() == files);
        CHECK(check_small(disk, "d", 1, 1, 1).empty());
        // What the text says to do.
        REQUIRE(disk.remove("d/" + manifest_name(2)));
        CHECK(prune(disk, "d", {.newest = 1}, PruneCheck::kBytes)->checkpoints.empty());
        CHECK(check_small(disk, "d", 1, 1, 1).empty());
        // One that does not stay need not be read.
        disk.damage("d/" + manifest_name(1), {});
        REQUIRE(write_small(disk, "d", 3, 3, 2));
        CHECK(prune(disk, "d", {.newest = 1}, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{1});
        CHECK(check_small(disk, "d", 3, 3, 1).empty());
    }

    TEST_CASE("nothing is pruned if a checkpoint that stays lacks a chunk") {
        for (const uint64_t damaged : {2, 3}) {
            for (const bool is_cut : {false, true}) {
                SimDisk disk;
                for (uint64_t number = 1; number <= 3; ++number)
                    REQUIRE(write_small(disk, "d", number, number, 2));
                const std::string path = "d/" + read_manifest(disk, "d", damaged)->chunks[1].name;
                auto bytes = disk.read(path, 1 << 20).value();
                bytes.pop_back();
                REQUIRE(disk.remove(path));
                if (is_cut) disk.damage(path, bytes);
                const size_t files = disk.list("d")->size();
                for (const PruneCheck check : {PruneCheck::kSizes, PruneCheck::kBytes}) {
                    const auto pruned = prune(disk, "d", {.newest = 2}, check);
                    REQUIRE_FALSE(pruned);
                    CHECK(pruned.error().text().find(path) != std::string::npos);
                    CHECK(pruned.error().text().find(fmt::format("remove d/{}, and prune again",
                                                                 manifest_name(damaged))) !=
                          std::string::npos);
                }
                CHECK(disk.list("d")->size() == files);
                // What the text says to do.
                REQUIRE(disk.remove("d/" + manifest_name(damaged)));
                CHECK(prune(disk, "d", {.newest = 2}, PruneCheck::kBytes)->checkpoints.empty());
                CHECK(check_small(disk, "d", 1, 1, 1).empty());
            }
        }
    }

    TEST_CASE("every byte of the newest checkpoint is read before others are removed") {
        SimDisk disk;
        for (uint64_t number = 1; number <= 3; ++number)
            REQUIRE(write_small(disk, "d", number, number, 2));
        const std::string path = "d/" + read_manifest(disk, "d", 3)->chunks.back().name;
        auto bytes = disk.read(path, 1 << 20).value();
        bytes[bytes.size() / 2] ^= std::byte{16};
        disk.damage(path, bytes);
        const size_t files = disk.list("d")->size();
        const auto pruned = prune(disk, "d", {.newest = 1}, PruneCheck::kBytes);
        REQUIRE(pruned.code() == Errc::kParse);
        CHECK(pruned.error().text().find(path) != std::string::npos);
        CHECK(disk.list("d")->size() == files);
        // One that was just written is not read again.
        CHECK(prune(disk, "d", {.newest = 2}, PruneCheck::kSizes)->checkpoints ==
              std::vector<uint64_t>{1});
    }

    TEST_CASE("one that is needed stays, with its chunks, however old it is") {
        SimDisk disk;
        for (uint64_t number = 1; number <= 4; ++number)
            REQUIRE(write_small(disk, "d", number, number, 2));
        CHECK(prune(disk, "d", {.newest = 2, .needed = 1}, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{2});
        CHECK(check_small(disk, "d", 1, 1, 1).empty());
        CHECK(prune(disk, "d", {.newest = 2, .needed = 4}, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{1});
        CHECK(prune(disk, "d", {.newest = 1, .needed = 1}, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{3});
        CHECK(check_small(disk, "d", 4, 4, 1).empty());
    }

    TEST_CASE("those of others stay, whole or not, and are not counted") {
        SimDisk disk;
        for (uint64_t number = 1; number <= 5; ++number)
            REQUIRE(write_small(disk, "d", number, number, 2));
        REQUIRE(disk.remove("d/" + read_manifest(disk, "d", 2)->chunks.front().name));
        const Keep keep{.newest = 1, .before = 3};
        CHECK(prune(disk, "d", keep, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{3, 4});
        CHECK(list_checkpoints(disk, "d").value() == std::vector<uint64_t>{1, 2, 5});
        CHECK(check_small(disk, "d", 1, 1, 2).empty());
        CHECK(check_small(disk, "d", 5, 5, 2).empty());
    }

    TEST_CASE("those of others between stay, with all that they name, and are not counted") {
        SimDisk disk;
        for (uint64_t number = 1; number <= 6; ++number)
            REQUIRE(write_small(disk, "d", number, number, 2));
        const Keep keep{.newest = 2, .others = {3, 4}};
        CHECK(prune(disk, "d", keep, PruneCheck::kBytes)->checkpoints ==
              std::vector<uint64_t>{1, 2});
        CHECK(list_checkpoints(disk, "d").value() == std::vector<uint64_t>{3, 4, 5, 6});
        for (uint64_t number = 3; number <= 6; ++number)
            CHECK(check_small(disk, "d", number, number, 2).empty());
    }

    TEST_CASE("a crash while old ones are pruned leaves whole checkpoints") {
        WEIR_TEST_SEED(seed, 15);
        for (uint64_t step = 1; step <= 12; ++step) {
            for (uint64_t i = 0; i < 20; ++i) {
                SimDisk disk;
                for (uint64_t number = 1; number <= 3; ++number)
                    REQUIRE(write_small(disk, "d", number, number, 2));
                disk.fail_at(step);
                (void)prune(disk, "d", {.newest = 1}, PruneCheck::kBytes);
                disk.crash(seed + step * 100 + i);
                const auto numbers = list_checkpoints(disk, "d").value();
                REQUIRE(numbers.back() == 3);
                for (const uint64_t number : numbers)
                    REQUIRE(check_small(disk, "d", number, number, 2).empty());
            }
        }
    }
}

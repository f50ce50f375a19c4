// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/choose.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/checkpoint/folder.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

bool has_text(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

template <class T>
bool has_text(const Result<T>& result, std::string_view part) {
    return !result && has_text(result.error().text(), part);
}

void flip(SimDisk& disk, const std::string& path, size_t at, std::byte bits) {
    auto bytes = disk.read(path, 1 << 20).value();
    bytes[at] ^= bits;
    disk.damage(path, bytes);
}

void cut(SimDisk& disk, const std::string& path) {
    auto bytes = disk.read(path, 1 << 20).value();
    bytes.pop_back();
    disk.damage(path, bytes);
}

std::string chunk_path(SimDisk& disk, uint64_t number, size_t i) {
    return "d/" + read_manifest(disk, "d", number)->chunks[i].name;
}

Result<Chosen> newest_whole(SimDisk& disk) {
    const ManualClock clock;
    return choose_newest_whole(disk, "d", {clock, clock.now_ns() + 1});
}

/// Ways in which checkpoint 4 may be damaged.
struct Damage {
    void (*make)(SimDisk&);
    Errc code;
    std::string_view text;
};

const Damage kDamages[] = {
    {[](SimDisk& disk) { flip(disk, "d/000004.manifest", 40, std::byte{1}); }, Errc::kParse,
     "d/000004.manifest: the manifest is damaged"},
    {[](SimDisk& disk) { cut(disk, "d/000004.manifest"); }, Errc::kParse, "d/000004.manifest"},
    {[](SimDisk& disk) { REQUIRE(disk.remove(chunk_path(disk, 4, 2))); }, Errc::kNotFound,
     ".chunk: the file of a chunk of checkpoint 4 is gone"},
    {[](SimDisk& disk) { cut(disk, chunk_path(disk, 4, 3)); }, Errc::kParse,
     ".chunk: the chunk has "},
};

}  // namespace

TEST_SUITE("choose") {
    TEST_CASE("the newest checkpoint is chosen, or that of a number") {
        SimDisk disk;
        CHECK(choose_checkpoint(disk, "d", 0).code() == Errc::kNotFound);
        CHECK(newest_whole(disk).code() == Errc::kNotFound);
        for (const uint64_t number : {1, 3, 4})
            REQUIRE(write_small(disk, "d", number, number, 2));
        CHECK(choose_checkpoint(disk, "d", 0)->number == 4);
        CHECK(choose_checkpoint(disk, "d", 3)->number == 3);
        CHECK(newest_whole(disk)->manifest.number == 4);
        CHECK(newest_whole(disk)->left_out.empty());
        const auto wrong = choose_checkpoint(disk, "d", 2);
        CHECK(wrong.code() == Errc::kNotFound);
        CHECK(has_text(wrong, "d: there is no checkpoint 2; choose one that is there: 1, 3 and 4"));
        for (uint64_t number = 5; number <= 13; ++number)
            REQUIRE(write_small(disk, "d", number, number, 1));
        CHECK(has_text(choose_checkpoint(disk, "d", 2),
                       "there: ..., 4, 5, 6, 7, 8, 9, 10, 11, 12 and 13"));
    }

    TEST_CASE("a damaged newest one is left out only by who asks for a whole one") {
        for (const Damage& damage : kDamages) {
            CAPTURE(damage.text);
            SimDisk disk;
            for (const uint64_t number : {1, 3, 4})
                REQUIRE(write_small(disk, "d", number, number, 2));
            damage.make(disk);
            const auto newest = choose_checkpoint(disk, "d", 0);
            CHECK(newest.code() == damage.code);
            CHECK(has_text(newest, damage.text));
            CHECK(has_text(newest, "; `resume` d `resume_number` 3"));
            CHECK(choose_checkpoint(disk, "d", 4).code() == damage.code);
            CHECK(choose_checkpoint(disk, "d", 3)->number == 3);
            const auto whole = newest_whole(disk);
            REQUIRE(whole);
            CHECK(whole->manifest.number == 3);
            REQUIRE(whole->left_out.size() == 1);
            CHECK(whole->left_out[0].number == 4);
            CHECK(has_text(whole->left_out[0].why.text(), damage.text));
        }
    }

    TEST_CASE("whoever asks for a whole one gets none with damaged bytes") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        REQUIRE(write_small(disk, "d", 2, 2, 2));
        REQUIRE(write_increment(disk, "d", 3, 2, 3));
        CHECK(newest_whole(disk)->unread_count == 0);
        // Chunk 0 is in checkpoint 2, too.
        for (const size_t i : {3, 0}) {
            const std::string path = chunk_path(disk, 3, i);
            flip(disk, path, 70, std::byte{4});
            CHECK(choose_checkpoint(disk, "d", 0)->number == 3);
            const auto whole = newest_whole(disk);
            REQUIRE(whole);
            CHECK(whole->manifest.number == (i == 3 ? 2 : 1));
            REQUIRE(!whole->left_out.empty());
            CHECK(whole->left_out[0].number == 3);
            CHECK(has_text(whole->left_out[0].why.text(), path + ": the chunk is damaged"));
            CHECK(whole->unread_count == 0);
            if (i == 3) flip(disk, path, 70, std::byte{4});
        }
        flip(disk, chunk_path(disk, 1, 2), 70, std::byte{4});
        CHECK(has_text(newest_whole(disk), "no other checkpoint of the folder"));
        flip(disk, chunk_path(disk, 3, 0), 8, std::byte{2});
        CHECK(newest_whole(disk).code() == Errc::kUnavailable);
    }

    TEST_CASE("bytes that there is no time to read are counted, and harm nobody") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        REQUIRE(write_small(disk, "d", 2, 2, 2));
        flip(disk, chunk_path(disk, 2, 3), 70, std::byte{4});
        const ManualClock clock;
        const auto whole = choose_newest_whole(disk, "d", {clock, clock.now_ns()});
        REQUIRE(whole);
        CHECK(whole->manifest.number == 2);
        CHECK(whole->unread_count == 4);
    }

    TEST_CASE("if none is whole, the newest one says why") {
        for (const Damage& damage : kDamages) {
            SimDisk disk;
            REQUIRE(write_small(disk, "d", 2, 2, 2));
            REQUIRE(write_small(disk, "d", 4, 4, 2));
            damage.make(disk);
            REQUIRE(disk.remove(chunk_path(disk, 2, 0)));
            const auto whole = newest_whole(disk);
            CHECK(whole.code() == damage.code);
            CHECK(has_text(whole, damage.text));
            CHECK(has_text(whole, "no other checkpoint of the folder has all its files"));
            CHECK(has_text(choose_checkpoint(disk, "d", 0),
                           "no other checkpoint of the folder has all its files"));
        }
    }

    TEST_CASE("one of another version of Weir is never left out") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 3, 3, 2));
        REQUIRE(write_small(disk, "d", 4, 4, 2));
        flip(disk, "d/000004.manifest", 8, std::byte{2});
        const auto whole = newest_whole(disk);
        CHECK(whole.code() == Errc::kUnavailable);
        CHECK(has_text(whole, "use the version of Weir that wrote it"));
        CHECK(has_text(whole, "`resume_number` 3"));
    }

    TEST_CASE("the other one that is named does not need the file that is damaged") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 2));
        REQUIRE(write_small(disk, "d", 2, 2, 2));
        REQUIRE(write_increment(disk, "d", 3, 2, 3));
        const Manifest third = read_manifest(disk, "d", 3).value();
        CHECK(has_text(other_choice(disk, "d", 3), "`resume_number` 2 "));
        CHECK(
            has_text(other_choice(disk, "d", 3, third.chunks_of(1)[0].name), "`resume_number` 2 "));
        CHECK(
            has_text(other_choice(disk, "d", 3, third.chunks_of(0)[0].name), "`resume_number` 1 "));
        REQUIRE(disk.remove("d/000001.manifest"));
        CHECK(has_text(other_choice(disk, "d", 3, third.chunks_of(0)[0].name),
                       "has all its files and does not need this one"));
    }

    TEST_CASE("of many files the first that is missing is named") {
        SimDisk disk;
        REQUIRE(write_small(disk, "d", 1, 1, 700));
        const Manifest manifest = read_manifest(disk, "d", 1).value();
        REQUIRE(manifest.chunks.size() == 1400);
        CHECK(*open_checkpoint(disk, "d", 1) == manifest);
        for (const size_t i : {1399U, 900U, 299U, 0U}) {
            cut(disk, "d/" + manifest.chunks[i].name);
            CHECK(has_text(open_checkpoint(disk, "d", 1), manifest.chunks[i].name));
        }
    }
}

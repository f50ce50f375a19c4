// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a replica has stored is there after a crash, in memory not at all; a journal that was cut off is
/// read up to there, and one that is damaged is refused by name.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/consensus/disk_storage.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using namespace consensus;

constexpr uint64_t kGroup = 77;

Entry command(uint64_t term, size_t size = 5) {
    return {term, EntryKind::kCommand, std::vector<std::byte>(size, std::byte{0xab})};
}

std::unique_ptr<DiskStorage> open_on(SimDisk& disk) {
    auto opened = DiskStorage::open(disk, "log", kGroup, 1);
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().text()));
    return *std::move(opened);
}

std::string journal_on(SimDisk& disk) {
    const std::vector<std::string> names = disk.list("log").value();
    REQUIRE(names.size() == 1);
    return "log/" + names[0];
}

/// Stores one thing. What it stores depends on the seed and on what is there.
Status store_something(LogStorage& storage, Random& random) {
    const LogState& state = storage.state();
    const uint64_t term = state.promise.term + 1;
    switch (random.below(8)) {
        case 0: return storage.promise({term, 0});
        case 1: return storage.promise({state.promise.term, random.below(4)});
        case 2: return state.entries.size() < 2 ? Status() : storage.truncate(state.last());
        case 3:
            if (state.entries.empty()) return {};
            return storage.put_snapshot({state.last(), state.term_of(state.last()),
                                         std::vector<std::byte>(random.below(100))},
                                        random.below(4));
        case 4: return storage.put_snapshot({state.last() + 5, term, std::vector<std::byte>(9)}, 0);
        default: {
            std::vector<Entry> entries;
            for (uint64_t count = 1 + random.below(3); count > 0; --count)
                entries.push_back(command(term, random.below(50)));
            return storage.append(std::move(entries));
        }
    }
}

}  // namespace

TEST_SUITE("storage") {
    TEST_CASE("a new one takes the place of what another replica has left, once its own is there") {
        for (uint64_t step = 1; step < 12; ++step) {
            CAPTURE(step);
            SimDisk disk;
            {
                auto before = DiskStorage::create(disk, "log", kGroup + 1, 9).value();
                REQUIRE(before->promise({3, 9}));
                REQUIRE(before->append({command(3)}));
            }
            disk.fail_at(step);
            const auto failed = DiskStorage::create(disk, "log", kGroup, 1);
            if (failed) break;
            disk.heal();
            disk.crash(step);
            REQUIRE(disk.list("log").value().size() >= 1);
            const auto storage = DiskStorage::create(disk, "log", kGroup, 1).value();
            CHECK(storage->state().is_new());
            (void)journal_on(disk);
            REQUIRE(storage->promise({1, 0}));
            CHECK(open_on(disk)->state().promise.term == 1);
        }
    }

    TEST_CASE("what was stored is there again, in one journal") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        SimDisk disk;
        MemoryStorage model;
        for (int life = 0; life < 50; ++life) {
            const auto storage = open_on(disk);
            REQUIRE(storage->state() == model.state());
            for (int i = 0; i < 20; ++i) {
                Random same = random;
                REQUIRE(store_something(*storage, random));
                REQUIRE(store_something(model, same));
                REQUIRE(storage->state() == model.state());
            }
            (void)journal_on(disk);
            disk.crash(seed + static_cast<uint64_t>(life));
        }
    }

    TEST_CASE("after a crash at any step there is what was there before it, or after") {
        WEIR_TEST_SEED(seed, 1);
        for (uint64_t step = 1; step < 300; ++step) {
            Random random(seed);
            SimDisk disk;
            LogState before;
            LogState after;
            disk.fail_at(step);
            auto opened = DiskStorage::open(disk, "log", kGroup, 1);
            Status status = opened ? Status() : Status(opened.error());
            for (int i = 0; status && i < 60; ++i) {
                before = (*opened)->state();
                status = store_something(**opened, random);
                after = (*opened)->state();
            }
            if (!status) {
                CHECK(status.code() == Errc::kIo);
                if (opened) CHECK_FALSE((*opened)->promise({99, 0}));
            } else {
                before = after;
            }
            disk.crash(seed + step);
            const LogState found = open_on(disk)->state();
            // A batch of entries may be there in part.
            const bool is_part = found.first == before.first && found.last() >= before.last() &&
                                 found.last() <= after.last() && found.promise == before.promise;
            CHECK((found == before || found == after || is_part));
        }
    }

    TEST_CASE("a flipped bit is an error that names the journal, wherever it is") {
        SimDisk disk;
        {
            const auto storage = open_on(disk);
            REQUIRE(storage->promise({3, 2}));
            REQUIRE(storage->append({command(1), command(2, 0), command(3, 300)}));
            REQUIRE(storage->truncate(3));
            REQUIRE(storage->append({command(3)}));
        }
        const std::string path = journal_on(disk);
        const std::vector<std::byte> bytes = disk.read(path, 1 << 20).value();
        REQUIRE(read_journal(path, kGroup, 1, bytes));
        for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            if (bit / 8 >= 12 && bit / 8 < 16) continue;  // zeros that nobody reads
            std::vector<std::byte> changed = bytes;
            changed[bit / 8] ^= std::byte(1U << bit % 8);
            const Result<LogState> read = read_journal(path, kGroup, 1, changed);
            REQUIRE_MESSAGE(!read, "bit " << bit);
            CHECK(read.error().text().starts_with(path));
        }
    }

    TEST_CASE(
        "a journal that was cut off at its end is read up to there, and zeros are no record") {
        SimDisk disk;
        size_t begun = 0;
        {
            const auto storage = open_on(disk);
            begun = disk.read(journal_on(disk), 1 << 20).value().size();
            REQUIRE(storage->append({command(1)}));
            REQUIRE(storage->append({command(2)}));
        }
        const std::string path = journal_on(disk);
        const std::vector<std::byte> bytes = disk.read(path, 1 << 20).value();
        for (size_t size = 0; size <= bytes.size(); ++size) {
            std::vector<std::byte> cut(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(size));
            for (const size_t zeros : {0, 1, 100}) {
                cut.resize(size + zeros);
                const Result<LogState> read = read_journal(path, kGroup, 1, cut);
                REQUIRE(read.has_value() == (size >= begun));
                if (read) CHECK(read->entries.size() <= 2);
            }
        }
    }

    TEST_CASE("the journal of another job, or of another replica, is refused") {
        SimDisk disk;
        (void)open_on(disk);
        CHECK(DiskStorage::open(disk, "log", kGroup + 1, 1).code() == Errc::kParse);
        CHECK(DiskStorage::open(disk, "log", kGroup, 2).code() == Errc::kParse);
        (void)open_on(disk);
    }

    TEST_CASE("a full disk is an error, and nothing more is taken") {
        SimDisk disk;
        const auto storage = open_on(disk);
        disk.fill();
        const Status full = storage->append({command(1)});
        REQUIRE_FALSE(full);
        CHECK(full.error().text().find("log/journal-") != std::string::npos);
        disk.empty_out();
        CHECK_FALSE(storage->append({command(1)}));
    }
}

}  // namespace weir::testing

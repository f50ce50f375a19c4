// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk.h"

#include <algorithm>
#include <csignal>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/descriptor.h"
#include "lib/base/machine/pages.h"
#include "lib/checkpoint/folder.h"
#include "tests/checkpoint/small_checkpoint.h"
#include "tests/data/scratch.h"
#include "tests/seed.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

/// A child that writes one checkpoint after the other until it is killed.
pid_t start_writer(const std::string& folder) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    RealDisk disk;
    for (;;) {
        const Result<uint64_t> number = next_number(disk, folder);
        if (!number || !write_small(disk, folder, *number, *number, 3)) ::_exit(1);
    }
}

void wait_for(pid_t child) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
}

}  // namespace

TEST_SUITE("disk") {
    TEST_CASE("a checkpoint is written to a folder and read again") {
        const test::Scratch scratch;
        RealDisk disk;
        const std::string folder = scratch.path(".");
        REQUIRE(write_small(disk, folder, 1, 1, 2));
        CHECK(check_small(disk, folder, 1, 1, 3).empty());
        CHECK(disk.list(folder)->size() == 5);
        const std::string manifest = path_of(folder, manifest_name(1));
        CHECK(*disk.size(manifest) == disk.read(manifest, 1 << 20)->size());
        CHECK(disk.size(path_of(folder, manifest_name(2))).code() == Errc::kNotFound);
        CHECK(disk.size(folder).code() == Errc::kIo);
        CHECK(write_small(disk, folder, 1, 2, 2).code() == Errc::kAlreadyExists);
        CHECK(check_small(disk, folder, 1, 1, 3).empty());
    }

    TEST_CASE("a rename replaces no file") {
        const test::Scratch scratch;
        RealDisk disk;
        const std::string a = scratch.file("a", "one");
        const std::string b = scratch.file("b", "two");
        CHECK(disk.rename(a, b).code() == Errc::kAlreadyExists);
        CHECK(test::Scratch::content(b) == "two");
        CHECK(disk.rename(a, scratch.path("c")));
        CHECK(test::Scratch::content(scratch.path("c")) == "one");
    }

    TEST_CASE("what is written is in the file, whether past the page cache or through it") {
        const test::Scratch scratch;
        RealDisk disk;
        PageBytes bytes(size_t{1} << 20);
        for (size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::byte>(i * 31 >> 8 ^ i);
        const std::span<const std::byte> all(bytes);
        // Whole pages; an end that is none; an offset, and then an address, that is none.
        const std::vector<std::vector<std::span<const std::byte>>> cases{
            {all},
            {all.first(700'001)},
            {all.first(300'000), all.first(size_t{512} << 10), all.first(100)},
            {all.subspan(1, 500'000), all},
            {all.first(4096), all.first(size_t{256} << 10), all.first(1)}};
        for (size_t i = 0; i < cases.size(); ++i) {
            const std::string path = scratch.path(std::to_string(i));
            const auto file = disk.create(path);
            REQUIRE(file);
            std::vector<std::byte> expected;
            for (const auto some : cases[i]) {
                REQUIRE((*file)->write(some));
                expected.insert(expected.end(), some.begin(), some.end());
            }
            REQUIRE((*file)->sync());
            CHECK(*disk.size(path) == expected.size());
            CHECK(*disk.read(path, expected.size()) == expected);
        }
    }

    TEST_CASE("a large chunk is not in the page cache, where the folder can do without") {
        const test::Scratch scratch;
        RealDisk disk;
        const PageBytes bytes(size_t{1} << 20);
        const std::string path = scratch.path("chunk");
        REQUIRE(write_file(disk, scratch.path("."), "chunk", bytes));
        const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (::fcntl(file.get(), F_SETFL, O_DIRECT) != 0) {
            MESSAGE("SKIPPED: the folder for temporary files has no direct writes");
            return;
        }
        void* const mapped = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, file.get(), 0);
        REQUIRE(mapped != MAP_FAILED);
        std::vector<unsigned char> pages(bytes.size() / static_cast<size_t>(::getpagesize()));
        REQUIRE(::mincore(mapped, bytes.size(), pages.data()) == 0);
        CHECK(std::ranges::none_of(pages, [](unsigned char page) { return page & 1; }));
        ::munmap(mapped, bytes.size());
    }

    TEST_CASE("errors name the file and what to do") {
        const test::Scratch scratch;
        RealDisk disk;
        const auto has = [](const Error& error, std::string_view text) {
            return error.message().find(text) != std::string::npos;
        };
        const std::string missing = scratch.path("missing");
        CHECK(disk.list(missing).code() == Errc::kNotFound);
        CHECK(has(disk.list(missing).error(), missing));
        CHECK(has(disk.list(missing).error(), "check the name"));
        const std::string file = scratch.file("file", "text");
        CHECK(has(disk.list(file).error(), file));
        CHECK(has(disk.list(file).error(), "it is no folder"));
        CHECK(disk.read(missing, 10).code() == Errc::kNotFound);
        CHECK(disk.create(missing + "/x").code() == Errc::kNotFound);
        CHECK(disk.sync_folder(missing).code() == Errc::kNotFound);
        CHECK(disk.remove(missing).code() == Errc::kNotFound);
        CHECK(disk.read(scratch.path("."), 10).code() == Errc::kIo);
        CHECK(disk.read(scratch.file("long", "0123456789A"), 10).code() == Errc::kOutOfRange);
        CHECK(disk.create(scratch.file("there", "")).code() == Errc::kAlreadyExists);
    }

    TEST_CASE("a file that becomes too large is an error, and removed") {
        const test::Scratch scratch;
        const pid_t child = ::fork();
        if (child == 0) {
            (void)std::signal(SIGXFSZ, SIG_IGN);
            const rlimit little{1000, 400'000};
            (void)::setrlimit(RLIMIT_FSIZE, &little);
            RealDisk disk;
            const auto is_right = [](const Status& status) {
                return status.code() == Errc::kIo &&
                       status.error().message().find("make room") != std::string::npos;
            };
            bool is_good = is_right(write_small(disk, scratch.path("."), 1, 1, 1, 4000));
            const rlimit larger{400'000, 400'000};  // within what goes past the page cache
            (void)::setrlimit(RLIMIT_FSIZE, &larger);
            const PageBytes bytes(size_t{1} << 20);
            is_good = is_good && is_right(write_file(disk, scratch.path("."), "large", bytes));
            ::_exit(is_good && disk.list(scratch.path("."))->empty() ? 0 : 1);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }

    TEST_CASE("a writer that is killed at any instant leaves whole checkpoints") {
        WEIR_TEST_SEED(seed, 16);
        Random random(seed);
        const test::Scratch scratch;
        const std::string folder = scratch.path(".");
        RealDisk disk;
        REQUIRE(write_small(disk, folder, 1, 1, 3));
        for (int i = 0; i < 50; ++i) {
            const pid_t child = start_writer(folder);
            // The child is killed while it writes, however long it needed to start.
            const uint64_t before = *next_number(disk, folder);
            while (*next_number(disk, folder) == before)
                ::usleep(100);
            ::usleep(static_cast<useconds_t>(random() % 5000));
            REQUIRE(::kill(child, SIGKILL) == 0);
            wait_for(child);
            const uint64_t number = latest(disk, folder).value();
            const std::string wrong = check_small(disk, folder, number, number, 2);
            REQUIRE_MESSAGE(wrong.empty(), wrong);
            REQUIRE(prune(disk, folder, {.newest = 2}, PruneCheck::kBytes));
        }
    }
}

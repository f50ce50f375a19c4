// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk.h"

#include <csignal>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
            const rlimit little{1000, 1000};
            (void)::setrlimit(RLIMIT_FSIZE, &little);
            RealDisk disk;
            const Status status = write_small(disk, scratch.path("."), 1, 1, 1, 4000);
            const bool is_right = status.code() == Errc::kIo &&
                                  status.error().message().find("make room") != std::string::npos;
            ::_exit(is_right && disk.list(scratch.path("."))->empty() ? 0 : 1);
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

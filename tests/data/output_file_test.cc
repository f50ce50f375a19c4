// SPDX-License-Identifier: Apache-2.0
#include "lib/data/output_file.h"

#include <filesystem>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;
namespace fs = std::filesystem;

size_t count_in(const std::string& folder) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder))
        ++count;
    return count;
}

}  // namespace

TEST_SUITE("output_file") {
    TEST_CASE("the old content stays until the new one is whole") {
        const test::Scratch scratch;
        const std::string path = scratch.file("out", "old and longer");
        {
            Result<OutputFile> file = OutputFile::create(path);
            REQUIRE(file);
            REQUIRE(file->write(std::string_view("new")));
            CHECK(test::Scratch::content(path) == "old and longer");
            REQUIRE(file->finish());
        }
        CHECK(test::Scratch::content(path) == "new");
        CHECK(count_in(scratch.path("")) == 1);
    }

    TEST_CASE("an output that is not finished leaves only the old content") {
        const test::Scratch scratch;
        const std::string path = scratch.file("out", "old");
        {
            Result<OutputFile> file = OutputFile::create(path);
            REQUIRE(file);
            REQUIRE(file->write(std::string_view("half")));
            Result<OutputFile> other = OutputFile::create(scratch.path("never"));
            REQUIRE(other);
        }
        CHECK(test::Scratch::content(path) == "old");
        CHECK(count_in(scratch.path("")) == 1);
    }

    TEST_CASE("a file keeps its mode, and a symbolic link goes on pointing to it") {
        const test::Scratch scratch;
        const std::string path = scratch.file("target", "old");
        REQUIRE(::chmod(path.c_str(), 0640) == 0);
        fs::create_symlink("target", scratch.path("link"));
        REQUIRE(write_whole_file(scratch.path("link"), "new"));
        CHECK(fs::is_symlink(scratch.path("link")));
        CHECK(test::Scratch::content(path) == "new");
        struct stat facts = {};
        REQUIRE(::stat(path.c_str(), &facts) == 0);
        CHECK((facts.st_mode & 07777) == 0640);
    }

    TEST_CASE("a long name is no obstacle") {
        const test::Scratch scratch;
        const std::string path = scratch.path(std::string(255, 'n'));
        REQUIRE(write_whole_file(path, "new"));
        CHECK(test::Scratch::content(path) == "new");
    }

    TEST_CASE("a device is written in place and not removed, whether writing works or not") {
        const test::Scratch scratch;
        fs::create_symlink("/dev/full", scratch.path("full"));
        fs::create_symlink("/dev/null", scratch.path("null"));
        CHECK(write_whole_file(scratch.path("full"), "new").code() == Errc::kIo);
        CHECK(write_whole_file(scratch.path("null"), "new"));
        CHECK(fs::is_character_file("/dev/full"));
        CHECK(fs::is_character_file("/dev/null"));
        CHECK(count_in(scratch.path("")) == 2);
    }

    TEST_CASE("files and new names are replaced, what is written in place is not") {
        const test::Scratch scratch;
        fs::create_symlink(scratch.file("out", "old"), scratch.path("link"));
        REQUIRE(::mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
        for (const char* const name : {"out", "link", "new"})
            CHECK_MESSAGE(is_replaceable(scratch.path(name)), name);
        const Descriptor lent(::open(scratch.path("out").c_str(), O_WRONLY | O_CLOEXEC));
        for (const std::string& path :
             {scratch.path("pipe"), scratch.path("out/of"), scratch.path(""),
              std::string("/dev/null"), fmt::format("/dev/fd/{}", lent.get()),
              std::string(kStandardOutput)})
            CHECK_FALSE_MESSAGE(is_replaceable(path), path);
    }

    TEST_CASE("a folder, and a path through nowhere, are errors that name the path") {
        const test::Scratch scratch;
        const Status folder = write_whole_file(scratch.path(""), "new");
        REQUIRE_FALSE(folder);
        CHECK(folder.error().message().find(scratch.path("")) != std::string::npos);
        const Status nowhere = write_whole_file(scratch.path("no/where"), "new");
        REQUIRE_FALSE(nowhere);
        CHECK(nowhere.error().message().find("no/where: cannot be written") != std::string::npos);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/file_share.h"

#include <map>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;

std::vector<FileShare> shares_of(const std::vector<std::string>& paths, Part part) {
    auto shares = share_files(paths, part);
    REQUIRE(shares);
    return *std::move(shares);
}

std::string refusal(const std::string& path) {
    const auto shares = share_files(std::vector<std::string>{path}, {});
    REQUIRE_FALSE(shares);
    return shares.error().message();
}

}  // namespace

TEST_SUITE("file_share") {
    TEST_CASE("plain files are cut so that every byte belongs to exactly one part") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a", std::string(1000, 'x')),
                                                scratch.file("b", std::string(7, 'x')),
                                                scratch.file("c", std::string(311, 'x'))};
        for (uint32_t count = 1; count < 9; ++count) {
            std::map<std::string, uint64_t> next;
            for (uint32_t index = 0; index < count; ++index) {
                for (const FileShare& share : shares_of(paths, {index, count})) {
                    CHECK(share.begin == next[share.path]);
                    CHECK(share.end > share.begin);
                    next[share.path] = share.end;
                }
            }
            CHECK(next[paths[0]] == 1000);
            CHECK(next[paths[1]] == 7);
            CHECK(next[paths[2]] == 311);
        }
    }

    TEST_CASE("gzip files go whole to one part where there are enough, else in pieces to all") {
        const test::Scratch scratch;
        std::vector<std::string> paths;
        for (int i = 0; i < 3; ++i) {
            paths.push_back(scratch.gzip(fmt::format("z{}", i), "1 1:1\n"));
        }
        std::map<std::string, int> readers;
        for (uint32_t index = 0; index < 3; ++index) {
            for (const FileShare& share : shares_of(paths, {index, 3})) {
                ++readers[share.path];
                CHECK(share.pieces.count == 1);
            }
        }
        for (const std::string& path : paths)
            CHECK(readers[path] == 1);
        for (uint32_t index = 0; index < 4; ++index) {
            const auto shares = shares_of(paths, {index, 4});
            CHECK(shares.size() == 3);
            for (const FileShare& share : shares) {
                CHECK(share.pieces.index == index);
                CHECK(share.pieces.count == 4);
            }
        }
    }

    TEST_CASE("what cannot be read is refused with what to do") {
        const test::Scratch scratch;
        CHECK(refusal("/nowhere/at-all") == "/nowhere/at-all: no such file; check the path");
        CHECK(refusal("/tmp").find("is a directory; name the files in it") != std::string::npos);
        CHECK(refusal("/dev/null").find("is not a regular file") != std::string::npos);
        CHECK(refusal(scratch.file("e", "")).find("is empty") != std::string::npos);
        const std::string xz = scratch.file("d.xz", std::string("\xfd"
                                                                "7zXZ\0....",
                                                                10));
        CHECK(refusal(xz) == xz + " is xz-compressed; unpack it with xz -dk " + xz);
        CHECK(refusal(scratch.file("d.zst", "\x28\xb5\x2f\xfd...")).find("zstd -dk") !=
              std::string::npos);
        CHECK(refusal(scratch.file("d.bz2", "BZh91AY")).find("bzip2 -dk") != std::string::npos);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/text/gzip_bytes.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;

/// The unpacked content of the file, read `step_bytes` at a time, or the message of the error.
std::string unpacked(const std::string& path, uint64_t step_bytes = 1000) {
    Result<std::unique_ptr<GzipBytes>> bytes =
        GzipBytes::open(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
    REQUIRE(bytes);
    std::string text;
    std::string piece(step_bytes, '\0');
    while (true) {
        const Result<uint64_t> got = (*bytes)->read(piece);
        if (!got) return got.error().message();
        text.append(piece, 0, *got);
        if (*got == 0) return text;
    }
}

/// Text that compresses badly, so that the packed file fills the reader's buffer several times.
std::string noise(uint64_t size_bytes) {
    Random random(5);
    std::string text;
    while (text.size() < size_bytes)
        text += static_cast<char>(random.below(256));
    return text;
}

}  // namespace

TEST_SUITE("gzip_bytes") {
    TEST_CASE("one member and many members unpack to all of their text") {
        const test::Scratch scratch;
        const std::string text = noise(700'000);
        const std::string large = test::Scratch::content(scratch.gzip("a.gz", text));
        const std::string empty = test::Scratch::content(scratch.gzip("b.gz", ""));
        const std::string small = test::Scratch::content(scratch.gzip("c.gz", "few"));
        CHECK(unpacked(scratch.file("one.gz", large)) == text);
        CHECK(unpacked(scratch.file("none.gz", empty)).empty());
        CHECK(unpacked(scratch.file("all.gz", empty + large + small + empty + large)) ==
              text + "few" + text);
        CHECK(unpacked(scratch.file("few.gz", small + small), 1) == "fewfew");
    }

    TEST_CASE("members that end anywhere in the reader's buffer are all found") {
        const test::Scratch scratch;
        const std::string small = test::Scratch::content(scratch.gzip("c.gz", "few"));
        const std::string large = test::Scratch::content(scratch.gzip("a.gz", noise(262'000)));
        std::string packed = large;
        std::string wanted = noise(262'000);
        while (packed.size() < (1U << 18) + 2 * small.size()) {
            packed += small;
            wanted += "few";
        }
        for (size_t cut = 0; cut < small.size(); ++cut) {
            CAPTURE(cut);
            std::string name = small;  // the length of this comment moves the next member
            name[3] = 0x10;
            name.insert(10, std::string(cut, 'x') + '\0');
            CHECK(unpacked(scratch.file("moved.gz", name + packed)) == "few" + wanted);
        }
    }

    TEST_CASE("zeros after the last member are padding") {
        const test::Scratch scratch;
        const std::string small = test::Scratch::content(scratch.gzip("c.gz", "few"));
        for (const size_t count : {1U, 2U, 511U, 1'000'000U}) {
            CHECK(unpacked(scratch.file("p.gz", small + std::string(count, '\0'))) == "few");
        }
    }

    TEST_CASE("anything else after a member is an error that names the place") {
        const test::Scratch scratch;
        const std::string small = test::Scratch::content(scratch.gzip("c.gz", "few"));
        const std::string zeros(300'000, '\0');
        for (const std::string& junk : {std::string("junk"), std::string("\x1f"), zeros + small}) {
            const std::string path = scratch.file("j.gz", small + junk + small);
            const size_t place = small.size() + junk.find_first_not_of('\0');
            CHECK(unpacked(path) ==
                  fmt::format(
                      "{}: the bytes from {} on, after the end of a gzip stream, are not gzip; "
                      "fetch the file again (gzip -t tests it)",
                      path, place));
        }
        CHECK(unpacked(scratch.file("end.gz", small + '\x1f')).find("are not gzip") !=
              std::string::npos);
    }

    TEST_CASE("a member that is cut off anywhere, or damaged, is an error") {
        const test::Scratch scratch;
        const std::string small = test::Scratch::content(scratch.gzip("c.gz", "few"));
        for (size_t size = 2; size < small.size(); ++size) {
            CAPTURE(size);
            const std::string first = scratch.file("f.gz", small.substr(0, size));
            CHECK(unpacked(first).find("the gzip stream is cut off") != std::string::npos);
            const std::string second = scratch.file("s.gz", small + small.substr(0, size));
            CHECK(unpacked(second).find("the gzip stream is cut off") != std::string::npos);
        }
        std::string damaged = small;
        damaged[damaged.size() - 6] ^= 1;  // the check sum
        const std::string bad = scratch.file("bad.gz", damaged);
        CHECK(unpacked(bad).find("bad.gz: the gzip stream is corrupt") != std::string::npos);
    }
}

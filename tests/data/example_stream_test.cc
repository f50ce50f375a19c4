// SPDX-License-Identifier: Apache-2.0
#include "lib/data/example_stream.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;

constexpr uint32_t kPieces = 8;

/// Examples whose only feature is their number, with comments of different lengths between them.
std::string numbered(uint64_t first, uint64_t count) {
    std::string text;
    for (uint64_t i = first; i < first + count; ++i) {
        text += fmt::format("+1 {}:1\n", i);
        if (i % 7 == 0) text += "# " + std::string(i % 300, 'x') + "\n";
    }
    return text;
}

std::string packed(const test::Scratch& scratch, const std::string& name, const std::string& text) {
    const std::string path = scratch.path(name);
    const gzFile file = gzopen(path.c_str(), "wb");
    REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
            static_cast<int>(text.size()));
    REQUIRE(gzclose(file) == Z_OK);
    return path;
}

struct Read {
    std::vector<uint64_t> keys;
    std::map<uint32_t, uint64_t> places;  ///< of each piece the last one
};

/// Up to `batches` times some lines; what is in `places` was read before.
Read read(const std::vector<std::string>& paths, const std::vector<uint32_t>& pieces,
          uint64_t batches = ~uint64_t{0}, const std::map<uint32_t, uint64_t>& places = {}) {
    ExampleStream::Options options{.pieces = pieces, .piece_count = kPieces};
    for (const uint32_t piece : pieces)
        options.places.push_back(places.contains(piece) ? places.at(piece) : 0);
    auto stream = ExampleStream::open(paths, options);
    REQUIRE(stream);
    Read all{{}, places};
    ParsedLines lines;
    for (; batches > 0; --batches) {
        const Result<bool> found = stream->next(lines, 5);
        REQUIRE(found);
        if (!*found) break;
        CHECK(lines.labels.size() <= 5);
        all.keys.insert(all.keys.end(), lines.keys.begin(), lines.keys.end());
        uint64_t& place = all.places[pieces[stream->piece()]];
        CHECK(stream->place() > place);
        place = stream->place();
    }
    return all;
}

void check_whole(std::vector<uint64_t> keys, uint64_t count) {
    std::ranges::sort(keys);
    REQUIRE(keys.size() == count);
    for (uint64_t i = 0; i < count; ++i)
        REQUIRE(keys[i] == i);
}

}  // namespace

TEST_SUITE("example stream") {
    TEST_CASE("one reader gets all examples in the order of the files") {
        const test::Scratch scratch;
        const std::vector<std::string> paths{scratch.file("a", numbered(0, 40'000)),
                                             packed(scratch, "b.gz", numbered(40'000, 30'000)),
                                             scratch.file("c", "+1 70000:1")};
        const Read all = read(paths, {0, 1, 2, 3, 4, 5, 6, 7});
        CHECK(std::ranges::is_sorted(all.keys));
        check_whole(all.keys, 70'001);
    }

    TEST_CASE("readers get each example once, and go through the files together") {
        const test::Scratch scratch;
        const std::vector<std::string> paths{scratch.file("a", numbered(0, 60'000)),
                                             packed(scratch, "b.gz", numbered(60'000, 60'000))};
        std::vector<uint64_t> keys;
        for (const std::vector<uint32_t>& pieces :
             {std::vector<uint32_t>{0, 1, 2, 3}, {4, 5}, {6, 7}}) {
            const Read some = read(paths, pieces);
            CHECK(std::ranges::is_sorted(some.keys));
            CHECK(some.keys.front() < 30'000);
            CHECK(some.keys.back() > 90'000);
            keys.insert(keys.end(), some.keys.begin(), some.keys.end());
        }
        check_whole(keys, 120'000);
    }

    TEST_CASE("many packed files are dealt out as a whole") {
        const test::Scratch scratch;
        std::vector<std::string> paths;
        for (uint64_t i = 0; i < ExampleStream::kWholeFiles; ++i)
            paths.push_back(packed(scratch, fmt::format("{}.gz", i), numbered(i * 100, 100)));
        const Read first = read(paths, {0, 1, 2, 3});
        const Read second = read(paths, {4, 5, 6, 7});
        CHECK(first.keys.size() == second.keys.size());
        std::vector<uint64_t> keys = first.keys;
        keys.insert(keys.end(), second.keys.begin(), second.keys.end());
        check_whole(keys, 1600);
    }

    TEST_CASE("another reader goes on behind the places, wherever the first one has ended") {
        const test::Scratch scratch;
        const std::vector<std::string> paths{scratch.file("a", numbered(0, 25'000)),
                                             packed(scratch, "b.gz", numbered(25'000, 25'000))};
        for (const uint64_t batches : {1, 2, 700, 4000, 9000, 12'000}) {
            CAPTURE(batches);
            const Read before = read(paths, {0, 1, 2, 3, 4, 5, 6, 7}, batches);
            std::vector<uint64_t> keys = before.keys;
            for (const std::vector<uint32_t>& pieces :
                 {std::vector<uint32_t>{0, 3}, {1, 2, 4, 5, 6, 7}}) {
                const Read rest = read(paths, pieces, ~uint64_t{0}, before.places);
                keys.insert(keys.end(), rest.keys.begin(), rest.keys.end());
            }
            check_whole(keys, 50'000);
        }
    }

    TEST_CASE("a line that is longer than a chunk is read once") {
        const test::Scratch scratch;
        std::string text = "+1 0:1\n# " + std::string(300'000, 'x') + "\n";
        text += "+1 1:1 # " + std::string(200'000, 'y') + "\n" + numbered(2, 1000);
        const std::vector<std::string> paths{scratch.file("a", text)};
        std::vector<uint64_t> keys = read(paths, {0, 1, 2, 3}).keys;
        const Read rest = read(paths, {4, 5, 6, 7});
        keys.insert(keys.end(), rest.keys.begin(), rest.keys.end());
        check_whole(keys, 1002);
    }

    TEST_CASE("a bad line is named by its number in the file, and left out if that is allowed") {
        const test::Scratch scratch;
        const std::string path =
            scratch.file("a", numbered(0, 20'000) + "+1 x\n" + numbered(20'000, 10));
        for (const uint64_t skip_bad : {0, 1}) {
            ExampleStream::Options options;
            options.skip_bad = skip_bad;
            const std::vector<std::string> paths{path};
            auto stream = ExampleStream::open(paths, options);
            REQUIRE(stream);
            ParsedLines lines;
            Result<bool> found = true;
            while (found && *found)
                found = stream->next(lines, 64);
            CHECK(found.has_value() == (skip_bad == 1));
            CHECK(stream->report().example_count <= (skip_bad == 1 ? 20'010 : 20'000));
            const std::string named =
                found ? stream->report().first_bad_line : found.error().text();
            CHECK(named.find("/a:22859:4: expected a feature number") != std::string::npos);
        }
    }

    TEST_CASE("a pipe gives the lines that are there, and asks whether to go on while none come") {
        std::array<int, 2> pipe{};
        REQUIRE(::pipe(pipe.data()) == 0);
        const int kept = ::dup(STDIN_FILENO);
        REQUIRE(::dup2(pipe[0], STDIN_FILENO) == STDIN_FILENO);
        const std::vector<std::string> paths{"-"};
        CHECK(ExampleStream::is_stream(paths));
        const std::string text = "+1 7:1\n-1 8:1\n+1 9";  // the last one is not whole
        REQUIRE(::write(pipe[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
        bool stops = false;
        ExampleStream::Options options;
        options.stop = [&] { return stops; };
        auto stream = ExampleStream::open(paths, options);
        REQUIRE(stream);
        ParsedLines lines;
        REQUIRE(*stream->next(lines, 64));
        std::vector<uint64_t> keys = lines.keys;
        if (keys.size() < 2) {  // the first bytes told that it is no gzip
            REQUIRE(*stream->next(lines, 64));
            keys.insert(keys.end(), lines.keys.begin(), lines.keys.end());
        }
        CHECK(keys == std::vector<uint64_t>{7, 8});
        stops = true;
        CHECK(stream->next(lines, 64).code() == Errc::kCancelled);
        REQUIRE(::write(pipe[1], ":1\n", 3) == 3);
        ::close(pipe[1]);
        REQUIRE(*stream->next(lines, 64));
        CHECK(lines.keys == std::vector<uint64_t>{9});
        CHECK_FALSE(*stream->next(lines, 64));
        REQUIRE(::dup2(kept, STDIN_FILENO) == STDIN_FILENO);
        ::close(kept);
        ::close(pipe[0]);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/examples.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "lib/base/random.h"
#include "lib/data/text/line_stream.h"
#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;

using Row = std::pair<int, std::vector<std::pair<uint64_t, float>>>;

/// The rows of the examples, in a form that can be compared.
std::vector<Row> rows_of(const Examples& examples) {
    std::vector<Row> rows;
    for (const RowChunk& chunk : examples.chunks) {
        size_t i = 0;
        for (size_t r = 0; r < chunk.labels.size(); ++r) {
            Row& row = rows.emplace_back(chunk.labels[r], 0);
            for (const size_t end = i + chunk.lengths[r]; i < end; ++i) {
                row.second.emplace_back(examples.keys[chunk.features[i]],
                                        chunk.values.empty() ? 1.0F : chunk.values[i]);
            }
        }
    }
    return rows;
}

/// Examples of several MiB, every one different, with comments, empty lines and long lines.
std::string sample_text(uint64_t line_count) {
    Random random(17);
    std::string text;
    for (uint64_t i = 0; i < line_count; ++i) {
        if (random.below(50) == 0) text += "# nothing\n\n";
        text += random.below(2) == 0 ? "+1" : "0";
        fmt::format_to(std::back_inserter(text), " {}:1", i + 1000000);
        const uint64_t count = random.below(i % 1000 == 7 ? 3000 : 20);
        uint64_t key = 0;
        for (uint64_t k = 0; k < count; ++k) {
            key += 1 + random.below(40);
            fmt::format_to(std::back_inserter(text), " {}:{}", key, 1 + random.below(3));
        }
        text += random.below(10) == 0 ? "\r\n" : "\n";
    }
    return text;
}

std::vector<Row> read_in_parts(const std::vector<std::string>& paths, uint32_t part_count,
                               uint32_t thread_count) {
    std::vector<Row> rows;
    for (uint32_t index = 0; index < part_count; ++index) {
        const auto examples = read_libsvm(
            paths, {.parts = {{index, part_count}}, .thread_count = thread_count, .skip_bad = 0});
        REQUIRE(examples);
        const std::vector<Row> part = rows_of(*examples);
        CHECK(examples->report.example_count == part.size());
        CHECK(std::set<uint64_t>(examples->keys.begin(), examples->keys.end()).size() ==
              examples->keys.size());
        rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
}

std::string failure(const std::string& path, ReadOptions options = {}) {
    const auto examples = read_libsvm(std::vector<std::string>{path}, options);
    REQUIRE_FALSE(examples);
    return examples.error().message();
}

}  // namespace

TEST_SUITE("examples") {
    TEST_CASE(
        "one file split among any number of readers gives the same examples in the same order") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a", sample_text(40000))};
        REQUIRE(std::filesystem::file_size(paths[0]) > 2 * FileShare::kPieceBytes);
        const std::vector<Row> whole = read_in_parts(paths, 1, 1);
        CHECK(whole.size() == 40000);
        for (const uint32_t parts : {2U, 3U, 7U})
            CHECK(read_in_parts(paths, parts, 1) == whole);
        CHECK(read_in_parts(paths, 1, 3) == whole);
        CHECK(read_in_parts(paths, 2, 2) == whole);
    }

    TEST_CASE("a reader of several parts has the examples of all of them, with any threads") {
        const test::Scratch scratch;
        const std::string text = sample_text(20000);
        const std::vector<std::string> paths = {scratch.file("a", text), scratch.gzip("b", text)};
        std::vector<Row> whole = read_in_parts(paths, 1, 1);
        std::ranges::sort(whole);
        for (const uint32_t threads : {1U, 2U, 5U}) {
            std::vector<Row> rows;
            for (const std::vector<Part>& mine :
                 {std::vector<Part>{{0, 4}, {2, 4}, {3, 4}}, std::vector<Part>{{1, 4}}}) {
                const auto examples =
                    read_libsvm(paths, {.parts = mine, .thread_count = threads, .skip_bad = 0});
                REQUIRE(examples);
                const std::vector<Row> part = rows_of(*examples);
                CHECK(examples->report.example_count == part.size());
                rows.insert(rows.end(), part.begin(), part.end());
            }
            std::ranges::sort(rows);
            CHECK(rows == whole);
        }
        const auto none = read_libsvm(paths, {.parts = {}, .thread_count = 2, .skip_bad = 0});
        REQUIRE(none);
        CHECK(none->report.example_count == 0);
    }

    TEST_CASE("no example of a tiny file is lost or doubled, wherever the file is split") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a", "1 1:1\n\n-1 2:1 3:2\n0 4:1"),
                                                scratch.file("b", "1 5:1\n")};
        const std::vector<Row> whole = read_in_parts(paths, 1, 1);
        CHECK(whole.size() == 4);
        for (uint32_t parts = 2; parts < 40; ++parts) {
            CHECK(read_in_parts(paths, parts, 1) == whole);
        }
    }

    TEST_CASE("a gzip file holds the same examples, for one reader and shared out") {
        const test::Scratch scratch;
        const std::string text = sample_text(40000);
        const std::vector<std::string> plain = {scratch.file("a", text)};
        const std::vector<std::string> packed = {scratch.gzip("a.gz", text)};
        std::vector<Row> whole = read_in_parts(plain, 1, 1);
        CHECK(read_in_parts(packed, 1, 1) == whole);
        std::sort(whole.begin(), whole.end());
        for (const uint32_t parts : {2U, 3U}) {
            std::vector<Row> shared = read_in_parts(packed, parts, 1);
            std::sort(shared.begin(), shared.end());
            CHECK(shared == whole);
        }
    }

    TEST_CASE("a bad line is named by its number in the whole file, whichever worker reads it") {
        const test::Scratch scratch;
        std::string text = sample_text(40000);
        const size_t place = text.find('\n', text.size() * 3 / 4) + 1;
        const auto line =
            1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(place), '\n');
        text.insert(place, "1 5:1 huch\n");
        const std::string plain = scratch.file("a", text);
        const std::string packed = scratch.gzip("a.gz", text);
        const std::string tail = fmt::format(
            ":{}:7: expected a feature number from 0 to 2^64 - 1, found 'huch'; correct the line "
            "or "
            "leave it out (skip_bad 1)",
            line);
        CHECK(failure(plain) == plain + tail);
        CHECK(failure(packed) == packed + tail);
        CHECK(failure(plain, {.parts = {{3, 4}}, .thread_count = 1, .skip_bad = 0}) ==
              plain + tail);
        CHECK(failure(plain, {.parts = {{0, 1}}, .thread_count = 3, .skip_bad = 0}) ==
              plain + tail);
    }

    TEST_CASE("bad lines are skipped and counted up to the limit, over all threads") {
        const test::Scratch scratch;
        std::string text;
        for (int i = 0; i < 3000; ++i)
            text += i % 1000 == 500 ? "oops\n" : "1 3:1\n";
        const std::string path = scratch.file("a", text);
        for (const uint32_t threads : {1U, 3U}) {
            const auto examples =
                read_libsvm(std::vector<std::string>{path},
                            {.parts = {{}}, .thread_count = threads, .skip_bad = 3});
            REQUIRE(examples);
            CHECK(examples->report.bad_line_count == 3);
            CHECK(examples->report.example_count == 2997);
            CHECK(examples->report.first_bad_line ==
                  path + ":501:1: expected a label: -1, 0 or +1, found 'oops'");
            CHECK(failure(path, {.parts = {{}}, .thread_count = threads, .skip_bad = 2})
                      .find("2 may be skipped") != std::string::npos);
        }
    }

    TEST_CASE("a gzip file that is cut off or damaged is an error that says so") {
        const test::Scratch scratch;
        const std::string whole = test::Scratch::content(scratch.gzip("a.gz", sample_text(20000)));
        const std::string cut = scratch.file("cut.gz", whole.substr(0, whole.size() / 2));
        CHECK(failure(cut) ==
              cut + ": the gzip stream is cut off; fetch the file again (gzip -t tests it)");
        std::string damaged = whole;
        for (size_t i = whole.size() / 2; i < whole.size() / 2 + 64; ++i)
            damaged[i] = '\x55';
        CHECK(failure(scratch.file("bad.gz", damaged)).find("bad.gz") != std::string::npos);
    }

    TEST_CASE("a file of comments holds no examples, and an executable is refused") {
        const test::Scratch scratch;
        const auto none = read_libsvm(std::vector<std::string>{scratch.file("c", "# x\n\n#y")}, {});
        REQUIRE(none);
        CHECK(none->report.example_count == 0);
        CHECK(failure("/proc/self/exe").find(":1:1: expected a label") != std::string::npos);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/column_cache.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "tests/data/scratch.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::data;
namespace fs = std::filesystem;

/// Lines with random features; a few features are in most lines.
std::string random_lines(Random& random, uint64_t line_count, bool ones) {
    std::string text;
    for (uint64_t i = 0; i < line_count; ++i) {
        text += random.below(2) == 0 ? "1" : "-1";
        uint64_t key = 0;
        for (uint64_t k = random.below(20); k > 0; --k) {
            key += 1 + random.below(1 + random.below(100));
            fmt::format_to(std::back_inserter(text), " {}:{}", key, ones ? 1 : 1 + random.below(9));
        }
        text += "\n";
    }
    return text;
}

FeatureGroups hash_groups_of(uint32_t count) {
    return {count, [count](uint64_t key) { return static_cast<uint32_t>(mix64(key) % count); }};
}

CacheOptions in_folder(const test::Scratch& scratch, uint64_t memory_bytes = uint64_t{64} << 20) {
    return {scratch.path("cache"), memory_bytes, {"--cache", "--memory"}};
}

Result<ColumnBlocks> cached(std::span<const std::string> paths, const ReadOptions& read,
                            const CacheOptions& options, const FeatureGroups& groups) {
    WEIR_ASSIGN(ColumnCache cache, ColumnCache::open(paths, read, options));
    return std::move(cache).finish(groups);
}

/// Reads every group, the next one ahead. The first error ends it.
Status sweep(ColumnBlocks& blocks) {
    for (uint32_t g = 0; g < blocks.group_count(); ++g) {
        if (g + 1 < blocks.group_count()) blocks.will_need(g + 1);
        WEIR_ASSIGN(const linalg::Columns columns, blocks.open(g));
        (void)columns;
        blocks.done(g);
    }
    return {};
}

/// Whether both have the same columns, in the same places.
void check_same(ColumnBlocks& blocks, const FeatureMatrix& matrix) {
    REQUIRE(std::ranges::equal(blocks.keys(), matrix.keys));
    REQUIRE(std::ranges::equal(blocks.labels(), matrix.labels));
    REQUIRE(std::ranges::equal(blocks.group_begin(), matrix.group_begin));
    CHECK(blocks.nonzero_count() == matrix.rows.size());
    for (uint32_t g = 0; g < blocks.group_count(); ++g) {
        const Result<linalg::Columns> columns = blocks.open(g);
        REQUIRE(columns);
        const uint64_t first = matrix.group_begin[g];
        REQUIRE(columns->line_count() == matrix.group_begin[g + 1] - first);
        CHECK(columns->place_count == matrix.row_count());
        uint64_t different_count = 0;
        for (uint64_t c = 0; c < columns->line_count(); ++c) {
            const auto mine = columns->offsets[c];
            const auto theirs = matrix.offsets[first + c];
            const uint64_t count = columns->offsets[c + 1] - mine;
            REQUIRE(count == matrix.offsets[first + c + 1] - theirs);
            for (uint64_t i = 0; i < count; ++i) {
                const float my_value = columns->values.empty() ? 1.0F : columns->values[mine + i];
                const float their_value = matrix.values.empty() ? 1.0F : matrix.values[theirs + i];
                different_count +=
                    columns->places[mine + i] != matrix.rows[theirs + i] || my_value != their_value
                        ? 1
                        : 0;
            }
        }
        CHECK(different_count == 0);
        blocks.done(g);
    }
}

std::string refusal(const Status& status) {
    REQUIRE_FALSE(status);
    return status.error().message();
}

template <class T>
std::string refusal(const Result<T>& result) {
    REQUIRE_FALSE(result);
    return result.error().message();
}

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::vector<std::string> cached_names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

void overwrite(const std::string& path, uint64_t place, std::string_view bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A cache of some random lines, in 5 groups.
struct Made {
    test::Scratch scratch;
    std::vector<std::string> paths;
    std::string file;
    uint64_t seed;

    explicit Made(uint64_t of, uint64_t line_count = 500) : seed(of) {
        Random random(seed);
        paths = {scratch.file("train.svm", random_lines(random, line_count, false))};
        REQUIRE(open());
        file = scratch.path("cache/part-1-of-1.columns");
    }

    [[nodiscard]] Result<ColumnBlocks> open(ReadOptions read = {}) const {
        return cached(paths, read, in_folder(scratch), hash_groups_of(5));
    }
};

}  // namespace

TEST_SUITE("column_cache") {
    TEST_CASE("a cache has the same columns as a matrix in memory, made and found") {
        WEIR_TEST_SEED(seed, 41);
        Random random(seed);
        for (const bool ones : {true, false}) {
            for (const uint32_t threads : {1U, 3U}) {
                const test::Scratch scratch;
                const std::vector<std::string> paths = {
                    scratch.file("a.svm", random_lines(random, 3000, ones)),
                    scratch.gzip("b.gz", random_lines(random, 2000, true)),
                    scratch.file("c.svm", random_lines(random, 10, true))};
                for (const std::vector<Part>& parts :
                     {std::vector<Part>{{}}, std::vector<Part>{{1, 4}, {3, 4}}}) {
                    const ReadOptions read{.parts = parts, .thread_count = threads};
                    Result<Examples> examples = read_libsvm(paths, read);
                    REQUIRE(examples);
                    const uint64_t example_count = examples->report.example_count;
                    const FeatureMatrix matrix =
                        make_feature_matrix(*std::move(examples), hash_groups_of(7));
                    for (const bool found : {false, true}) {
                        Result<ColumnCache> cache =
                            ColumnCache::open(paths, read, in_folder(scratch));
                        REQUIRE(cache);
                        CHECK(cache->was_found() == found);
                        CHECK(cache->block_count_min(3) == (found ? 7 : 1));
                        CHECK(cache->report().example_count == example_count);
                        CHECK(cache->report().nonzero_count == matrix.rows.size());
                        CHECK(cache->report().labels.line_count() == example_count);
                        REQUIRE(cache->keys().size() == matrix.keys.size());
                        std::map<uint64_t, uint64_t> counts;
                        for (size_t i = 0; i < cache->keys().size(); ++i)
                            counts[cache->keys()[i]] = cache->counts()[i];
                        for (uint64_t c = 0; c < matrix.column_count(); ++c)
                            REQUIRE(counts[matrix.keys[c]] ==
                                    matrix.offsets[c + 1] - matrix.offsets[c]);
                        Result<ColumnBlocks> blocks = (*std::move(cache)).finish(hash_groups_of(7));
                        REQUIRE(blocks);
                        check_same(*blocks, matrix);
                    }
                }
                CHECK(cached_names(scratch.path("cache")) ==
                      std::vector<std::string>{"part-1-of-1.columns", "parts-2-4-of-4.columns"});
            }
        }
    }

    TEST_CASE("a matrix in memory is read by the same calls") {
        WEIR_TEST_SEED(seed, 42);
        const Made made(seed);
        Result<Examples> examples = read_libsvm(made.paths, {});
        REQUIRE(examples);
        const FeatureMatrix matrix = make_feature_matrix(*std::move(examples), hash_groups_of(5));
        FeatureMatrix copy = matrix;
        ColumnBlocks blocks(std::move(copy));
        check_same(blocks, matrix);
        CHECK(blocks.data_bytes() == matrix.data_bytes());
        CHECK(sweep(blocks));
    }

    TEST_CASE("a share without examples has a cache, too") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a.svm", "1 1:1\n")};
        for (int i = 0; i < 2; ++i) {
            Result<ColumnBlocks> blocks =
                cached(paths, {.parts = {{5, 9}}}, in_folder(scratch), hash_groups_of(3));
            REQUIRE(blocks);
            CHECK(blocks->row_count() == 0);
            CHECK(blocks->group_count() == 3);
            CHECK(sweep(*blocks));
        }
    }

    TEST_CASE("blocks in memory never take more than the limit, and stay while they fit") {
        WEIR_TEST_SEED(seed, 43);
        Random random(seed);
        const test::Scratch scratch;
        const std::vector<std::string> paths = {
            scratch.file("a.svm", random_lines(random, 100000, true))};
        Result<ColumnBlocks> all = cached(paths, {}, in_folder(scratch), hash_groups_of(40));
        REQUIRE(all);
        const uint64_t bytes = all->data_bytes();
        REQUIRE(sweep(*all));
        REQUIRE(sweep(*all));
        CHECK(all->counts().read_bytes < bytes);  // the second sweep read nothing
        const uint64_t index_bytes = bytes - all->counts().read_bytes;
        const uint64_t quarter = index_bytes + (bytes - index_bytes) / 4;
        Result<ColumnBlocks> some =
            cached(paths, {}, in_folder(scratch, quarter), hash_groups_of(40));
        REQUIRE(some);
        CHECK(some->memory_bytes() == quarter);
        for (int i = 0; i < 4; ++i)
            REQUIRE(sweep(*some));
        const BlockReader::Counts counts = some->counts();
        CHECK(counts.held_bytes_max <= quarter - index_bytes);
        CHECK(counts.held_bytes_max > (quarter - index_bytes) / 2);
        CHECK(counts.read_bytes < 4 * all->counts().read_bytes);  // some stayed
    }

    TEST_CASE("a limit that is too small is an error with the least that is enough") {
        WEIR_TEST_SEED(seed, 44);
        const Made made(seed, 5000);
        const std::string text =
            refusal(cached(made.paths, {}, in_folder(made.scratch, 1000), hash_groups_of(5)));
        CAPTURE(text);
        CHECK(says(text, "--memory is too small: "));
        CHECK(says(text, "or more blocks"));
        const uint64_t least = std::stoull(text.substr(text.find(": ") + 2));
        CHECK_FALSE(cached(made.paths, {}, in_folder(made.scratch, least - 1), hash_groups_of(5)));
        Result<ColumnBlocks> blocks =
            cached(made.paths, {}, in_folder(made.scratch, least), hash_groups_of(5));
        REQUIRE(blocks);
        REQUIRE(sweep(*blocks));
        // All open at once do not fit: an error, and no wait without end.
        Status last;
        uint32_t open = 0;
        for (; open < blocks->group_count() && last; ++open) {
            Result<linalg::Columns> columns = blocks->open(open);
            if (!columns) last = columns.error();
        }
        CHECK(last.code() == Errc::kNoMemory);
        for (uint32_t g = 0; g + 1 < open; ++g)
            blocks->done(g);
        CHECK(sweep(*blocks));
    }

    TEST_CASE("a damaged byte anywhere is an error that names the file, or without effect") {
        WEIR_TEST_SEED(seed, 45);
        const Made made(seed, 60);
        const std::string good = test::Scratch::content(made.file);
        Random random(seed);
        uint64_t found_count = 0;
        for (uint64_t place = 0; place < good.size(); place += 1 + random.below(29)) {
            const char changed[] = {static_cast<char>(good[place] ^ (1 << random.below(8)))};
            overwrite(made.file, place, {changed, 1});
            Result<ColumnBlocks> blocks = made.open();
            const Status status = blocks ? sweep(*blocks) : Status(blocks.error());
            overwrite(made.file, place, {&good[place], 1});
            if (status) continue;  // between two blocks
            ++found_count;
            CHECK(status.code() == Errc::kParse);
            CHECK_MESSAGE(says(status.error().message(), made.file), status.error().message());
            CHECK_MESSAGE(says(status.error().message(), place < 8 ? "move it away" : "remove it"),
                          status.error().message());
        }
        CHECK(found_count > 50);
        Result<ColumnBlocks> blocks = made.open();
        REQUIRE(blocks);
        CHECK(sweep(*blocks));
    }

    TEST_CASE("a block with a right checksum is refused if it would lead out of a solver's lists") {
        // Two columns of three rows: 0 and 2, then 1.
        const auto damage = [](std::vector<uint64_t> places, std::vector<uint32_t> rows) {
            std::vector<std::byte> bytes(8 * places.size() + 4 * rows.size());
            std::memcpy(bytes.data(), places.data(), 8 * places.size());
            std::memcpy(bytes.data() + 8 * places.size(), rows.data(), 4 * rows.size());
            const BlockPlace block{{2, 3, false}, 0, cache_checksum(bytes, 7)};
            return block_damage(bytes, block, 7, 3);
        };
        CHECK_FALSE(damage({0, 2, 3}, {0, 2, 1}));
        CHECK(damage({0, 2, 3}, {0, 3, 1}) == "it has rows that do not exist");
        CHECK(damage({0, 2, 3}, {0xffffffff, 2, 1}) == "it has rows that do not exist");
        CHECK(damage({0, 4, 3}, {0, 2, 1}) == "its columns overlap");
        CHECK(damage({1, 2, 3}, {0, 2, 1}) == "its columns overlap");
        CHECK(damage({0, 2, 4}, {0, 2, 1}) == "its columns overlap");
    }

    TEST_CASE("a file that is cut off, before or while it is used, is an error") {
        WEIR_TEST_SEED(seed, 46);
        const Made made(seed);
        const std::string good = test::Scratch::content(made.file);
        for (const size_t bytes :
             {size_t{0}, size_t{7}, size_t{39}, size_t{41}, good.size() / 2, good.size() - 1}) {
            fs::resize_file(made.file, bytes);
            const std::string text = refusal(made.open());
            CHECK_MESSAGE(says(text, made.file + ": is damaged"), text);
            std::ofstream(made.file, std::ios::binary) << good;
        }
        Result<ColumnBlocks> blocks = made.open();
        REQUIRE(blocks);
        fs::resize_file(made.file, good.size() / 2);
        const std::string text = refusal(sweep(*blocks));
        CHECK_MESSAGE(says(text, made.file + ": is cut off"), text);
    }

    TEST_CASE("another version, and a file that is no cache, are told apart from damage") {
        WEIR_TEST_SEED(seed, 47);
        const Made made(seed);
        overwrite(made.file, 8, "\x07");
        const std::string version = refusal(made.open());
        CHECK_MESSAGE(says(version, made.file + ": was made by another version of Weir (format 7, "
                                                "this one has 1); remove it"),
                      version);
        overwrite(made.file, 0, "1 1:1 2:");
        const std::string foreign = refusal(made.open());
        CHECK_MESSAGE(says(foreign, made.file + ": is no cache of Weir"), foreign);
        CHECK(says(foreign, "--cache"));
    }

    TEST_CASE("a cache of other data is not used and not overwritten") {
        WEIR_TEST_SEED(seed, 48);
        const Made made(seed);
        const std::string good = test::Scratch::content(made.file);
        const auto refused = [&](const std::string& text, std::string_view part) {
            CHECK_MESSAGE(says(text, made.file + ": is a cache "), text);
            CHECK_MESSAGE(says(text, part), text);
            CHECK_MESSAGE(says(text, "--cache"), text);
            CHECK(test::Scratch::content(made.file) == good);
        };
        refused(refusal(made.open({.skip_bad = 3})), "'bad lines that may be left out 3'");
        ReadOptions labels;
        labels.format.labels = *LabelMap::parse("1:-1,-1:+1");
        refused(refusal(made.open(labels)), "labels 1:-1,-1:+1");
        refused(refusal(cached(made.paths, {}, in_folder(made.scratch), hash_groups_of(6))),
                "(5 blocks, not 6)");
        const FeatureGroups other = {5, [](uint64_t key) { return uint32_t(mix64(~key) % 5); }};
        refused(refusal(cached(made.paths, {}, in_folder(made.scratch), other)), "another seed");
        const std::vector<std::string> two = {made.paths[0], made.paths[0]};
        refused(refusal(cached(two, {}, in_folder(made.scratch), hash_groups_of(5))),
                "it was made with 'nothing', now it is 'file train.svm");
        std::ofstream(made.paths[0], std::ios::app) << "1 1:1\n";
        refused(refusal(made.open()), "file train.svm of ");
    }

    TEST_CASE("bad lines and labels are the errors of reading, and leave nothing behind") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a.svm", "1 1:1\noops\n-1 2:1\n")};
        const std::string text = refusal(cached(paths, {}, in_folder(scratch), hash_groups_of(1)));
        CHECK_MESSAGE(says(text, paths[0] + ":2:1: expected a label"), text);
        CHECK(cached_names(scratch.path("cache")).empty());
        Result<ColumnCache> cache = ColumnCache::open(paths, {.skip_bad = 1}, in_folder(scratch));
        REQUIRE(cache);
        CHECK(cache->report().bad_line_count == 1);
        REQUIRE((*std::move(cache)).finish(hash_groups_of(1)));
        const Result<ColumnCache> found =
            ColumnCache::open(paths, {.skip_bad = 1}, in_folder(scratch));
        REQUIRE(found);
        CHECK(found->was_found());
        CHECK(found->report().bad_line_count == 1);
        CHECK(says(found->report().first_bad_line, "a.svm:2:1"));
    }

    TEST_CASE("standard input and pipes cannot be cached") {
        const test::Scratch scratch;
        for (const char* const path : {"-", "/dev/stdin", "/dev/null"}) {
            const std::string text = refusal(
                cached(std::vector<std::string>{path}, {}, in_folder(scratch), hash_groups_of(1)));
            CHECK_MESSAGE(says(text, std::string(path) + ": cannot be cached"), text);
        }
    }

    TEST_CASE("a cache that another process makes just now is left alone; a dead one's is taken") {
        WEIR_TEST_SEED(seed, 49);
        Random random(seed);
        const test::Scratch scratch;
        const std::vector<std::string> paths = {
            scratch.file("a.svm", random_lines(random, 100, true))};
        {
            const Result<ColumnCache> first = ColumnCache::open(paths, {}, in_folder(scratch));
            REQUIRE(first);
            const std::string text = refusal(ColumnCache::open(paths, {}, in_folder(scratch)));
            CHECK_MESSAGE(says(text, "another job makes its cache here just now"), text);
            CHECK(says(text, scratch.path("cache")));
        }
        CHECK(cached_names(scratch.path("cache")).empty());
        std::ofstream(scratch.path("cache/part-1-of-1.columns.building")) << "half";
        CHECK(cached(paths, {}, in_folder(scratch), hash_groups_of(2)));
        CHECK(cached_names(scratch.path("cache")) ==
              std::vector<std::string>{"part-1-of-1.columns"});
    }

    TEST_CASE("training files stay in use while the stop hook ends reading or sorting") {
        WEIR_TEST_SEED(seed, 50);
        Random random(seed);
        const test::Scratch scratch;
        const std::vector<std::string> paths = {
            scratch.file("a.svm", random_lines(random, 1000, true))};
        bool stops = true;
        const ReadOptions read{.stop = [&] { return stops; }};
        CHECK(ColumnCache::open(paths, read, in_folder(scratch)).code() == Errc::kCancelled);
        stops = false;
        {
            Result<ColumnCache> cache = ColumnCache::open(paths, read, in_folder(scratch));
            REQUIRE(cache);
            stops = true;
            CHECK((*std::move(cache)).finish(hash_groups_of(2), read.stop).code() ==
                  Errc::kCancelled);
        }
        CHECK(cached_names(scratch.path("cache")).empty());
    }

    TEST_CASE("a folder that is a file, or that cannot be written, is an error that names it") {
        const test::Scratch scratch;
        const std::vector<std::string> paths = {scratch.file("a.svm", "1 1:1\n")};
        CacheOptions options = in_folder(scratch);
        options.folder = paths[0];
        const std::string file = refusal(cached(paths, {}, options, hash_groups_of(1)));
        CHECK_MESSAGE(says(file, "--cache " + paths[0] + ": the folder cannot be made"), file);
        options.folder = "/proc/self";
        const std::string proc = refusal(cached(paths, {}, options, hash_groups_of(1)));
        CHECK_MESSAGE(says(proc, "/proc/self/part-1-of-1.columns.building: cannot be written"),
                      proc);
    }

    TEST_CASE("without space the error says how much is needed, and nothing is left behind") {
        WEIR_TEST_SEED(seed, 51);
        Random random(seed);
        const test::Scratch scratch;
        const std::vector<std::string> paths = {
            scratch.file("a.svm", random_lines(random, 30000, true))};
        // While rows are spilled, and while runs are made: a limit of file sizes has the same way
        // through the code as a full disk.
        for (const rlim_t bytes : {rlim_t{100} << 10, rlim_t{2} << 20}) {
            const pid_t child = ::fork();
            if (child == 0) {
                const rlimit limit{bytes, bytes};
                ::signal(SIGXFSZ, SIG_IGN);
                ::setrlimit(RLIMIT_FSIZE, &limit);
                const Result<ColumnBlocks> blocks =
                    cached(paths, {}, in_folder(scratch), hash_groups_of(5));
                const bool is_good = blocks.code() == Errc::kIo &&
                                     says(blocks.error().message(), "--cache ") &&
                                     says(blocks.error().message(), "bytes is needed");
                ::_exit(is_good ? 0 : 1);
            }
            int status = -1;
            REQUIRE(::waitpid(child, &status, 0) == child);
            CHECK(status == 0);
            CHECK(cached_names(scratch.path("cache")).empty());
        }
        CHECK(cached(paths, {}, in_folder(scratch), hash_groups_of(5)));
    }

    TEST_CASE("a name says which parts a file has") {
        CHECK(cache_name(std::vector<Part>{{1, 8}}) == "part-2-of-8.columns");
        CHECK(cache_name(std::vector<Part>{{0, 12}, {4, 12}}) == "parts-1-5-of-12.columns");
        std::vector<Part> many;
        for (uint32_t i = 0; i < 100; ++i)
            many.push_back({i, 200});
        const std::string all = cache_name(many);
        many[99].index = 150;
        CHECK(all != cache_name(many));
        CHECK(all.size() < 50);
        CHECK(cache_name({}) == "parts-none.columns");
    }
}

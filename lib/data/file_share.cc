// SPDX-License-Identifier: Apache-2.0
#include "lib/data/file_share.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "lib/data/input_file.h"

namespace weir::data {

namespace {

struct FileFacts {
    uint64_t size_bytes = 0;
    bool gzip = false;
    bool stream = false;
};

Result<FileFacts> inspect(const std::string& path) {
    const std::string name = input_name(path);
    const bool standard_input = path == kStandardInput;
    struct stat facts = {};
    if ((standard_input ? ::fstat(STDIN_FILENO, &facts) : ::stat(path.c_str(), &facts)) != 0) {
        const int reason = errno;
        if (reason == ENOENT) {
            return Error(Errc::kNotFound, fmt::format("{}: no such file; check the path", name));
        }
        return Error(
            Errc::kIo,
            fmt::format("{}: cannot be examined; check the permissions of its folders", name),
            reason);
    }
    if (S_ISDIR(facts.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is a directory; name the files in it ({}/*)", name, name));
    }
    if (standard_input && !standard_input_is_a_file()) return FileFacts{0, false, true};
    if (!S_ISREG(facts.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is not a regular file; write the data to one first, or pipe "
                                 "it into -",
                                 name));
    }
    const Descriptor fd = open_input(path);
    if (!fd) return Error(Errc::kIo, fmt::format("{}: cannot be opened", name), errno);
    std::array<char, kMagicBytes> start = {};
    const ssize_t got = ::read(fd.get(), start.data(), start.size());
    if (got < 0) return Error(Errc::kIo, fmt::format("{}: cannot be read", name), errno);
    if (got == 0) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is empty; it should hold LIBSVM lines", name));
    }
    const std::string_view magic(start.data(), static_cast<size_t>(got));
    WEIR_TRY(check_unpacked(magic, path));
    return FileFacts{static_cast<uint64_t>(facts.st_size), is_gzip(magic)};
}

/// Deals out whole gzip files, largest first, each to the reader with the fewest bytes so far.
void share_whole(std::span<const std::string> paths, std::span<const FileFacts> facts, Part part,
                 std::vector<FileShare>& shares) {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < paths.size(); ++i) {
        if (facts[i].gzip) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return facts[a].size_bytes > facts[b].size_bytes;
    });
    std::vector<uint64_t> load(part.count, 0);
    for (const uint32_t i : order) {
        const auto least = std::min_element(load.begin(), load.end());
        *least += facts[i].size_bytes;
        if (least - load.begin() == part.index)
            shares.push_back({.path = paths[i], .gzip = true, .pieces = {}});
    }
}

}  // namespace

Result<std::vector<FileShare>> share_files(std::span<const std::string> paths, Part part) {
    WEIR_CHECK(part.index < part.count);
    std::vector<FileFacts> facts;
    uint64_t plain_bytes = 0;
    uint32_t gzip_count = 0;
    for (const std::string& path : paths) {
        WEIR_ASSIGN(const FileFacts fact, inspect(path));
        facts.push_back(fact);
        if (fact.stream && part.count > 1) {
            return Error(
                Errc::kInvalidArgument,
                fmt::format("{} cannot be read by several workers; write it to a file first",
                            input_name(path)));
        }
        if (!fact.gzip) plain_bytes += fact.size_bytes;
        if (fact.gzip) ++gzip_count;
    }
    const auto cut = [&](uint64_t index) {
        return static_cast<uint64_t>(static_cast<uint128>(plain_bytes) * index / part.count);
    };
    const uint64_t mine_begin = cut(part.index);
    const uint64_t mine_end = cut(part.index + 1);
    std::vector<FileShare> shares;
    uint64_t start = 0;  // of this file in the plain files laid end to end
    for (size_t i = 0; i < paths.size(); ++i) {
        if (facts[i].stream) {
            shares.push_back({.path = paths[i], .stream = true, .pieces = {}});
            continue;
        }
        if (facts[i].gzip) {
            if (gzip_count < part.count) {
                shares.push_back({.path = paths[i], .gzip = true, .pieces = part});
            }
            continue;
        }
        const uint64_t begin = std::max(start, mine_begin);
        const uint64_t end = std::min(start + facts[i].size_bytes, mine_end);
        if (begin < end) {
            shares.push_back(
                {.path = paths[i], .begin = begin - start, .end = end - start, .pieces = {}});
        }
        start += facts[i].size_bytes;
    }
    if (gzip_count >= part.count) share_whole(paths, facts, part, shares);
    return shares;
}

Result<std::vector<FileShare>> whole_files(std::span<const std::string> paths) {
    std::vector<FileShare> files;
    for (const std::string& path : paths) {
        WEIR_ASSIGN(const FileFacts fact, inspect(path));
        files.push_back({.path = path, .gzip = fact.gzip, .stream = fact.stream, .pieces = {}});
        if (!fact.gzip && !fact.stream) files.back().end = fact.size_bytes;
    }
    return files;
}

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/file_share.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/random.h"

namespace weir::data {

namespace {

struct FileFacts {
    uint64_t size_bytes = 0;
    bool gzip = false;
};

struct Packer {
    std::string_view magic;
    std::string_view name;
    std::string_view unpack;
};

constexpr std::array<Packer, 4> kOtherPackers = {{
    {{"\xfd"
      "7zXZ",
      5},
     "xz",
     "xz -dk"},
    {"\x28\xb5\x2f\xfd", "zstd", "zstd -dk"},
    {"BZh", "bzip2", "bzip2 -dk"},
    {"PK\x03\x04", "zip", "unzip"},
}};

Result<FileFacts> inspect(const std::string& path) {
    struct stat facts = {};
    if (::stat(path.c_str(), &facts) != 0) {
        const int reason = errno;
        if (reason == ENOENT) {
            return Error(Errc::kNotFound, fmt::format("{}: no such file; check the path", path));
        }
        return Error(Errc::kIo, fmt::format("{}: cannot be looked at", path), reason);
    }
    if (S_ISDIR(facts.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is a directory; name the files in it ({}/*)", path, path));
    }
    if (!S_ISREG(facts.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is not a regular file; write the data to one first", path));
    }
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Error(Errc::kIo, fmt::format("{}: cannot be opened", path), errno);
    std::array<char, 6> start = {};
    const ssize_t got = ::read(fd, start.data(), start.size());
    const int reason = errno;
    ::close(fd);
    if (got < 0) return Error(Errc::kIo, fmt::format("{}: cannot be read", path), reason);
    if (got == 0) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is empty; it should hold LIBSVM lines", path));
    }
    const std::string_view magic(start.data(), static_cast<size_t>(got));
    for (const Packer& packer : kOtherPackers) {
        if (!magic.starts_with(packer.magic)) continue;
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is {}-compressed; unpack it with {} {}", path, packer.name,
                                 packer.unpack, path));
    }
    return FileFacts{static_cast<uint64_t>(facts.st_size), magic.starts_with("\x1f\x8b")};
}

/// Whole gzip files, the biggest first, each to whoever has least so far.
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
        if (!fact.gzip) plain_bytes += fact.size_bytes;
        if (fact.gzip) ++gzip_count;
    }
    const auto cut = [&](uint64_t index) {
        return static_cast<uint64_t>(static_cast<uint128>(plain_bytes) * index / part.count);
    };
    const uint64_t mine_begin = cut(part.index);
    const uint64_t mine_end = cut(part.index + 1);
    std::vector<FileShare> shares;
    uint64_t start = 0;  // of this file in all plain bytes, end to end
    for (size_t i = 0; i < paths.size(); ++i) {
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

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/choose.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "lib/checkpoint/folder.h"

namespace weir::checkpoint {
namespace {

constexpr std::string_view kNoOther = "no other checkpoint of the folder has all its files";

bool needs(const Manifest& manifest, std::string_view chunk) {
    return std::ranges::find(manifest.chunks, chunk, &ChunkEntry::name) != manifest.chunks.end();
}

/// "3, 4 and 5"; of many, the newest.
std::string text_of(std::span<const uint64_t> numbers) {
    constexpr size_t kNamedMax = 10;
    std::string text = numbers.size() > kNamedMax ? "..., " : "";
    const auto named = numbers.last(std::min(numbers.size(), kNamedMax));
    for (size_t i = 0; i < named.size(); ++i) {
        if (i > 0) text += i + 1 == named.size() ? " and " : ", ";
        text += std::to_string(named[i]);
    }
    return text;
}

}  // namespace

Result<uint64_t> find_checkpoint(Disk& disk, const std::string& folder, uint64_t number) {
    WEIR_ASSIGN(const std::vector<uint64_t> numbers, list_checkpoints(disk, folder));
    if (numbers.empty()) return no_checkpoint(folder);
    if (number == 0) return numbers.back();
    if (std::ranges::binary_search(numbers, number)) return number;
    return Error(Errc::kNotFound,
                 fmt::format("{}: there is no checkpoint {}; choose one that is there: {}", folder,
                             number, text_of(numbers)));
}

Result<Manifest> open_checkpoint(Disk& disk, const std::string& folder, uint64_t number) {
    Result<Manifest> manifest = read_manifest(disk, folder, number);
    if (manifest) WEIR_TRY(check_chunks(disk, folder, *manifest));
    return manifest;
}

Result<Manifest> choose_checkpoint(Disk& disk, const std::string& folder, uint64_t number) {
    WEIR_ASSIGN(number, find_checkpoint(disk, folder, number));
    Result<Manifest> manifest = open_checkpoint(disk, folder, number);
    if (manifest) return manifest;
    const Error& why = manifest.error();
    return Error(why.code(), why.text() + other_choice(disk, folder, number), why.os_error());
}

Result<Chosen> choose_newest_whole(Disk& disk, const std::string& folder, const CheckEnd& end) {
    Chosen chosen;
    ChunkCheck chunks(disk, folder, end);
    WEIR_ASSIGN(const std::vector<uint64_t> numbers, list_checkpoints(disk, folder));
    if (numbers.empty()) return no_checkpoint(folder);
    for (size_t i = numbers.size(); i > 0; --i) {
        const uint64_t number = numbers[i - 1];
        Result<Manifest> manifest = open_checkpoint(disk, folder, number);
        const Result<size_t> unread =
            manifest ? chunks.check(*manifest) : Result<size_t>(manifest.error());
        if (unread) {
            chosen.unread_count = *unread;
            chosen.manifest = *std::move(manifest);
            return chosen;
        }
        if (unread.code() == Errc::kUnavailable) {
            const Error& why = unread.error();
            return Error(why.code(), why.text() + other_choice(disk, folder, number));
        }
        chosen.left_out.push_back({number, unread.error()});
    }
    const Error& why = chosen.left_out.front().why;
    return Error(why.code(), fmt::format("{}; {}", why.text(), kNoOther), why.os_error());
}

std::string other_choice(Disk& disk, const std::string& folder, uint64_t number,
                         std::string_view chunk) {
    const Result<std::vector<uint64_t>> numbers = list_checkpoints(disk, folder);
    if (!numbers) return {};
    for (size_t i = numbers->size(); i > 0; --i) {
        const uint64_t other = (*numbers)[i - 1];
        if (other == number) continue;
        const Result<Manifest> manifest = open_checkpoint(disk, folder, other);
        if (!manifest || needs(*manifest, chunk)) continue;
        return fmt::format(
            "; `resume` {} `resume_number` {} goes on from the newest "
            "other one that has all its files",
            folder, other);
    }
    return fmt::format("; {}{}", kNoOther, chunk.empty() ? "" : " and does not need this one");
}

}  // namespace weir::checkpoint

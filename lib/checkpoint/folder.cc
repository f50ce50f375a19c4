// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include <fmt/core.h>

#include "lib/checkpoint/chunk_check.h"
#include "lib/checkpoint/manifest.h"

namespace weir::checkpoint {
namespace {

constexpr std::string_view kManifestSuffix = ".manifest";
constexpr std::string_view kChunkSuffix = ".chunk";

enum class FileKind : uint8_t { kManifest, kChunk, kPart };

struct FileName {
    uint64_t number = 0;
    FileKind kind = FileKind::kChunk;
};

/// What a file is, if it belongs to a checkpoint.
std::optional<FileName> parse_name(std::string_view name) noexcept {
    FileName file;
    const char* const end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data(), end, file.number);
    if (error != std::errc() || after - name.data() < 6) return std::nullopt;
    const std::string_view rest(after, static_cast<size_t>(end - after));
    if (rest == kManifestSuffix) {
        file.kind = FileKind::kManifest;
    } else if (rest.starts_with(kManifestSuffix) &&
               rest.substr(kManifestSuffix.size()) == kPartSuffix) {
        file.kind = FileKind::kPart;
    } else if (!rest.starts_with(".t") || !rest.ends_with(kChunkSuffix) ||
               rest.find('/') != std::string_view::npos) {
        return std::nullopt;
    }
    return file;
}

/// A checkpoint that stays cannot be read: which chunks it needs is not known, or it is of no use, and
/// an older one may be the last that is.
Error cannot_prune(const std::string& folder, uint64_t number, const Error& why) {
    return {
        why.code(),
        fmt::format("nothing was removed, because checkpoint {}, which is to stay, cannot be gone "
                    "on from: {}. If you do not need that checkpoint, remove {}, and prune again",
                    number, why.text(), path_of(folder, manifest_name(number))),
        why.os_error()};
}

Result<Manifest> read_checked(Disk& disk, const std::string& folder, uint64_t number,
                              bool reads_bytes) {
    Result<Manifest> manifest = read_manifest(disk, folder, number);
    if (!manifest) return manifest;
    WEIR_TRY(check_chunks(disk, folder, *manifest));
    if (reads_bytes) WEIR_TRY(ChunkCheck(disk, folder).check(*manifest));
    return manifest;
}

}  // namespace

std::string manifest_name(uint64_t number) {
    return fmt::format("{:06}{}", number, kManifestSuffix);
}

std::string chunk_name(uint64_t checkpoint, uint32_t table, uint64_t first, uint32_t writer) {
    return fmt::format("{:06}.t{}.{:016x}.s{}{}", checkpoint, table, first, writer, kChunkSuffix);
}

bool is_chunk_name(std::string_view name) noexcept {
    const std::optional<FileName> file = parse_name(name);
    return file && file->kind == FileKind::kChunk;
}

uint64_t writer_of(std::string_view chunk_name) noexcept {
    const std::optional<FileName> file = parse_name(chunk_name);
    return file ? file->number : 0;
}

std::string path_of(const std::string& folder, std::string_view name) {
    return fmt::format("{}/{}", folder, name);
}

Result<std::vector<uint64_t>> list_checkpoints(Disk& disk, const std::string& folder) {
    WEIR_ASSIGN(const std::vector<std::string> names, disk.list(folder));
    std::vector<uint64_t> numbers;
    for (const std::string& name : names) {
        const std::optional<FileName> file = parse_name(name);
        if (file && file->kind == FileKind::kManifest && manifest_name(file->number) == name)
            numbers.push_back(file->number);
    }
    std::ranges::sort(numbers);
    return numbers;
}

Error no_checkpoint(const std::string& folder) {
    return {
        Errc::kNotFound,
        fmt::format("{}: there is no checkpoint (no file like {}); check the name of the folder",
                    folder, manifest_name(1))};
}

Result<uint64_t> latest(Disk& disk, const std::string& folder) {
    WEIR_ASSIGN(const std::vector<uint64_t> numbers, list_checkpoints(disk, folder));
    if (numbers.empty()) return no_checkpoint(folder);
    return numbers.back();
}

Result<uint64_t> next_number(Disk& disk, const std::string& folder) {
    WEIR_ASSIGN(const std::vector<std::string> names, disk.list(folder));
    uint64_t highest = 0;
    for (const std::string& name : names) {
        if (const std::optional<FileName> file = parse_name(name))
            highest = std::max(highest, file->number);
    }
    return highest + 1;
}

Result<Pruned> prune(Disk& disk, const std::string& folder, const Keep& keep, PruneCheck check) {
    WEIR_ASSIGN(std::vector<uint64_t> numbers, list_checkpoints(disk, folder));
    std::erase_if(numbers, [&](uint64_t number) { return number < keep.before; });
    Pruned pruned;
    if (numbers.empty()) return pruned;
    std::vector<uint64_t> gone = numbers;
    std::erase_if(gone, [&](uint64_t number) { return keep.are_others(number); });
    gone.resize(gone.size() - std::min(gone.size(), std::max<size_t>(keep.newest, 1)));
    if (keep.needed) std::erase(gone, *keep.needed);
    std::set<std::string, std::less<>> named;
    for (const uint64_t number : numbers) {
        if (std::ranges::binary_search(gone, number)) continue;
        const bool reads_bytes = check == PruneCheck::kBytes && number == numbers.back();
        const Result<Manifest> manifest = read_checked(disk, folder, number, reads_bytes);
        if (!manifest) return cannot_prune(folder, number, manifest.error());
        for (const ChunkEntry& chunk : manifest->chunks)
            named.insert(chunk.name);
    }
    for (const uint64_t number : gone) {
        WEIR_TRY(disk.remove(path_of(folder, manifest_name(number))));
        pruned.checkpoints.push_back(number);
    }
    // A manifest must never be there without its chunks.
    WEIR_TRY(disk.sync_folder(folder));
    WEIR_ASSIGN(const std::vector<std::string> names, disk.list(folder));
    for (const std::string& name : names) {
        const std::optional<FileName> file = parse_name(name);
        if (!file || file->kind == FileKind::kManifest || file->number > numbers.back()) continue;
        if (file->number < keep.before || keep.are_others(file->number)) continue;
        if (named.contains(name)) continue;
        WEIR_TRY(disk.remove(path_of(folder, name)));
        if (file->kind == FileKind::kChunk) ++pruned.chunk_count;
    }
    return pruned;
}

Result<std::vector<std::string>> list_unfinished(Disk& disk, const std::string& folder,
                                                 const Unfinished& numbers) {
    WEIR_ASSIGN(const std::vector<uint64_t> whole, list_checkpoints(disk, folder));
    WEIR_ASSIGN(const std::vector<std::string> names, disk.list(folder));
    std::set<std::string, std::less<>> left;
    for (const std::string& name : names) {
        const std::optional<FileName> file = parse_name(name);
        if (!file || file->kind == FileKind::kManifest) continue;
        if (file->number < numbers.lowest || file->number > numbers.highest) continue;
        if (!whole.empty() && file->number <= whole.back()) continue;
        if (std::ranges::find(numbers.spared, file->number) == numbers.spared.end())
            left.insert(name);
    }
    // A chunk that was copied from another folder has the number that it had there.
    for (const uint64_t number : whole) {
        if (left.empty()) break;
        WEIR_ASSIGN(const Manifest manifest, read_manifest(disk, folder, number));
        for (const ChunkEntry& chunk : manifest.chunks)
            left.erase(chunk.name);
    }
    return std::vector<std::string>(left.begin(), left.end());
}

Result<size_t> remove_unfinished(Disk& disk, const std::string& folder, const Unfinished& numbers) {
    WEIR_ASSIGN(const std::vector<std::string> left, list_unfinished(disk, folder, numbers));
    for (const std::string& name : left)
        WEIR_TRY(disk.remove(path_of(folder, name)));
    return left.size();
}

Result<std::unique_ptr<NewFile>> write_new_file(Disk& disk, const std::string& folder,
                                                const std::string& name,
                                                std::span<const std::byte> bytes) {
    const std::string path = path_of(folder, name);
    WEIR_ASSIGN(std::unique_ptr<NewFile> file, disk.create(path));
    const Status written = file->write(bytes);
    if (written) return file;
    (void)disk.remove(path);  // the first error counts
    return written.error();
}

Status write_file(Disk& disk, const std::string& folder, const std::string& name,
                  std::span<const std::byte> bytes) {
    WEIR_ASSIGN(const std::unique_ptr<NewFile> file, write_new_file(disk, folder, name, bytes));
    Status synced = file->sync();
    if (!synced) (void)disk.remove(path_of(folder, name));
    return synced;
}

}  // namespace weir::checkpoint

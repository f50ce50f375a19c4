// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lib/checkpoint/choose.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/folder_owner.h"
#include "lib/checkpoint/range_reader.h"
#include "tools/weir/checkpoint/checkpoint_export.h"
#include "tools/weir/checkpoint/checkpoint_report.h"
#include "tools/weir/command.h"
#include "tools/weir/paths.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

using checkpoint::Manifest;
using checkpoint::RealDisk;

/// The checkpoint that the flags name.
Result<Manifest> chosen(RealDisk& disk, const CheckpointFlags& flags) {
    WEIR_ASSIGN(const uint64_t number,
                checkpoint::find_checkpoint(disk, flags.folder, flags.number));
    return checkpoint::read_manifest(disk, flags.folder, number);
}

/// Everything that is wrong with a checkpoint.
std::vector<std::string> faults_of(RealDisk& disk, const std::string& folder, uint64_t number) {
    std::vector<std::string> faults;
    const Result<Manifest> manifest = checkpoint::read_manifest(disk, folder, number);
    if (!manifest) return {manifest.error().message()};
    std::vector<std::byte> bytes;
    for (const TableSchema& table : manifest->tables) {
        std::optional<uint32_t> state_bytes;  // the same in every chunk of a table
        for (const checkpoint::ChunkEntry& entry : manifest->chunks_of(table.id)) {
            const auto chunk = checkpoint::read_chunk(disk, folder, entry, table, bytes);
            if (!chunk) {
                faults.push_back(chunk.error().message());
                continue;
            }
            if (state_bytes && *state_bytes != chunk->place.rows.state_bytes)
                faults.push_back(
                    fmt::format("{}: its rows have another state than those of the "
                                "chunks before it; use another checkpoint",
                                checkpoint::path_of(folder, entry.name)));
            state_bytes = chunk->place.rows.state_bytes;
        }
    }
    return faults;
}

}  // namespace

int run_checkpoint_list(const CheckpointFlags& flags) {
    RealDisk disk;
    const auto numbers = checkpoint::list_checkpoints(disk, flags.folder);
    if (!numbers) return failure(numbers.error());
    std::vector<Manifest> manifests;
    int code = kExitOk;
    for (const uint64_t number : *numbers) {
        Result<Manifest> manifest = checkpoint::read_manifest(disk, flags.folder, number);
        if (manifest) {
            manifests.push_back(*std::move(manifest));
        } else {
            code = failure(manifest.error());
        }
    }
    if (const Status told = print_result(flags.json, list_text(manifests), list_json(manifests));
        !told)
        return failure(told.error());
    return code;
}

int run_checkpoint_show(const CheckpointFlags& flags) {
    RealDisk disk;
    const Result<Manifest> manifest = chosen(disk, flags);
    if (!manifest) return failure(manifest.error());
    if (const Status told = print_result(flags.json, show_text(*manifest), show_json(*manifest));
        !told)
        return failure(told.error());
    return kExitOk;
}

int run_checkpoint_verify(const CheckpointFlags& flags) {
    RealDisk disk;
    std::vector<uint64_t> numbers = {flags.number};
    if (flags.number != 0) {
        const auto found = checkpoint::find_checkpoint(disk, flags.folder, flags.number);
        if (!found) return failure(found.error());
    } else {
        auto all = checkpoint::list_checkpoints(disk, flags.folder);
        if (!all) return failure(all.error());
        if (all->empty()) return failure(checkpoint::latest(disk, flags.folder).error());
        numbers = *std::move(all);
    }
    std::vector<VerifiedCheckpoint> verified;
    verified.reserve(numbers.size());
    for (const uint64_t number : numbers)
        verified.push_back({number, faults_of(disk, flags.folder, number)});
    if (const Status told = print_result(flags.json, verify_text(verified), verify_json(verified));
        !told)
        return failure(told.error());
    const bool is_good =
        std::ranges::all_of(verified, [](const auto& v) { return v.faults.empty(); });
    return is_good ? kExitOk : kExitFailure;
}

int run_checkpoint_export(const CheckpointFlags& flags) {
    const std::array<NamedPath, 2> outputs{NamedPath{"--out", flags.out},
                                           NamedPath{"--json", flags.json}};
    if (const Status good = check_paths({}, outputs); !good) return failure(good.error());
    RealDisk disk;
    const Result<Manifest> manifest = chosen(disk, flags);
    if (!manifest) return failure(manifest.error());
    const Result<ExportReport> done = export_checkpoint(disk, *manifest, flags);
    if (!done) return failure(done.error());
    if (flags.json.empty()) return kExitOk;
    const Status told = print_result(flags.json, "", export_json(*manifest, flags, *done));
    return told ? int{kExitOk} : failure(told.error());
}

int run_checkpoint_prune(const CheckpointFlags& flags) {
    RealDisk disk;
    if (flags.unfinished) {
        const Result<std::string> owner = checkpoint::owner_of(flags.folder);
        if (owner && !owner->empty()) {
            return failure(Error(Errc::kRefused,
                                 fmt::format("{}: {} writes its checkpoints there, so what is not "
                                             "finished may be one of them; leave out --unfinished, "
                                             "or wait until it has ended",
                                             flags.folder, *owner)));
        }
    }
    const auto pruned = checkpoint::prune(disk, flags.folder, {.newest = flags.keep},
                                          checkpoint::PruneCheck::kBytes);
    if (!pruned) return failure(pruned.error());
    PruneReport report{.pruned = *pruned};
    if (flags.unfinished) {
        const auto removed = checkpoint::remove_unfinished(disk, flags.folder);
        if (!removed) return failure(removed.error());
        report.unfinished_count = *removed;
    }
    // A job that runs may just remove a manifest; then nothing is said.
    const auto left = checkpoint::list_unfinished(disk, flags.folder);
    if (const Status told = print_result(flags.json, prune_text(report), prune_json(report)); !told)
        return failure(told.error());
    if (left && !left->empty()) fmt::print(stderr, "{}", left_text(flags.folder, left->size()));
    return kExitOk;
}

}  // namespace weir::tools

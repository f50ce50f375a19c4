// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `weir checkpoint` prints, as text and as JSON.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/manifest.h"
#include "tools/weir/checkpoint/checkpoint.h"
#include "tools/weir/checkpoint/checkpoint_export.h"

namespace weir::tools {

struct VerifiedCheckpoint {
    uint64_t number = 0;
    std::vector<std::string> faults;  ///< none: it is whole
};

[[nodiscard]] std::string list_text(std::span<const checkpoint::Manifest> manifests);
[[nodiscard]] std::string list_json(std::span<const checkpoint::Manifest> manifests);
[[nodiscard]] std::string show_text(const checkpoint::Manifest& manifest);
[[nodiscard]] std::string show_json(const checkpoint::Manifest& manifest);
[[nodiscard]] std::string verify_text(std::span<const VerifiedCheckpoint> verified);
[[nodiscard]] std::string verify_json(std::span<const VerifiedCheckpoint> verified);

struct PruneReport {
    checkpoint::Pruned pruned;
    std::optional<size_t> unfinished_count = {};  ///< files that are gone; empty: not asked for
};

[[nodiscard]] std::string prune_text(const PruneReport& report);
[[nodiscard]] std::string prune_json(const PruneReport& report);
[[nodiscard]] std::string export_json(const checkpoint::Manifest& manifest,
                                      const CheckpointFlags& flags, const ExportReport& report);
/// What stays of unfinished checkpoints, for people.
[[nodiscard]] std::string left_text(const std::string& folder, size_t file_count);

}  // namespace weir::tools

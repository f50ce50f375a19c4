// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir checkpoint`: looks at the checkpoints of a folder, exports tables and removes old ones.

#include <cstddef>
#include <cstdint>
#include <string>

namespace weir::tools {

enum class ExportFormat : uint8_t { kText, kNpz, kSafetensors };

/// Of all the subcommands; each uses some.
struct CheckpointFlags {
    std::string folder;
    uint64_t number = 0;      ///< 0: the newest; `verify`: all
    std::string json = {};    ///< as --json says
    size_t keep = 0;          ///< `prune`
    bool unfinished = false;  ///< `prune`: also what is left of failed ones
    std::string table;        ///< `export`; empty: all
    std::string out = "-";
    ExportFormat format = ExportFormat::kText;
    bool with_state = false;
};

// Each returns the exit code.

int run_checkpoint_list(const CheckpointFlags& flags);
int run_checkpoint_show(const CheckpointFlags& flags);
int run_checkpoint_verify(const CheckpointFlags& flags);
int run_checkpoint_export(const CheckpointFlags& flags);
int run_checkpoint_prune(const CheckpointFlags& flags);

}  // namespace weir::tools

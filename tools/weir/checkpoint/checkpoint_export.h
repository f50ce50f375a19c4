// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Writes tables of a checkpoint as text, or dense tables as NumPy's .npz or as safetensors.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/manifest.h"
#include "tools/weir/checkpoint/checkpoint.h"

namespace weir::tools {

struct ExportReport {
    uint64_t written_bytes = 0;
    std::vector<std::string> names;  ///< of tables, and of what their rules keep
};

/// Text: one table, a line for each row with a value that is not 0: the key and the value, as in a
/// model of `weir lr`; with a width of more than 1 the key and INDEX:VALUE, as in LIBSVM files. In
/// no order of keys. The others: all dense tables, each an array of its name; its state, if asked
/// for, as NAME.state.
///
/// Errors: kInvalidArgument, naming table and flag; those of reading a chunk and of the output
[[nodiscard]] Result<ExportReport> export_checkpoint(checkpoint::Disk& disk,
                                                     const checkpoint::Manifest& manifest,
                                                     const CheckpointFlags& flags);

}  // namespace weir::tools

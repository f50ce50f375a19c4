// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Checks of the files on a command line: no file may be both read and written, or written twice.
/// `-` is standard input or standard output, and may be given once each.

#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::tools {

struct NamedPath {
    std::string_view flag;  ///< "--model"
    std::string path;       ///< empty: not given
};

/// Whether the path is standard output: `-`, /dev/stdout, /dev/fd/1 or /proc/self/fd/1.
[[nodiscard]] bool is_stdout(const std::string& path);

/// Errors: kInvalidArgument: an output is an input, two outputs are one file, two inputs are
///     standard input, or two outputs are standard output
[[nodiscard]] Status check_paths(std::span<const NamedPath> inputs,
                                 std::span<const NamedPath> outputs);

/// Fails if one of the outputs that are given cannot be written.
/// Errors: those of data::check_output()
[[nodiscard]] Status check_outputs(std::span<const NamedPath> outputs);

/// From now on what this process and those that it starts print goes to standard error. Returns a path
/// by which they can write to what was standard output. Errors: kIo
[[nodiscard]] Result<std::string> set_output_aside();

/// Makes standard input a file that several readers may read, each from its start. If it is not
/// such a file already, this copies it to an unnamed file in $TMPDIR or /tmp. Errors: kIo
[[nodiscard]] Status spool_standard_input();

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The files on a command line: none is read and written, none written twice, and `-` is standard
/// input or standard output, once each.

#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::tools {

struct NamedPath {
    std::string_view flag;  ///< "--model"
    std::string path;       ///< empty: not given
};

/// Whether this is standard output, by whatever name.
[[nodiscard]] bool is_stdout(const std::string& path);

/// Errors: kInvalidArgument: an output is an input, two outputs are one file, two things come from
///     standard input or go to standard output
[[nodiscard]] Status check_paths(std::span<const NamedPath> inputs,
                                 std::span<const NamedPath> outputs);

/// Whether each output that is given can be written. Errors: those of data::check_output()
[[nodiscard]] Status check_outputs(std::span<const NamedPath> outputs);

/// Makes standard input a file that many may read, each from its start: what is no file already is
/// copied into one without a name, in $TMPDIR or /tmp. Errors: kIo
[[nodiscard]] Status spool_standard_input();

}  // namespace weir::tools

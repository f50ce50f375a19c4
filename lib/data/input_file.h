// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Input files by name, of which `-` is standard input.

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::data {

/// A file of this name is meant by "./-".
inline constexpr std::string_view kStandardInput = "-";

/// For messages: "standard input" for `-`, else the path itself.
[[nodiscard]] std::string input_name(const std::string& path);

/// Opens it to be read from its start; standard input that is no file from where it stands. The
/// descriptor, or -1 and errno.
[[nodiscard]] int open_input(const std::string& path);

/// Whether standard input is a file at its start, which may be read more than once.
[[nodiscard]] bool standard_input_is_a_file();

/// Errors: kInvalidArgument where the first bytes are those of a packer other than gzip, with how
///     to unpack it
[[nodiscard]] Status check_unpacked(std::string_view first_bytes, const std::string& path);

/// So many bytes tell every packer.
inline constexpr size_t kMagicBytes = 6;

[[nodiscard]] bool is_gzip(std::string_view first_bytes) noexcept;

}  // namespace weir::data

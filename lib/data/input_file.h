// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Opening input files by name; the name `-` is standard input.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::data {

/// The path of standard input. A file of this name can be given as "./-".
inline constexpr std::string_view kStandardInput = "-";

/// For messages: "standard input" for `-`, else the path itself.
[[nodiscard]] std::string input_name(const std::string& path);

/// Opens the file to be read from its start; standard input that is not a file is read from its
/// position. Returns none and sets errno if it cannot be opened.
[[nodiscard]] Descriptor open_input(const std::string& path);

/// Asked while reading waits for a stream; true: it ends with kCancelled. May be empty.
using StopReading = std::function<bool()>;

/// Reads what is there, up to into.size() bytes, and waits for the first one; 0 at the end.
/// Errors: kIo, which names `name`; kCancelled
[[nodiscard]] Result<uint64_t> read_some(int fd, const std::string& name, std::span<char> into,
                                         const StopReading& stop = {});

/// Whether standard input is a regular file and stands at its start. Such a file may be read more
/// than once.
[[nodiscard]] bool standard_input_is_a_file();

/// Fails if the first bytes are those of a packed file, except gzip.
/// Errors: kInvalidArgument, with how to unpack the file
[[nodiscard]] Status check_unpacked(std::string_view first_bytes, const std::string& path);

/// This many first bytes are enough to recognize every packer.
inline constexpr size_t kMagicBytes = 6;

[[nodiscard]] bool is_gzip(std::string_view first_bytes) noexcept;

}  // namespace weir::data

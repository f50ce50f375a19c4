// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OutputFile: a file that is there whole or not at all. What was at its path stays until then.

#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::data {

/// A file of this name is meant by "./-".
inline constexpr std::string_view kStandardOutput = "-";

/// Writes to a new file beside `path` and puts it in that place at the end. What is no regular file
/// (a device, a pipe, /dev/stdout, `-`) is written as it stands, and never removed. Thread: one.
class OutputFile {
public:
    /// Errors: kIo: the path or its folder cannot be written
    [[nodiscard]] static Result<OutputFile> create(const std::string& path);

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    /// Without finish() before, nothing is left of what was written.
    ~OutputFile();

    /// Errors: kIo with what the system said
    [[nodiscard]] Status write(std::span<const char> bytes);

    /// The last call: from now on `path` holds what was written. Errors: kIo
    [[nodiscard]] Status finish();

private:
    OutputFile(int fd, std::string path, std::string target, std::string part)
        : fd_(fd), path_(std::move(path)), target_(std::move(target)), part_(std::move(part)) {}

    [[nodiscard]] Error failed(int reason) const;

    int fd_;
    std::string path_;    // as given, for messages
    std::string target_;  // path_ without symbolic links
    std::string part_;    // what is written until finish(); empty: the target itself
};

/// Whether a file can be written there; nothing is changed. Errors: kInvalidArgument, kIo
[[nodiscard]] Status check_output(const std::string& path);

/// Writes a whole file at once. Errors: kIo
[[nodiscard]] Status write_whole_file(const std::string& path, std::string_view content);

}  // namespace weir::data

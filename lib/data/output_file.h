// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OutputFile: a file that is written whole or not at all. An older file at its path stays until
/// the new one is complete.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::data {

/// The path of standard output. A file of this name can be given as "./-".
inline constexpr std::string_view kStandardOutput = "-";

/// Writes to a new file beside `path` and renames it to `path` at the end. It writes directly,
/// and never removes, what is not a regular file (a device, a pipe, /dev/stdout, `-`), and an
/// existing file in a folder where it cannot make a new one.
/// Thread: one.
class OutputFile {
public:
    /// Errors: kIo if the path or its folder cannot be written
    [[nodiscard]] static Result<OutputFile> create(const std::string& path);

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    /// Without a finish() before, it removes the new file and `path` keeps its old content.
    ~OutputFile();

    /// Errors: kIo with the system's error
    [[nodiscard]] Status write(std::span<const char> bytes);

    [[nodiscard]] uint64_t written_bytes() const noexcept { return written_bytes_; }

    /// The last call: from now on `path` holds what was written. Errors: kIo
    [[nodiscard]] Status finish();

private:
    OutputFile(Descriptor fd, std::string path, std::string target, std::string part)
        : fd_(std::move(fd)),
          path_(std::move(path)),
          target_(std::move(target)),
          part_(std::move(part)) {}

    [[nodiscard]] Error failed(int reason) const;

    Descriptor fd_;
    std::string path_;    // as given, for messages
    std::string target_;  // path_ without symbolic links
    uint64_t written_bytes_ = 0;
    std::string part_;  // the new file until finish(); empty: the target is written directly
};

/// Whether a file that is written at `path` now takes the place of an earlier one. What is written to a
/// pipe, a device, an open descriptor or `-` comes behind what was written before.
[[nodiscard]] bool is_replaceable(const std::string& path);

/// Fails if no file can be written at `path`. It changes nothing. Errors: kInvalidArgument, kIo
[[nodiscard]] Status check_output(const std::string& path);

/// Writes a whole file at once. Errors: kIo
[[nodiscard]] Status write_whole_file(const std::string& path, std::string_view content);

}  // namespace weir::data

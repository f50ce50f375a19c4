// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PMI-1 as text: one line per message, "cmd=get_result rc=0 value=abc"; values are sent as
/// hexadecimal chunks.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace weir::boot {

inline constexpr size_t kPmi1LineBytesMax = 8192;  ///< of an answer; no launcher sends longer ones
/// Slurm reads 1024 bytes at a time and takes the bytes after them for another request.
inline constexpr size_t kPmi1RequestBytesMax = 1000;

/// One message from the launcher.
struct Pmi1Line {
    std::string command;
    std::vector<std::pair<std::string, std::string>> fields;  ///< all but cmd

    /// The first field of that name, or nullptr.
    [[nodiscard]] const std::string* find(std::string_view name) const noexcept;
    /// Whether rc is 0 or missing.
    [[nodiscard]] bool succeeded() const noexcept;
    /// The value of a field that must be a number of at most `most`.
    /// Errors:  kProtocol naming the field
    [[nodiscard]] Result<uint64_t> number(std::string_view name, uint64_t most) const;
};

/// Reads one line without its newline. Words without '=' are skipped: they belong to the text of
/// a msg field.
/// Errors:  kProtocol if the line is too long, has control characters, or does not start with cmd=
[[nodiscard]] Result<Pmi1Line> parse_pmi1_line(std::string_view line);

[[nodiscard]] std::string hex_encode(std::string_view bytes);
/// Errors:  kProtocol if it is not an even number of digits 0-9 and a-f
[[nodiscard]] Result<std::string> hex_decode(std::string_view hex);

/// Cuts a value into texts of at most `chunk_bytes_max` (at least 16) that PMI-1 can carry. The
/// first one starts with the number of hexadecimal digits in all: "8:6162", "6364".
[[nodiscard]] std::vector<std::string> pmi1_chunks(std::string_view value, size_t chunk_bytes_max);

/// Joins the chunks of pmi1_chunks(), given in order.
class Pmi1Joiner {
public:
    /// Errors:  kProtocol if it is not what pmi1_chunks() makes, or longer than Bootstrap allows
    [[nodiscard]] Status add(std::string_view chunk);

    [[nodiscard]] bool complete() const noexcept { return started_ && hex_.size() == expected_; }

    /// The value; call it only once complete().
    [[nodiscard]] Result<std::string> value() const { return hex_decode(hex_); }

private:
    bool started_ = false;
    size_t expected_ = 0;
    std::string hex_;
};

}  // namespace weir::boot

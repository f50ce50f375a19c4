// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LineStream: the text of a FileShare, plain or gzip, in pieces of whole lines.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/file_share.h"
#include "lib/data/input_file.h"
#include "lib/data/text/byte_source.h"

namespace weir::data {

/// Thread: one.
class LineStream {
public:
    /// A file with a longer line is taken not to be text.
    static constexpr uint64_t kLineBytesMax = uint64_t{1} << 28;

    /// stop:   of a stream, while nothing comes
    /// Errors: kIo if the file cannot be opened or read; for standard input that is not a file
    ///     also kInvalidArgument if it is empty or packed by something other than gzip; kCancelled
    [[nodiscard]] static Result<LineStream> open(FileShare share, const StopReading& stop = {});

    /// The next lines, valid until the next call; empty at the end. Of a stream those that are there.
    /// Errors: kIo; kCancelled; kParse for a damaged gzip file and for a line longer than kLineBytesMax
    [[nodiscard]] Result<std::string_view> next();

    /// The number, from 1 and in the whole file, of the line that starts at `offset_bytes` of the
    /// last piece. For error messages only: it reads a plain file from its start to that line.
    [[nodiscard]] Result<uint64_t> line_number(uint64_t offset_bytes) const;

    [[nodiscard]] const FileShare& share() const noexcept { return share_; }

    /// Bytes of text handed out so far.
    [[nodiscard]] uint64_t text_bytes() const noexcept { return text_bytes_; }

private:
    LineStream() = default;

    /// Whether newlines are counted while reading, because the file cannot be read again for
    /// that.
    [[nodiscard]] bool counts_lines() const noexcept { return share_.gzip || share_.stream; }

    [[nodiscard]] Result<std::string_view> next_piece();
    [[nodiscard]] Status fill();
    [[nodiscard]] Status skip_cut_line();

    FileShare share_;
    std::unique_ptr<ByteSource> source_;
    std::vector<char> buffer_;
    uint64_t used_bytes_ = 0;    // the last piece: this many bytes at the start of buffer_
    uint64_t filled_bytes_ = 0;  // of buffer_
    uint64_t position_ = 0;      // of the first byte of buffer_ in the text
    bool at_end_ = false;        // of the source
    bool finished_ = false;
    uint64_t piece_index_ = 0;
    uint64_t lines_before_ = 0;  // if counts_lines(): newlines before the last piece
    uint64_t last_newline_count_ = 0;
    uint64_t text_bytes_ = 0;
};

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ExampleStream: examples of LIBSVM files in the order of the files, some lines at a time, of which several readers read
/// a part each, side by side. It knows places from which another reader can go on.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/file_share.h"
#include "lib/data/libsvm_stream.h"
#include "lib/data/text/line_stream.h"

namespace weir::data {

/// The text of the files, in chunks of about 64 KiB, belongs to `piece_count` pieces in turns: so readers with some pieces
/// each go through the files together. Plain files are read chunk by chunk. A gzip file cannot be: each reader unpacks
/// all of it and parses its chunks, unless there are kWholeFiles of them or more, which belong to pieces as a whole.
/// Standard input that is no file belongs to the only piece that there is then.
///
/// Thread: one
class ExampleStream {
public:
    static constexpr uint64_t kChunkBytes = uint64_t{64} << 10;
    static constexpr uint32_t kWholeFiles = 16;
    static constexpr uint32_t kFilesMax = 1U << 14;

    struct Options {
        std::vector<uint32_t> pieces = {0};  ///< this reader's
        uint32_t piece_count = 1;            ///< a power of two
        /// Of each of `pieces`, from place(), where it goes on; a stream goes on with what comes. Empty: at the start.
        std::vector<uint64_t> places{};
        uint64_t skip_bad = 0;
        LibsvmFormat format{};
        StopReading stop{};  ///< while nothing comes of a stream
    };

    /// Errors: those of share_files(); kOutOfRange for kFilesMax files or more
    [[nodiscard]] static Result<ExampleStream> open(std::span<const std::string> paths,
                                                    Options options);

    /// Replaces `lines` by the examples of up to `lines_max` next lines of one piece; false at the end.
    /// Errors: as LineStream and parse_piece(); kCancelled, after which it can go on
    [[nodiscard]] Result<bool> next(ParsedLines& lines, uint32_t lines_max);

    /// Whose examples next() has returned: an index of Options::pieces.
    [[nodiscard]] uint32_t piece() const noexcept { return piece_; }

    /// Of that piece, behind these examples. It rises from one next() to the next.
    [[nodiscard]] uint64_t place() const noexcept { return place_; }

    [[nodiscard]] const ReadReport& report() const noexcept { return report_; }

    /// Whether the files can only be read once.
    [[nodiscard]] static bool is_stream(std::span<const std::string> paths);

private:
    ExampleStream() = default;

    [[nodiscard]] std::optional<uint32_t> owned(uint64_t chunk) const noexcept;
    [[nodiscard]] bool is_mine(uint64_t chunk) noexcept;
    [[nodiscard]] Result<bool> next_text();
    [[nodiscard]] Result<bool> next_chunk_of_plain(const FileShare& file);
    [[nodiscard]] Result<bool> next_chunk_in_order(const FileShare& file);
    void skip_lines();

    std::vector<std::string> paths_;
    std::vector<FileShare> files_;
    Options options_;
    std::vector<std::optional<uint32_t>>
        owner_;                     ///< of each piece the index among those of this reader
    bool has_whole_files_ = false;  ///< gzip files belong to pieces as a whole

    size_t file_ = 0;
    uint64_t chunk_ = 0;  ///< that is read now, or is the next one
    bool is_in_chunk_ = false;
    std::optional<LineStream> lines_;  ///< of a plain file only the chunk
    std::string_view text_;            ///< of the chunk, not parsed yet
    uint64_t text_begin_ = 0;          ///< as PieceSource has it
    uint64_t line_ = 0;                ///< lines of the chunk before text_
    uint64_t skipped_to_ = 0;          ///< of the chunk's lines, those before it were read earlier

    uint32_t piece_ = 0;
    uint64_t place_ = 0;
    ReadReport report_;
};

}  // namespace weir::data

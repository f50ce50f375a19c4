// SPDX-License-Identifier: Apache-2.0
#include "lib/data/example_stream.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include "lib/data/input_file.h"
#include "lib/data/parse_piece.h"

namespace weir::data {
namespace {

/// A chunk has no more lines than bytes, unless it has one long line.
constexpr uint32_t kLineBits = 16;
constexpr uint32_t kChunkBits = 34;
static_assert(ExampleStream::kChunkBytes <= uint64_t{1} << kLineBits);
static_assert(ExampleStream::kFilesMax <= uint64_t{1} << (64 - kChunkBits - kLineBits));

/// Beside a chunk, most often, what is left of its last line.
constexpr uint64_t kLastLineBytes = uint64_t{8} << 10;

uint64_t place_at(size_t file, uint64_t chunk, uint64_t line) {
    return uint64_t{file} << (kChunkBits + kLineBits) | chunk << kLineBits | line;
}

/// Neighbours get pieces that are far from each other: a worker has pieces side by side.
uint32_t spread(uint64_t number, uint32_t piece_count) {
    uint32_t reversed = 0;
    for (uint32_t bit = 1; bit < piece_count; bit <<= 1, number >>= 1)
        reversed = reversed << 1 | static_cast<uint32_t>(number & 1);
    return reversed;
}

uint64_t count_lines(std::string_view text) {
    const bool is_cut = !text.empty() && !text.ends_with('\n');  // at the end of a file
    return static_cast<uint64_t>(std::ranges::count(text, '\n')) + (is_cut ? 1 : 0);
}

/// So many lines at its beginning.
std::string_view first_lines(std::string_view text, uint64_t count) {
    size_t end = 0;
    for (; count > 0 && end < text.size(); --count)
        end = std::min(text.find('\n', end), text.size() - 1) + 1;
    return text.substr(0, end);
}

}  // namespace

bool ExampleStream::is_stream(std::span<const std::string> paths) {
    return std::ranges::find(paths, kStandardInput) != paths.end() && !standard_input_is_a_file();
}

Result<ExampleStream> ExampleStream::open(std::span<const std::string> paths, Options options) {
    WEIR_CHECK(std::has_single_bit(options.piece_count));
    WEIR_CHECK(options.places.empty() || options.places.size() == options.pieces.size());
    if (paths.size() >= kFilesMax) {
        return Error(Errc::kOutOfRange,
                     fmt::format("{} files are more than {}: put several into one", paths.size(),
                                 kFilesMax - 1));
    }
    ExampleStream stream;
    WEIR_ASSIGN(stream.files_, whole_files(paths));
    stream.paths_.assign(paths.begin(), paths.end());
    stream.has_whole_files_ = std::ranges::count_if(stream.files_, &FileShare::gzip) >= kWholeFiles;
    stream.owner_.resize(options.piece_count);
    for (uint32_t i = 0; i < options.pieces.size(); ++i)
        stream.owner_[options.pieces[i]] = i;
    stream.options_ = std::move(options);
    return stream;
}

/// Whose chunk it is, if that is a piece of this reader.
std::optional<uint32_t> ExampleStream::owned(uint64_t chunk) const noexcept {
    const bool is_whole = files_[file_].gzip && has_whole_files_;
    return owner_[spread(is_whole ? file_ : file_ + chunk, options_.piece_count)];
}

/// Whether there is something to read of the chunk. If so, it is the one that is read now.
bool ExampleStream::is_mine(uint64_t chunk) noexcept {
    const std::optional<uint32_t> piece = owned(chunk);
    if (!piece) return false;
    const uint64_t from =
        options_.places.empty() || files_[file_].stream ? 0 : options_.places[*piece];
    const uint64_t begin = place_at(file_, chunk, 0);
    if (from >= place_at(file_, chunk + 1, 0)) return false;
    piece_ = *piece;
    skipped_to_ = from > begin ? from - begin : 0;
    line_ = 0;
    return true;
}

/// Of a plain file.
Result<bool> ExampleStream::next_chunk_of_plain(const FileShare& file) {
    if (lines_) ++chunk_;
    lines_.reset();
    while (chunk_ * kChunkBytes < file.end && !is_mine(chunk_))
        ++chunk_;
    if (chunk_ * kChunkBytes >= file.end) return false;
    FileShare share = file;
    share.begin = chunk_ * kChunkBytes;
    share.end = std::min(file.end, share.begin + kChunkBytes);
    share.piece_bytes = share.end - share.begin + kLastLineBytes;
    WEIR_ASSIGN(lines_, LineStream::open(std::move(share)));
    WEIR_ASSIGN(text_, lines_->next());
    return true;
}

/// Of a file that cannot be read from the middle.
Result<bool> ExampleStream::next_chunk_in_order(const FileShare& file) {
    if (file.gzip && has_whole_files_ && !owned(0)) return false;
    if (!lines_) {
        FileShare share = file;
        share.piece_bytes = kChunkBytes;
        WEIR_ASSIGN(lines_, LineStream::open(std::move(share), options_.stop));
    }
    while (true) {
        WEIR_ASSIGN(text_, lines_->next());
        if (text_.empty()) return false;
        if (is_in_chunk_) ++chunk_;
        is_in_chunk_ = true;
        if (is_mine(chunk_)) return true;
    }
}

/// Makes text_ the next text of this reader's chunks; false at the end.
Result<bool> ExampleStream::next_text() {
    while (file_ < files_.size()) {
        const FileShare& file = files_[file_];
        const bool is_plain = !file.gzip && !file.stream;
        text_begin_ = 0;
        if (is_plain && lines_) {  // a long line may be left
            WEIR_ASSIGN(text_, lines_->next());
            if (!text_.empty()) return true;
        }
        WEIR_ASSIGN(const bool found,
                    is_plain ? next_chunk_of_plain(file) : next_chunk_in_order(file));
        if (found) return true;
        ++file_;
        chunk_ = 0;
        is_in_chunk_ = false;
        lines_.reset();
    }
    return false;
}

/// Those of text_ that were read earlier.
void ExampleStream::skip_lines() {
    if (line_ >= skipped_to_) return;
    const std::string_view before = first_lines(text_, skipped_to_ - line_);
    line_ += count_lines(before);
    text_.remove_prefix(before.size());
    text_begin_ += before.size();
}

Result<bool> ExampleStream::next(ParsedLines& lines, uint32_t lines_max) {
    lines.clear();
    while (lines.labels.empty()) {
        skip_lines();
        if (text_.empty()) {
            WEIR_ASSIGN(const bool found, next_text());
            if (!found) return false;
            continue;
        }
        const std::string_view some = first_lines(text_, lines_max);
        WEIR_TRY(parse_piece({*lines_, paths_, options_.skip_bad, options_.format}, text_begin_,
                             some, lines, report_));
        line_ += count_lines(some);
        text_.remove_prefix(some.size());
        text_begin_ += some.size();
        report_.text_bytes += some.size();
        place_ = place_at(file_, chunk_, std::min(line_, kChunkBytes - 1));
    }
    report_.example_count += lines.labels.size();
    report_.nonzero_count += lines.keys.size();
    report_.labels.add(lines.label_census);
    return true;
}

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/parse_piece.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/data/input_file.h"

namespace weir::data {
namespace {

Result<std::string> describe(const LineStream& stream, uint64_t line_offset, const BadLine& bad) {
    WEIR_ASSIGN(const uint64_t line, stream.line_number(line_offset));
    return fmt::format("{}:{}:{}: expected {}, found {}", input_name(stream.share().path), line,
                       bad.column, bad.expected, bad.found);
}

/// How much of the files sample_labels() reads.
constexpr uint64_t kSampleCount = 8;
constexpr uint64_t kSampleBytes = uint64_t{64} << 10;
constexpr uint64_t kUnpackedSampleBytes = uint64_t{8} << 20;  // gzip: only from the start
constexpr size_t kSampledFileCount = 64;

/// Adds the labels of one share. Lines that are bad for other reasons are left out.
Status add_labels(FileShare share, uint64_t bytes_max, const LibsvmFormat& format,
                  LabelCensus& census) {
    WEIR_ASSIGN(LineStream stream, LineStream::open(std::move(share)));
    ParsedLines lines;
    while (stream.text_bytes() < bytes_max) {
        WEIR_ASSIGN(std::string_view piece, stream.next());
        if (piece.empty()) break;
        lines.clear();
        while (const auto bad = parse_libsvm(piece, lines, format))
            piece.remove_prefix(bad->next_offset);
        census.add(lines.label_census);
    }
    return {};
}

/// The labels of all files, from samples that do not depend on the reader's part: if the files
/// are sorted by class, one part may have lines of one class only.
LabelCensus sample_labels(std::span<const std::string> paths, const LibsvmFormat& format) {
    LabelCensus census;
    const size_t file_count = std::min(paths.size(), kSampledFileCount);
    const Result<std::vector<FileShare>> files = share_files(paths.first(file_count), {});
    if (!files) return census;
    for (const FileShare& file : *files) {
        if (file.stream) continue;  // a stream cannot be read twice
        if (file.gzip) {
            (void)add_labels(file, kUnpackedSampleBytes, format, census);
            continue;
        }
        const uint64_t step = std::max(kSampleBytes, file.end / kSampleCount);
        for (uint64_t begin = 0; begin < file.end; begin += step) {
            FileShare sample = file;
            sample.begin = begin;
            sample.end = std::min(file.end, begin + kSampleBytes);
            (void)add_labels(std::move(sample), kSampleBytes, format, census);
        }
        if (file.end <= kSampleCount * kSampleBytes) continue;  // the whole file is sampled
        FileShare last = file;
        last.begin = file.end - kSampleBytes;
        (void)add_labels(std::move(last), kSampleBytes, format, census);
    }
    return census;
}

}  // namespace

Status parse_piece(const PieceSource& from, uint64_t begin, std::string_view piece,
                   ParsedLines& lines, ReadReport& report) {
    const auto& [stream, paths, skip_bad, format] = from;
    uint64_t offset = 0;
    while (auto bad = parse_libsvm(piece.substr(offset), lines, format)) {
        // The bad line starts after the last newline before its own.
        const uint64_t next = offset + bad->next_offset;
        const size_t newline =
            next < 2 ? std::string_view::npos : piece.substr(0, next - 1).rfind('\n');
        const uint64_t start = newline == std::string_view::npos ? 0 : newline + 1;
        ++report.bad_line_count;
        if (report.bad_line_count > skip_bad || report.first_bad_line.empty()) {
            WEIR_ASSIGN(std::string text, describe(stream, begin + start, *bad));
            if (report.bad_line_count > skip_bad) {
                if (bad->unknown_label && !format.any_label) {
                    LabelCensus census = sample_labels(paths, format);
                    census.add(lines.label_census);
                    if (stream.share().stream) census.add(report.labels);
                    WEIR_TRY(check_labels(census, format.labels, files_text(paths), format.names));
                }
                if (bad->unknown_label && format.any_label)
                    text += fmt::format(", which {} {} does not name", format.names.classes,
                                        format.classes.text());
                return Error(
                    Errc::kParse,
                    skip_bad == 0
                        ? fmt::format("{}; correct the line or leave it out ({} 1)", text,
                                      format.names.skip_bad)
                        : fmt::format("{}; that is bad line number {}, and {} may be skipped; is "
                                      "this a LIBSVM file?",
                                      text, report.bad_line_count, skip_bad));
            }
            report.first_bad_line = std::move(text);
        }
        offset = next;
    }
    return {};
}

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/libsvm_stream.h"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/data/line_stream.h"

namespace weir::data {

namespace {

Result<std::string> describe(const LineStream& stream, uint64_t line_offset, const BadLine& bad) {
    WEIR_ASSIGN(const uint64_t line, stream.line_number(line_offset));
    return fmt::format("{}:{}:{}: expected {}, found {}", stream.share().path, line, bad.column,
                       bad.expected, bad.found);
}

/// The whole of one piece: the bad lines are counted or end it.
Status parse_piece(const LineStream& stream, std::string_view piece, uint64_t skip_bad,
                   ParsedLines& lines, ReadReport& report) {
    uint64_t offset = 0;
    while (auto bad = parse_libsvm(piece.substr(offset), lines)) {
        // A bad line is named by its start: the last newline before its end.
        const uint64_t next = offset + bad->next_offset;
        const size_t newline =
            next < 2 ? std::string_view::npos : piece.substr(0, next - 1).rfind('\n');
        const uint64_t start = newline == std::string_view::npos ? 0 : newline + 1;
        ++report.bad_line_count;
        if (report.bad_line_count > skip_bad || report.first_bad_line.empty()) {
            WEIR_ASSIGN(std::string text, describe(stream, start, *bad));
            if (report.bad_line_count > skip_bad) {
                return Error(
                    Errc::kParse,
                    skip_bad == 0
                        ? fmt::format("{}; correct the line or leave it out (--skip-bad 1)", text)
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

}  // namespace

void ReadReport::add(const ReadReport& other) {
    text_bytes += other.text_bytes;
    example_count += other.example_count;
    nonzero_count += other.nonzero_count;
    bad_line_count += other.bad_line_count;
    if (first_bad_line.empty()) first_bad_line = other.first_bad_line;
    seconds = std::max(seconds, other.seconds);
}

Result<ReadReport> stream_libsvm(std::span<const std::string> paths, Part part, uint64_t skip_bad,
                                 const LinesConsumer& consume) {
    const auto start = std::chrono::steady_clock::now();
    WEIR_ASSIGN(std::vector<FileShare> shares, share_files(paths, part));
    ReadReport report;
    ParsedLines lines;
    for (FileShare& share : shares) {
        WEIR_ASSIGN(LineStream stream, LineStream::open(std::move(share)));
        while (true) {
            WEIR_ASSIGN(const std::string_view piece, stream.next());
            if (piece.empty()) break;
            lines.clear();
            WEIR_TRY(parse_piece(stream, piece, skip_bad, lines, report));
            report.example_count += lines.labels.size();
            report.nonzero_count += lines.keys.size();
            WEIR_TRY(consume(lines));
        }
        report.text_bytes += stream.text_bytes();
    }
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace weir::data

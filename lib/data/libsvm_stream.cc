// SPDX-License-Identifier: Apache-2.0
#include "lib/data/libsvm_stream.h"

#include <chrono>
#include <utility>
#include <vector>

#include "lib/data/parse_piece.h"
#include "lib/data/text/line_stream.h"

namespace weir::data {

void ReadReport::add(const ReadReport& other) {
    text_bytes += other.text_bytes;
    example_count += other.example_count;
    nonzero_count += other.nonzero_count;
    bad_line_count += other.bad_line_count;
    labels.add(other.labels);
    if (first_bad_line.empty()) first_bad_line = other.first_bad_line;
    seconds = std::max(seconds, other.seconds);
}

Result<ReadReport> stream_libsvm(std::span<const std::string> paths, const StreamOptions& options,
                                 const LinesConsumer& consume) {
    const auto start = std::chrono::steady_clock::now();
    WEIR_ASSIGN(std::vector<FileShare> shares, share_files(paths, options.part));
    ReadReport report;
    ParsedLines lines;
    for (FileShare& share : shares) {
        WEIR_ASSIGN(LineStream stream, LineStream::open(std::move(share), options.stop));
        while (true) {
            if (options.stop && options.stop())
                return Error(Errc::kCancelled, "stopped while files were read");
            WEIR_ASSIGN(const std::string_view piece, stream.next());
            if (piece.empty()) break;
            lines.clear();
            WEIR_TRY(parse_piece({stream, paths, options.skip_bad, options.format}, 0, piece, lines,
                                 report));
            report.example_count += lines.labels.size();
            report.nonzero_count += lines.keys.size();
            report.labels.add(lines.label_census);
            WEIR_TRY(consume(lines));
        }
        report.text_bytes += stream.text_bytes();
    }
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace weir::data

// SPDX-License-Identifier: Apache-2.0
#include "lib/data/examples.h"

#include <thread>

#include <fmt/core.h>

#include "lib/data/feature_dictionary.h"
#include "lib/data/shortage.h"

namespace weir::data {

namespace {

/// The examples that one thread reads, with feature indices of its own dictionary.
struct ThreadShare {
    FeatureDictionary dictionary;
    std::vector<RowChunk> chunks;
    ReadReport report;
    Status status;

    Status take(const ParsedLines& lines) {
        if (lines.labels.empty()) return {};
        RowChunk chunk;
        chunk.labels = lines.labels;
        chunk.numbers = lines.numbers;
        chunk.lengths = lines.lengths;
        chunk.features.resize(lines.keys.size());
        WEIR_TRY(dictionary.insert(lines.keys, chunk.features));
        if (!lines.all_ones) chunk.values = lines.values;
        chunks.push_back(std::move(chunk));
        return {};
    }

    Status read(std::span<const std::string> paths, const StreamOptions& options) {
        const auto consume = [this](const ParsedLines& lines) { return take(lines); };
        WEIR_ASSIGN(const ReadReport of_part, stream_libsvm(paths, options, consume));
        const double seconds = report.seconds + of_part.seconds;
        report.add(of_part);
        report.seconds = seconds;
        return {};
    }
};

/// Changes the feature indices of `share` to those of `dictionary`.
Status join(FeatureDictionary& dictionary, ThreadShare& share) {
    const std::vector<uint64_t> keys = share.dictionary.take_keys();
    std::vector<uint32_t> index_of(keys.size());
    WEIR_TRY(dictionary.insert(keys, index_of));
    for (RowChunk& chunk : share.chunks) {
        for (uint32_t& feature : chunk.features)
            feature = index_of[feature];
    }
    return {};
}

/// Every thread reads every thread_count-th of the parts.
Status read_shares(std::span<const std::string> paths, const ReadOptions& options,
                   std::vector<ThreadShare>& shares) {
    const auto thread_count = static_cast<uint32_t>(shares.size());
    const auto read_share = [&](uint32_t thread) {
        ThreadShare& share = shares[thread];
        share.status = or_shortage([&]() -> Status {
            for (size_t i = thread; i < options.parts.size(); i += thread_count) {
                WEIR_TRY(share.read(
                    paths, {options.parts[i], options.skip_bad, options.format, options.stop}));
            }
            return {};
        });
        if (!share.status) share.chunks = {};  // frees memory for other threads
    };
    {
        std::vector<std::jthread> threads;  // joined at the end, also if one does not start
        threads.reserve(thread_count);
        for (uint32_t thread = 1; thread < thread_count; ++thread) {
            threads.emplace_back([&read_share, thread] { read_share(thread); });
        }
        read_share(0);
    }
    for (ThreadShare& share : shares)
        WEIR_TRY(std::move(share.status));
    return {};
}

Result<Examples> read_and_join(std::span<const std::string> paths, const ReadOptions& options) {
    std::vector<ThreadShare> shares(std::max(1U, options.thread_count));
    WEIR_TRY(read_shares(paths, options, shares));
    Examples examples;
    for (ThreadShare& share : shares) {
        examples.report.add(share.report);
        if (&share != &shares[0]) WEIR_TRY(join(shares[0].dictionary, share));
        for (RowChunk& chunk : share.chunks)
            examples.chunks.push_back(std::move(chunk));
        share.chunks = {};
    }
    WEIR_TRY(check_report(examples.report, paths, options));
    examples.keys = shares[0].dictionary.take_keys();
    examples.keys.shrink_to_fit();
    return examples;
}

}  // namespace

Status check_report(const ReadReport& report, std::span<const std::string> paths,
                    const ReadOptions& options) {
    if (report.bad_line_count > options.skip_bad) {
        if (!options.format.any_label) {
            WEIR_TRY(check_labels(report.labels, options.format.labels, files_text(paths),
                                  options.format.names));
        }
        return Error(Errc::kParse,
                     fmt::format("{}; there are {} bad lines, and {} may be skipped; correct them "
                                 "or allow more ({})",
                                 report.first_bad_line, report.bad_line_count, options.skip_bad,
                                 options.format.names.skip_bad));
    }
    if (report.example_count > 0xffffffff) {
        return Error(Errc::kOutOfRange,
                     "more than 2^32 - 1 examples for one worker; use more workers");
    }
    return {};
}

Result<Examples> read_libsvm(std::span<const std::string> paths, const ReadOptions& options) {
    return or_shortage([&] { return read_and_join(paths, options); });
}

}  // namespace weir::data

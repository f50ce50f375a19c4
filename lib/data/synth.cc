// SPDX-License-Identifier: Apache-2.0
#include "lib/data/synth.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/data/output_file.h"

namespace weir::data {

namespace {

constexpr uint64_t kBatchExampleCount = 4096;  // one thread makes a batch, from the batch's seed
constexpr uint32_t kThreadCountMax = 16;
constexpr uint64_t kFeatureTextBytesMax = 24;  // " 18446744073709551615:1"

/// Draws ranks 1 to n with probability proportional to rank^-exponent, exactly, without a table.
/// Source: Hörmann, Derflinger, Rejection-inversion to generate variates from monotone discrete
///     distributions, 1996.
class ZipfRanks {
public:
    ZipfRanks(uint64_t count, double exponent)
        : count_(static_cast<double>(count)),
          exponent_(exponent),
          low_(integral(1.5) - 1),
          high_(integral(count_ + 0.5)),
          accept_(2 - inverse(integral(2.5) - density(2))) {}

    uint64_t operator()(Random& random) const noexcept {
        while (true) {
            const double u = high_ + random.uniform() * (low_ - high_);
            const double x = inverse(u);
            const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
            if (rank - x <= accept_ || u >= integral(rank + 0.5) - density(rank)) {
                return static_cast<uint64_t>(rank);
            }
        }
    }

private:
    [[nodiscard]] double density(double x) const noexcept {
        return std::exp(-exponent_ * std::log(x));
    }

    /// The integral of density(), (x^(1 - exponent) - 1) / (1 - exponent); log(x) for exponent 1.
    [[nodiscard]] double integral(double x) const noexcept {
        const double log_x = std::log(x);
        const double t = (1 - exponent_) * log_x;
        return std::abs(t) < 1e-8 ? log_x * (1 + t / 2) : std::expm1(t) / (1 - exponent_);
    }

    [[nodiscard]] double inverse(double y) const noexcept {
        const double t = std::max(-1.0, y * (1 - exponent_));
        return std::abs(t) < 1e-8 ? std::exp(y * (1 - t / 2))
                                  : std::exp(std::log1p(t) / (1 - exponent_));
    }

    double count_;
    double exponent_;
    double low_;
    double high_;
    double accept_;
};

/// The distribution of the log, shared by all threads: which features are common, and which have
/// a weight.
class ClickLog {
public:
    explicit ClickLog(const SynthOptions& options)
        : options_(options), ranks_(options.feature_count, options.zipf_exponent) {
        Random random(mix64(options.seed + 1));
        shift_ = random.below(options.feature_count);
        factor_ = random.below(options.feature_count) | 1;
        while (std::gcd(factor_, options.feature_count) != 1)
            ++factor_;
    }

    /// Appends the text of one batch; returns how many of its labels are +1.
    uint64_t write_batch(uint64_t batch, std::string& text) const {
        Random random(mix64(options_.seed) + mix64(~batch));
        const uint64_t first = batch * kBatchExampleCount;
        const uint64_t count = std::min(kBatchExampleCount, options_.example_count - first);
        std::vector<uint64_t> features;
        uint64_t positive_count = 0;
        for (uint64_t i = 0; i < count; ++i) {
            const bool positive = next(random, features);
            positive_count += positive ? 1 : 0;
            append(positive, features, text);
        }
        return positive_count;
    }

private:
    /// Draws the features of the next example, rising. Returns whether its label is +1.
    bool next(Random& random, std::vector<uint64_t>& features) const {
        features.clear();
        while (features.size() < options_.per_example) {
            while (features.size() < options_.per_example) {
                features.push_back(feature_of(ranks_(random)));
            }
            std::sort(features.begin(), features.end());
            features.erase(std::unique(features.begin(), features.end()), features.end());
        }
        double margin = 0;
        for (const uint64_t feature : features)
            margin += weight(feature);
        return random.uniform() * (1 + std::exp(-margin)) < 1;
    }

    static void append(bool positive, const std::vector<uint64_t>& features, std::string& text) {
        std::array<char, kFeatureTextBytesMax> buffer = {' '};
        text += positive ? "+1" : "-1";
        for (const uint64_t feature : features) {
            char* at = std::to_chars(buffer.begin() + 1, buffer.end(), feature).ptr;
            *at++ = ':';
            *at++ = '1';
            text.append(buffer.begin(), at);
        }
        text += '\n';
    }

    /// A bijection of 1 to n, so that the common features do not all have small numbers.
    [[nodiscard]] uint64_t feature_of(uint64_t rank) const noexcept {
        const uint128 product = static_cast<uint128>(rank - 1) * factor_ + shift_;
        if (product >> 64 == 0) {
            return static_cast<uint64_t>(product) % options_.feature_count + 1;
        }
        return static_cast<uint64_t>(product % options_.feature_count) + 1;
    }

    /// The hidden weight: 0 for nine features in ten, else uniform in [-2, 2).
    [[nodiscard]] double weight(uint64_t feature) const noexcept {
        const uint64_t bits = mix64(feature * 0x9e3779b97f4a7c15ULL + options_.seed);
        if (bits % 10 != 0) return 0;
        return static_cast<double>(bits >> 11) * 0x1.0p-51 - 2;
    }

    const SynthOptions& options_;
    ZipfRanks ranks_;
    uint64_t shift_ = 0;
    uint64_t factor_ = 1;
};

Status check(const SynthOptions& options) {
    const auto wrong = [](std::string text) {
        return Error(Errc::kInvalidArgument, std::move(text));
    };
    if (options.example_count == 0) return wrong("synth: at least one example is needed");
    if (options.feature_count >= uint64_t{1} << 53) {
        return wrong("synth: fewer than 2^53 features are possible");
    }
    if (options.per_example == 0 || options.per_example > options.feature_count / 2) {
        return wrong(
            fmt::format("synth: {} features per example of {}; from 1 to half of all are "
                        "possible",
                        options.per_example, options.feature_count));
    }
    if (!(options.zipf_exponent >= 0 && options.zipf_exponent <= 3)) {
        return wrong(
            fmt::format("synth: Zipf exponent {}; from 0 to 3 is possible", options.zipf_exponent));
    }
    return {};
}

}  // namespace

Result<SynthReport> write_click_log(const std::string& path, const SynthOptions& options,
                                    const std::function<void(uint64_t)>& progress) {
    WEIR_TRY(check(options));
    const auto start = std::chrono::steady_clock::now();
    WEIR_ASSIGN(OutputFile file, OutputFile::create(path));
    const ClickLog log(options);
    SynthReport report;
    const uint32_t thread_count =
        std::clamp(std::thread::hardware_concurrency(), 1U, kThreadCountMax);
    std::vector<std::string> texts(thread_count);
    std::vector<uint64_t> positives(thread_count);
    const uint64_t batch_count = (options.example_count - 1) / kBatchExampleCount + 1;
    for (uint64_t first = 0; first < batch_count; first += thread_count) {
        const uint64_t round = std::min<uint64_t>(thread_count, batch_count - first);
        const auto make = [&](uint64_t i) {
            texts[i].clear();
            positives[i] = log.write_batch(first + i, texts[i]);
        };
        {
            std::vector<std::jthread> threads;
            for (uint64_t i = 1; i < round; ++i)
                threads.emplace_back(make, i);
            make(0);
        }
        for (uint64_t i = 0; i < round; ++i) {
            WEIR_TRY(file.write(texts[i]));
            report.written_bytes += texts[i].size();
            report.positive_count += positives[i];
        }
        report.example_count =
            std::min((first + round) * kBatchExampleCount, options.example_count);
        if (progress) progress(report.example_count);
    }
    WEIR_TRY(file.finish());
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace weir::data

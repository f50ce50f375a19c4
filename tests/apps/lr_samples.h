// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data sets that are hard in different ways, and a slow solver of its own kind to compare with.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/data/examples.h"

namespace weir::test {

/// Examples as a person would write them down.
struct Sample {
    std::vector<int8_t> labels;
    std::vector<std::vector<std::pair<uint64_t, float>>> rows;

    void add(int label, std::vector<std::pair<uint64_t, float>> row) {
        labels.push_back(static_cast<int8_t>(label));
        rows.push_back(std::move(row));
    }

    /// Every count-th example from the index-th on, as the reader would give it.
    [[nodiscard]] data::Examples part(uint32_t index, uint32_t count) const {
        data::Examples examples;
        data::RowChunk chunk;
        std::map<uint64_t, uint32_t> numbers;
        bool ones = true;
        for (size_t i = index; i < rows.size(); i += count) {
            chunk.labels.push_back(labels[i]);
            chunk.lengths.push_back(static_cast<uint32_t>(rows[i].size()));
            for (const auto& [key, value] : rows[i]) {
                const auto [at, fresh] =
                    numbers.try_emplace(key, static_cast<uint32_t>(examples.keys.size()));
                if (fresh) examples.keys.push_back(key);
                chunk.features.push_back(at->second);
                chunk.values.push_back(value);
                ones = ones && value == 1;
            }
        }
        if (ones) chunk.values.clear();
        examples.report.example_count = chunk.labels.size();
        examples.report.nonzero_count = chunk.features.size();
        if (!chunk.labels.empty()) examples.chunks.push_back(std::move(chunk));
        return examples;
    }
};

inline double normal(Random& random) {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
        sum += random.uniform();
    return sum;
}

/// Dense columns that share a common part, with scales from 10^low to 10^high; columns may come
/// twice, and one may be constant.
struct DenseSample {
    uint32_t rows = 200;
    uint32_t columns = 20;
    double low = 0;
    double high = 0;
    double correlation = 0.5;
    double noise = 1;
    bool doubled = false;
    double offset = 0;  ///< added to every value
};

inline Sample dense_sample(Random& random, const DenseSample& want) {
    Sample sample;
    std::vector<double> truth(want.columns);
    for (double& weight : truth)
        weight = normal(random);
    for (uint32_t i = 0; i < want.rows; ++i) {
        std::vector<std::pair<uint64_t, float>> row;
        const double common = normal(random);
        double margin = want.noise * normal(random);
        for (uint32_t j = 0; j < want.columns; ++j) {
            const double z = std::sqrt(want.correlation) * common +
                             std::sqrt(1 - want.correlation) * normal(random);
            const double place = want.columns > 1 ? j / (want.columns - 1.0) : 0;
            const auto value = static_cast<float>(
                want.offset + z * std::pow(10.0, want.low + (want.high - want.low) * place));
            margin += truth[j] * z;
            row.emplace_back(j, value);
            if (want.doubled) row.emplace_back(1000 + j, value);
        }
        if (want.doubled) row.emplace_back(~uint64_t{0}, 3.0F);
        sample.add(margin > 0 ? 1 : -1, std::move(row));
    }
    return sample;
}

/// Bags of words: Zipf-like features, hashed to 64 bits; values of one, or weighted by rarity.
inline Sample text_sample(Random& random, uint32_t rows, uint64_t words, bool weighted) {
    Sample sample;
    for (uint32_t i = 0; i < rows; ++i) {
        std::map<uint64_t, float> row;
        double margin = normal(random) / 2;
        for (uint64_t k = 5 + random.below(50); k > 0; --k) {
            const auto word =
                static_cast<uint64_t>(std::pow(static_cast<double>(words), random.uniform()));
            const double rarity = weighted ? std::log(1 + static_cast<double>(word)) / 4 : 1.0;
            row[mix64(word)] = static_cast<float>(rarity);
            if (word % 7 == 0) margin += word % 2 == 0 ? 0.7 : -0.7;
        }
        sample.add(margin > 0 ? 1 : -1, {row.begin(), row.end()});
    }
    return sample;
}

/// One-hot groups, as in census data: every group of columns adds up to the same constant.
inline Sample one_hot_sample(Random& random, uint32_t rows, uint32_t groups, uint32_t levels) {
    Sample sample;
    for (uint32_t i = 0; i < rows; ++i) {
        std::vector<std::pair<uint64_t, float>> row;
        double margin = -2 + 2 * normal(random);
        for (uint32_t g = 0; g < groups; ++g) {
            const uint64_t level = std::min(random.below(levels), random.below(levels));
            margin += static_cast<double>(mix64(g * 100 + level + 1) % 100) / 50 - 1;
            row.emplace_back(g * levels + level, 1.0F);
        }
        sample.add(margin > 0 ? 1 : -1, std::move(row));
    }
    return sample;
}

/// Readings with the second they were taken in, since 1970, and a column of constants as large.
struct Readings {
    Sample sample;
    /// The seconds counted from the first one on, and next to no penalty on them and on a constant.
    /// Whatever the weights of `sample`, there are weights here that cost no more: a lower bound.
    Sample relaxed;
};

inline Readings readings_sample(Random& random, uint32_t rows) {
    constexpr float kFirst = 1.7e9F;
    Readings readings;
    for (uint32_t i = 0; i < rows; ++i) {
        const auto second = static_cast<float>(1.7e9 + 3600 * random.uniform());
        const auto after = second - kFirst;
        const auto reading = static_cast<float>(normal(random));
        const double margin = static_cast<double>(reading) + normal(random) +
                              (static_cast<double>(after) - 1800) / 600;
        const int label = margin > 0 ? 1 : -1;
        readings.sample.add(label, {{1, second}, {2, kFirst}, {3, reading}});
        readings.relaxed.add(label, {{1, after * 1e3F}, {2, 1e10F}, {3, reading}});
    }
    return readings;
}

/// sum log(1 + exp(-y w.x)) + l1 |w|_1 of weights by key, added up without tricks.
inline double objective_of(const Sample& sample, const std::map<uint64_t, double>& weights,
                           double l1) {
    double sum = 0;
    for (size_t i = 0; i < sample.rows.size(); ++i) {
        double margin = 0;
        for (const auto& [key, value] : sample.rows[i]) {
            const auto at = weights.find(key);
            if (at != weights.end()) margin += at->second * static_cast<double>(value);
        }
        const double signed_margin = sample.labels[i] * margin;
        sum += signed_margin > 0 ? std::log1p(std::exp(-signed_margin))
                                 : std::log1p(std::exp(signed_margin)) - signed_margin;
    }
    for (const auto& [key, weight] : weights)
        sum += l1 * std::abs(weight);
    return sum;
}

/// The optimum, by a solver that shares nothing with ours: proximal Newton on columns scaled to
/// length 1, coordinate descent inside, backtracking outside. Dense and slow. `gap` is a proven
/// bound.
struct Reference {
    double objective = 0;
    double gap = 0;
};

class ReferenceSolver {
public:
    ReferenceSolver(const Sample& sample, double l1) : sample_(sample) {
        std::map<uint64_t, size_t> numbers;
        for (const auto& row : sample.rows) {
            for (const auto& [key, value] : row)
                numbers.try_emplace(key, 0);
        }
        for (auto& [key, number] : numbers)
            number = column_count_++;
        rows_.resize(sample.rows.size());
        std::vector<double> norm(column_count_, 0);
        for (size_t i = 0; i < rows_.size(); ++i) {
            for (const auto& [key, value] : sample.rows[i]) {
                rows_[i].emplace_back(numbers[key], static_cast<double>(value));
                norm[numbers[key]] += static_cast<double>(value) * static_cast<double>(value);
            }
        }
        columns_.resize(column_count_);
        for (size_t j = 0; j < column_count_; ++j)
            penalty_.push_back(l1 / std::sqrt(norm[j]));
        for (size_t i = 0; i < rows_.size(); ++i) {
            for (auto& [j, value] : rows_[i]) {
                value /= std::sqrt(norm[j]);
                columns_[j].emplace_back(i, value);
            }
        }
    }

    /// A lower bound of the optimum, as good as these weights are.
    [[nodiscard]] double bound_from(const std::map<uint64_t, double>& weights) const {
        std::vector<double> margins;
        for (const auto& row : sample_.rows) {
            double margin = 0;
            for (const auto& [key, value] : row) {
                const auto at = weights.find(key);
                if (at != weights.end()) margin += at->second * static_cast<double>(value);
            }
            margins.push_back(margin);
        }
        return dual(margins);
    }

    Reference solve() {
        std::vector<double> w(column_count_, 0);
        std::vector<double> margins(rows_.size(), 0);
        double best_dual = 0;
        double now = objective(w, margins);
        for (int round = 0; round < 400; ++round) {
            best_dual = std::max(best_dual, dual(margins));
            if (now - best_dual <= 1e-9 * now) break;
            const std::vector<double> direction = newton_direction(w, margins);
            std::vector<double> step_margins(rows_.size(), 0);
            for (size_t j = 0; j < column_count_; ++j) {
                for (const auto& [i, x] : columns_[j])
                    step_margins[i] += x * direction[j];
            }
            double step = 1;
            for (; step > 1e-12; step /= 2) {
                std::vector<double> w2 = w;
                std::vector<double> margins2 = margins;
                for (size_t j = 0; j < column_count_; ++j)
                    w2[j] += step * direction[j];
                for (size_t i = 0; i < rows_.size(); ++i)
                    margins2[i] += step * step_margins[i];
                const double then = objective(w2, margins2);
                if (then < now) {
                    now = then;
                    w = std::move(w2);
                    margins = std::move(margins2);
                    break;
                }
            }
            if (step <= 1e-12) break;
        }
        return {now, (now - best_dual) / now};
    }

private:
    [[nodiscard]] double objective(const std::vector<double>& w,
                                   const std::vector<double>& margins) const {
        double sum = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
            const double m = sample_.labels[i] * margins[i];
            sum += m > 0 ? std::log1p(std::exp(-m)) : std::log1p(std::exp(m)) - m;
        }
        for (size_t j = 0; j < column_count_; ++j)
            sum += penalty_[j] * std::abs(w[j]);
        return sum;
    }

    [[nodiscard]] double dual(const std::vector<double>& margins) const {
        double scale = 1;
        for (size_t j = 0; j < column_count_; ++j) {
            double g = 0;
            for (const auto& [i, x] : columns_[j]) {
                g += x * sample_.labels[i] / (1 + std::exp(sample_.labels[i] * margins[i]));
            }
            scale = std::min(scale, penalty_[j] / std::max(std::abs(g), 1e-300));
        }
        double sum = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
            const double a = scale / (1 + std::exp(sample_.labels[i] * margins[i]));
            if (a > 0 && a < 1) sum -= a * std::log(a) + (1 - a) * std::log1p(-a);
        }
        return sum;
    }

    /// Coordinate descent on the quadratic model of the loss at these margins.
    [[nodiscard]] std::vector<double> newton_direction(const std::vector<double>& w,
                                                       const std::vector<double>& margins) const {
        std::vector<double> gradient(rows_.size());
        std::vector<double> bend(rows_.size());
        for (size_t i = 0; i < rows_.size(); ++i) {
            const double p = 1 / (1 + std::exp(sample_.labels[i] * margins[i]));
            gradient[i] = -sample_.labels[i] * p;
            bend[i] = std::max(p * (1 - p), 1e-12);
        }
        std::vector<double> curvature(column_count_, 1e-12);
        for (size_t j = 0; j < column_count_; ++j) {
            for (const auto& [i, x] : columns_[j])
                curvature[j] += bend[i] * x * x;
        }
        std::vector<double> d(column_count_, 0);
        std::vector<double> moved(rows_.size(), 0);
        for (int sweep = 0; sweep < 2000; ++sweep) {
            double greatest = 0;
            for (size_t j = 0; j < column_count_; ++j) {
                double g = 0;
                for (const auto& [i, x] : columns_[j])
                    g += x * (gradient[i] + bend[i] * moved[i]);
                const double z = w[j] + d[j] - g / curvature[j];
                const double shrunk = std::max(0.0, std::abs(z) - penalty_[j] / curvature[j]);
                const double step = std::copysign(shrunk, z) - w[j] - d[j];
                if (step == 0) continue;
                d[j] += step;
                greatest = std::max(greatest, step * step * curvature[j]);
                for (const auto& [i, x] : columns_[j])
                    moved[i] += x * step;
            }
            if (greatest < 1e-20) break;
        }
        return d;
    }

    const Sample& sample_;
    size_t column_count_ = 0;
    std::vector<double> penalty_;
    std::vector<std::vector<std::pair<size_t, double>>> rows_;
    std::vector<std::vector<std::pair<size_t, double>>> columns_;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Trainers with momentum, Adam and FTRL beside a program of one thread with plain arrays, step by step:
/// sparse logistic regression by batches. WEIR_TRAIN_FILE names a LIBSVM file to train on instead of a
/// click log that the test makes, and the losses are printed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/data/examples.h"
#include "lib/data/synth.h"
#include "lib/weir.h"
#include "tests/data/scratch.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

struct Feature {
    uint32_t number;
    double value;
};

struct Example {
    double label;
    std::vector<Feature> features;
};

struct Data {
    std::vector<uint64_t> keys;  // of the features
    std::vector<Example> examples;
};

Data read(const std::string& path) {
    const std::vector<std::string> paths = {path};
    auto read = data::read_libsvm(paths, {});
    REQUIRE_MESSAGE(read, read.error().text());
    Data all{.keys = read->keys, .examples = {}};
    for (const data::RowChunk& chunk : read->chunks) {
        size_t at = 0;
        for (size_t i = 0; i < chunk.labels.size(); ++i) {
            Example example{.label = chunk.labels[i] > 0 ? 1.0 : -1.0, .features = {}};
            for (uint32_t n = 0; n < chunk.lengths[i]; ++n, ++at)
                example.features.push_back(
                    {chunk.features[at], chunk.values.empty() ? 1.0 : chunk.values[at]});
            all.examples.push_back(std::move(example));
        }
    }
    return all;
}

Data some_data() {
    const char* const file = std::getenv("WEIR_TRAIN_FILE");  // NOLINT(concurrency-mt-unsafe)
    if (file != nullptr) return read(file);
    const Scratch scratch;
    REQUIRE(data::write_click_log(
        scratch.path("clicks"),
        {.example_count = 3000, .feature_count = 2000, .per_example = 12, .seed = 5}));
    return read(scratch.path("clicks"));
}

double margin_of(const Example& example, const std::vector<double>& weights) {
    double margin = 0;
    for (const Feature& feature : example.features)
        margin += feature.value * weights[feature.number];
    return example.label * margin;
}

/// The mean logistic loss of all examples.
double loss_of(const Data& data, const std::vector<double>& weights) {
    double sum = 0;
    for (const Example& example : data.examples) {
        const double margin = margin_of(example, weights);
        sum += margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
    }
    return sum / static_cast<double>(data.examples.size());
}

/// By feature: the gradient of the mean loss of some examples.
std::map<uint32_t, double> gradient_of(std::span<const Example> batch,
                                       const std::vector<double>& weights) {
    std::map<uint32_t, double> gradient;
    for (const Example& example : batch) {
        const double slope = -example.label / (1 + std::exp(margin_of(example, weights)));
        for (const Feature& feature : example.features)
            gradient[feature.number] += slope * feature.value / static_cast<double>(batch.size());
    }
    return gradient;
}

/// The arrays of the program of one thread, and the rules as their papers have them.
struct PlainArrays {
    explicit PlainArrays(size_t features)
        : weights(features), first(features), second(features), steps(features) {}

    void step(const Rule& rule, const std::map<uint32_t, double>& gradient) {
        const auto& p = rule.parameters.value;
        for (const auto& [i, g] : gradient) {
            double& w = weights[i];
            if (rule.name == "momentum") {
                first[i] = p[1] * first[i] + g;
                w -= p[0] * first[i];
            } else if (rule.name == "adam") {
                ++steps[i];
                first[i] = p[1] * first[i] + (1 - p[1]) * g;
                second[i] = p[2] * second[i] + (1 - p[2]) * g * g;
                const double mean = first[i] / (1 - std::pow(p[1], steps[i]));
                const double square = second[i] / (1 - std::pow(p[2], steps[i]));
                w -= p[0] * mean / (std::sqrt(square) + p[3]);
            } else {  // ftrl; first: z, second: n
                first[i] += g - (std::sqrt(second[i] + g * g) - std::sqrt(second[i])) / p[0] * w;
                second[i] += g * g;
                const double sign = first[i] < 0 ? -1 : 1;
                w = std::abs(first[i]) <= p[2]
                        ? 0
                        : -(first[i] - sign * p[2]) / ((p[1] + std::sqrt(second[i])) / p[0] + p[3]);
            }
        }
    }

    std::vector<double> weights;
    std::vector<double> first;
    std::vector<double> second;
    std::vector<double> steps;
};

/// How a trainer's weights differed from the plain ones, after the step in which they did so most.
struct Beside {
    uint64_t steps = 0;
    double most = 0;  // of all differences
    double loss = 0;
    double plain_loss = 0;
};

/// Trains both, each from its own weights, with the same batches. T is what the servers keep.
template <class T>
Result<Beside> train(Client& client, const Data& data, const Rule& rule, bool has_iterations) {
    constexpr size_t kBatch = 100;
    constexpr int kPasses = 2;
    WEIR_ASSIGN(auto table, client.create_table<T>(rule.name, {.rule = rule}));
    PlainArrays plain(data.keys.size());
    std::vector<double> weights(data.keys.size());  // as they were pulled
    Beside beside;
    for (int pass = 0; pass < kPasses; ++pass) {
        for (size_t begin = 0; begin < data.examples.size(); begin += kBatch) {
            const auto batch = std::span(data.examples)
                                   .subspan(begin, std::min(kBatch, data.examples.size() - begin));
            const auto gradient = gradient_of(batch, weights);
            std::vector<std::pair<uint64_t, uint32_t>> by_key;
            for (const auto& [feature, value] : gradient)
                by_key.emplace_back(data.keys[feature], feature);
            std::ranges::sort(by_key);
            std::vector<uint64_t> keys;
            std::vector<T> values;
            for (const auto& [key, feature] : by_key) {
                keys.push_back(key);
                values.push_back(static_cast<T>(gradient.at(feature)));
            }
            PushOptions options;
            if (has_iterations) options.iteration = beside.steps + 1;
            WEIR_TRY(table.push(keys, values, options).wait());
            WEIR_TRY(table.pull(keys, values).wait());
            plain.step(rule, gradient_of(batch, plain.weights));
            for (size_t i = 0; i < keys.size(); ++i)
                weights[by_key[i].second] = static_cast<double>(values[i]);
            for (size_t i = 0; i < weights.size(); ++i)
                beside.most = std::max(beside.most, std::abs(weights[i] - plain.weights[i]));
            ++beside.steps;
        }
    }
    beside.loss = loss_of(data, weights);
    beside.plain_loss = loss_of(data, plain.weights);
    return beside;
}

/// As train(), in a job of its own.
template <class T>
Beside train_in_job(const Data& data, const Rule& rule, uint32_t servers, bool has_iterations) {
    const auto job = start_job(servers, servers, 1);
    Beside beside;
    const Status ran = job->run_workers([&](Client& client) -> Status {
        WEIR_ASSIGN(beside, train<T>(client, data, rule, has_iterations));
        return {};
    });
    REQUIRE_MESSAGE(ran, ran.error().text());
    if (std::getenv("WEIR_TRAIN_FILE") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
        std::cout << fmt::format(
            "{} in {}, {} servers: {} steps, loss {:.9f}, plain {:.9f}, weights differ by {:.2g} "
            "at most\n",
            rule.name, sizeof(T) == 4 ? "float32" : "float64", servers, beside.steps, beside.loss,
            beside.plain_loss, beside.most);
    }
    return beside;
}

}  // namespace

TEST_SUITE("trained rules") {
    TEST_CASE("momentum, adam and ftrl go, step by step, where plain arrays of one thread go") {
        const Data data = some_data();
        const double first_loss = loss_of(data, std::vector<double>(data.keys.size()));
        for (const Rule& rule : {momentum(0.5), adam(0.01), ftrl(0.3, 1, 0.001, 0.01)}) {
            CAPTURE(rule.name);
            for (const bool has_iterations : {false, true}) {
                const uint32_t servers = has_iterations ? 2 : 1;
                const Beside exact = train_in_job<double>(data, rule, servers, has_iterations);
                // Momentum rounds as the plain program does. The others multiply where that divides.
                CHECK(exact.most <= (rule.name == "momentum" ? 0 : 1e-9));
                CHECK(exact.plain_loss < 0.95 * first_loss);
                CHECK(exact.loss == doctest::Approx(exact.plain_loss).epsilon(1e-9));
            }
            const Beside rounded = train_in_job<float>(data, rule, 1, false);
            CHECK(rounded.loss == doctest::Approx(rounded.plain_loss).epsilon(1e-3));
        }
    }
}

}  // namespace weir::test

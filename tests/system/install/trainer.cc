// SPDX-License-Identifier: Apache-2.0
/// \file
/// A trainer as a user would write it, against an installed Weir: two workers fit y = 3 a - 2 b + 1
/// by gradient descent. Each sees its share of the points; the servers add up the gradients.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include <weir/weir.h>

namespace {

constexpr size_t kFeatures = 3;
constexpr std::array<double, kFeatures> kTruth = {3, -2, 1};
constexpr uint64_t kIterations = 200;
constexpr uint32_t kPoints = 100;

std::array<double, kFeatures> point(uint32_t i) {
    return {std::sin(i), std::cos(3.0 * i), 1};
}

/// The step that this worker's share of the points asks for.
std::array<double, kFeatures> step(const weir::Client& client,
                                   const weir::Buffer<double>& weights) {
    std::array<double, kFeatures> sum = {};
    for (uint32_t i = client.worker(); i < kPoints; i += client.worker_count_at_start()) {
        const auto x = point(i);
        double error = 0;
        for (size_t f = 0; f < kFeatures; ++f)
            error += x[f] * (weights[f] - kTruth[f]);
        for (size_t f = 0; f < kFeatures; ++f)
            sum[f] -= 0.5 * error * x[f] / kPoints;
    }
    return sum;
}

weir::Status train(weir::Client& client) {
    WEIR_ASSIGN(auto table, client.create_table<double>("weights", {.layout = weir::Layout::kDense,
                                                                    .key_count = kFeatures}));
    WEIR_ASSIGN(auto weights, client.make_buffer<double>(kFeatures));
    WEIR_ASSIGN(auto gradient, client.make_buffer<double>(kFeatures));
    const weir::KeyRange all{0, kFeatures};
    for (uint64_t iteration = 1; iteration <= kIterations; ++iteration) {
        const auto delta = step(client, weights);
        std::copy(delta.begin(), delta.end(), gradient.begin());
        WEIR_TRY(table.push(all, gradient, {.iteration = iteration}).wait());
        WEIR_TRY(table.pull(all, weights, {.iteration = iteration}).wait());
    }
    std::printf("worker %u learned %.4f a %+.4f b %+.4f\n", client.worker(), weights[0], weights[1],
                weights[2]);
    for (size_t f = 0; f < kFeatures; ++f) {
        if (std::abs(weights[f] - kTruth[f]) > 1e-3)
            return weir::Error(weir::Errc::kProtocol, "that is wrong");
    }
    return {};
}

}  // namespace

int main() {
    const weir::Status done = weir::run({.shards_per_server = 2, .workers = 2}, train);
    if (!done) std::fprintf(stderr, "trainer: %s\n", done.error().message().c_str());
    return done ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// A trainer as a user would write it, against an installed Weir: two workers fit y = 3 a - 2 b + 1
/// by gradient descent. Each sees half of the points; the servers add up both gradients.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <weir/weir.h>

namespace {

constexpr size_t kFeatures = 3;
constexpr std::array<double, kFeatures> kTruth = {3, -2, 1};
constexpr uint32_t kWorkers = 2;
constexpr uint64_t kIterations = 200;
constexpr int kPoints = 100;

std::array<double, kFeatures> point(int i) {
    return {std::sin(i), std::cos(3.0 * i), 1};
}

/// The step that this worker's half of the points asks for.
std::array<double, kFeatures> step(uint32_t worker, const weir::Buffer<double>& weights) {
    std::array<double, kFeatures> sum = {};
    for (int i = static_cast<int>(worker); i < kPoints; i += kWorkers) {
        const auto x = point(i);
        double error = 0;
        for (size_t f = 0; f < kFeatures; ++f)
            error += x[f] * (weights[f] - kTruth[f]);
        for (size_t f = 0; f < kFeatures; ++f)
            sum[f] -= 0.5 * error * x[f] / kPoints;
    }
    return sum;
}

weir::Status train(weir::Client& client, std::vector<double>& learned) {
    weir::TableOptions options;
    options.layout = weir::Layout::kDense;
    options.key_count = kFeatures;
    auto table = client.create_table<double>("weights", options);
    if (!table) return std::move(table).error();
    auto weights = client.make_buffer<double>(kFeatures);
    if (!weights) return std::move(weights).error();
    auto gradient = client.make_buffer<double>(kFeatures);
    if (!gradient) return std::move(gradient).error();
    const weir::KeyRange all{0, kFeatures};
    for (uint64_t iteration = 1; iteration <= kIterations; ++iteration) {
        const auto delta = step(client.worker(), *weights);
        std::copy(delta.begin(), delta.end(), gradient->begin());
        weir::PushOptions push;
        push.iteration = iteration;
        if (auto done = table->push(all, *gradient, push).wait(); !done) return done;
        weir::PullOptions pull;
        pull.iteration = iteration;
        if (auto done = table->pull(all, *weights, pull).wait(); !done) return done;
    }
    learned.assign(weights->begin(), weights->end());
    return client.leave();
}

}  // namespace

int main() {
    weir::JobOptions options;
    options.shards_per_server = 2;
    options.workers = kWorkers;
    auto job = weir::Job::start(options);
    if (!job) {
        std::fprintf(stderr, "trainer: %s\n", job.error().message().c_str());
        return 1;
    }
    std::array<int, kWorkers> failed = {};
    (*job)->run_workers([&](uint32_t worker) {
        std::vector<double> learned;
        auto client = (*job)->make_client(worker);
        weir::Status done = client ? train(*client, learned) : std::move(client).error();
        if (!done) {
            std::fprintf(stderr, "trainer: worker %u: %s\n", worker,
                         done.error().message().c_str());
            failed[worker] = 1;
            return;
        }
        for (size_t f = 0; f < kFeatures; ++f) {
            if (std::abs(learned[f] - kTruth[f]) > 1e-3) failed[worker] = 1;
        }
        std::printf("worker %u learned %.4f a %+.4f b %+.4f\n", worker, learned[0], learned[1],
                    learned[2]);
    });
    if (const weir::Status served = (*job)->serve(); !served) {
        std::fprintf(stderr, "trainer: %s\n", served.error().message().c_str());
        return 1;
    }
    return failed[0] + failed[1];
}

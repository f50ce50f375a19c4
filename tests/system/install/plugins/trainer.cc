// SPDX-License-Identifier: Apache-2.0
/// \file
/// A trainer whose tables have rules of two plugins. It knows their names and their parameters alone: only
/// processes with servers load them. Two more have a codec and functions, if this process has those, too.
///
///     trainer [N]    N: it goes on until so many servers have joined

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.h>

namespace {

constexpr uint32_t kWidth = 4;
constexpr float kLambda = 0.5F;
const std::vector<uint64_t> kKeys = {1, 7, 9, 1'000'000'000'007};

/// Half of the rows are worth less than the penalty.
float target(size_t row) {
    return row % 2 == 0 ? 3.0F : 0.1F;
}

/// The gradient of |w - target|^2 / 2.
std::vector<float> gradient_at(const std::vector<float>& values) {
    std::vector<float> gradient(values.size());
    for (size_t i = 0; i < values.size(); ++i)
        gradient[i] = values[i] - target(i / kWidth);
    return gradient;
}

weir::Status wrong(const char* what, size_t at, float is, float wanted) {
    char text[160];
    std::snprintf(text, sizeof text, "%s: value %zu is %f, not %f", what, at,
                  static_cast<double>(is), static_cast<double>(wanted));
    return weir::Error(weir::Errc::kProtocol, text);
}

/// Pushes signs by a codec that this process may not have.
weir::Status push_signs(weir::Client& client) {
    const weir::Filters filters{weir::filters::table_codec()};
    auto made = client.create_table<float>("signs", {.codec = "signs", .filters = filters});
    if (made.code() == weir::Errc::kNotFound) return {};
    WEIR_ASSIGN(auto table, std::move(made));
    std::vector<uint64_t> keys(800);
    std::vector<float> steps(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = 3 * i;
        steps[i] = i % 3 == 0 ? 0.5F : -0.5F;
    }
    WEIR_TRY(table.push(keys, steps).wait());
    std::vector<float> sums(keys.size());
    WEIR_TRY(table.pull(keys, sums).wait());
    for (size_t i = 0; i < sums.size(); ++i) {
        if (sums[i] != steps[i]) return wrong("signs", i, sums[i], steps[i]);
    }
    WEIR_ASSIGN(const weir::ClientStats stats, client.stats());
    std::printf("signs: %llu bytes became %llu\n",
                static_cast<unsigned long long>(stats.filters.integers.before),
                static_cast<unsigned long long>(stats.filters.integers.after));
    return {};
}

/// Calls functions that this process may not have: whoever calls one has its plugin.
weir::Status call_functions(weir::Client& client) {
    WEIR_ASSIGN(auto table, client.create_table<float>("shrunk", {}));
    const std::vector<uint64_t> keys = {3, 5, 8, 13};
    const std::vector<float> values = {1, -0.25F, 0.5F, -2};
    WEIR_TRY(table.push(keys, values).wait());
    const weir::Status called = table.call("shrink", keys, {.numbers = {0.5}}).wait();
    if (called.code() == weir::Errc::kNotFound) return {};
    WEIR_TRY(called);
    WEIR_ASSIGN(const double zeros, table.number("zeros"));
    WEIR_ASSIGN(const double sum, table.number("sum"));
    std::printf("shrink: %g zeros, a sum of %g\n", zeros, sum);
    return {};
}

weir::Status train(weir::Client& client, uint32_t servers_to_join) {
    if (client.worker() == 0) WEIR_TRY(push_signs(client));
    if (client.worker() == 0) WEIR_TRY(call_functions(client));
    WEIR_ASSIGN(auto lasso,
                client.create_table<float>(
                    "lasso", {.width = kWidth, .rule = {"group_lasso", {{0.5, kLambda}}}}));
    WEIR_ASSIGN(auto clipped,
                client.create_table<float>(
                    "clipped", {.width = kWidth, .rule = {"clipped_sgd", {{0.5, 0.25}}}}));
    std::vector<float> weights(kKeys.size() * kWidth);
    std::vector<float> values(weights.size());
    uint32_t joined = 0;
    uint64_t last = 100;
    for (uint64_t i = 1; i <= last; ++i) {
        const double rate = i < 20 ? 0.5 : 0.25;
        const std::vector<float> gradient = gradient_at(weights);
        WEIR_TRY(
            lasso.push(kKeys, gradient, {.iteration = i, .arguments = {{"rate", rate}}}).wait());
        WEIR_TRY(lasso.pull(kKeys, weights, {.iteration = i}).wait());
        if (client.worker() == 0) {
            WEIR_TRY(clipped.pull(kKeys, values).wait());
            const std::vector<float> of_clipped = gradient_at(values);
            WEIR_TRY(clipped.push(kKeys, of_clipped).wait());
            WEIR_ASSIGN(const auto events, client.take_events());
            for (const weir::JobEvent& event : events)
                joined += event.kind == weir::JobEvent::Kind::kServerJoined ? 1 : 0;
        }
        if (joined < servers_to_join) {  // by one worker alone
            last = i + 100;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    WEIR_TRY(client.barrier());
    WEIR_TRY(lasso.pull(kKeys, values).wait());
    for (size_t i = 0; i < values.size(); ++i) {
        // Each row ends as the target, shortened by lambda.
        const float length = target(i / kWidth) * std::sqrt(float{kWidth});
        const float wanted = target(i / kWidth) * std::max(0.0F, 1 - kLambda / length);
        if (std::abs(values[i] - wanted) > 1e-3F) return wrong("lasso", i, values[i], wanted);
    }
    WEIR_TRY(clipped.pull(kKeys, values).wait());
    for (size_t i = 0; i < values.size(); ++i) {
        const float wanted = target(i / kWidth);
        if (std::abs(values[i] - wanted) > 1e-3F) return wrong("clipped", i, values[i], wanted);
    }
    if (client.worker() == 0) std::printf("rows are what they must be\n");
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    const auto servers = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 0);
    weir::set_log_sink(weir::stderr_log_sink());
    const weir::Status done =
        weir::run({}, [&](weir::Client& client) { return train(client, servers); });
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}

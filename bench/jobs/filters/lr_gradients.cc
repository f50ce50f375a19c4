// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/lr_gradients.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "bench/jobs/local_ranks.h"
#include "lib/apps/lr/block_exchange.h"
#include "lib/apps/lr/lr_solver.h"
#include "lib/base/prox.h"
#include "lib/data/examples.h"
#include "lib/data/synth.h"

namespace weir::bench {
namespace {

constexpr double kL1 = 1;

/// Of the only worker, whose pushes it keeps.
class RecordingExchange final : public apps::BlockExchange {
public:
    using Pairs = std::map<uint64_t, std::array<float, 2>>;

    /// What was pushed first for each key since the last call: later pushes of a pass are moves.
    [[nodiscard]] Pairs take_pushed() { return std::exchange(pushed_, {}); }

    [[nodiscard]] uint32_t worker_index() const noexcept override { return 0; }

    [[nodiscard]] uint32_t worker_count() const noexcept override { return 1; }

    [[nodiscard]] Result<std::span<double>> make_buffer(uint64_t count) override {
        buffers_.push_back(std::make_unique<double[]>(count));
        return std::span(buffers_.back().get(), count);
    }

    void push(uint64_t /*iteration*/, std::span<const uint64_t> keys, std::span<const double> pairs,
              double rest) override {
        for (size_t i = 0; i < keys.size(); ++i) {
            const double gradient = pairs[2 * i];
            const double curvature = pairs[2 * i + 1];
            ProxState<double>& state = weights_[keys[i]];
            state = prox_l1_step(state, gradient, curvature, kL1, rest);
            pushed_.try_emplace(
                keys[i], std::array{static_cast<float>(gradient), static_cast<float>(curvature)});
        }
    }

    void pull(uint64_t /*iteration*/, std::span<const uint64_t> keys,
              std::span<double> out) override {
        for (size_t i = 0; i < keys.size(); ++i)
            out[i] = weights_[keys[i]].weight;
    }

    [[nodiscard]] Status wait(uint64_t /*iteration*/) override { return {}; }

    uint64_t arrived() override { return 0; }

    void start_sum(std::span<const double> mine, std::span<double> all) override {
        std::ranges::copy(mine, all.begin());
    }

    [[nodiscard]] Status finish_sum() override { return {}; }

    [[nodiscard]] Status sum(std::span<double> /*values*/) override { return {}; }

    [[nodiscard]] Status sum_at_first(std::span<double> /*values*/) override { return {}; }

    [[nodiscard]] Status max(std::span<double> /*values*/) override { return {}; }

    [[nodiscard]] Status barrier() override { return {}; }

    [[nodiscard]] Status sum_by_key(std::span<const uint64_t> /*keys*/,
                                    std::span<double> /*values*/) override {
        return {};
    }

    [[nodiscard]] Status max_by_key(std::span<const uint64_t> /*keys*/,
                                    std::span<double> /*values*/) override {
        return {};
    }

    [[nodiscard]] Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                                     std::span<uint64_t> all) override {
        if (!all.empty()) std::ranges::copy(mine, all.subspan(begin).begin());
        return {};
    }

    [[nodiscard]] uint64_t waited_ns() const noexcept override { return 0; }

private:
    std::unordered_map<uint64_t, ProxState<double>> weights_;
    std::vector<std::unique_ptr<double[]>> buffers_;
    Pairs pushed_;
};

}  // namespace

Result<LrGradients> lr_gradients(std::span<const std::string> files, uint32_t pass_count) {
    WEIR_ASSIGN(data::Examples examples, data::read_libsvm(files, {}));
    RecordingExchange exchange;
    std::vector<RecordingExchange::Pairs> pushed;
    apps::LrOptions options;
    options.l1 = kL1;
    options.pass_count_max = pass_count;
    options.tolerance = 0;
    options.progress = [&](const apps::LrProgress&) { pushed.push_back(exchange.take_pushed()); };
    WEIR_ASSIGN(apps::LrSolver solver,
                apps::LrSolver::create(exchange, std::move(examples), std::move(options)));
    WEIR_TRY(solver.solve());
    LrGradients gradients;
    gradients.keys.assign(solver.keys().begin(), solver.keys().end());
    std::ranges::sort(gradients.keys);
    for (const RecordingExchange::Pairs& pairs : pushed) {
        std::vector<float>& values = gradients.passes.emplace_back();
        for (const uint64_t key : gradients.keys) {
            const auto at = pairs.find(key);
            const auto pair = at == pairs.end() ? std::array<float, 2>{} : at->second;
            values.insert(values.end(), pair.begin(), pair.end());
        }
    }
    return gradients;
}

Result<LrGradients> synthetic_lr_gradients(uint64_t example_count, uint32_t pass_count) {
    WEIR_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
    const std::array files = {folder.path() + "/clicks.svm"};
    WEIR_ASSIGN([[maybe_unused]] const data::SynthReport report,
                data::write_click_log(files[0], {.example_count = example_count,
                                                 .feature_count = 10 * example_count}));
    return lr_gradients(files, pass_count);
}

}  // namespace weir::bench

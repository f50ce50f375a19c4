// SPDX-License-Identifier: Apache-2.0
/// \file
/// The KKT filter in the solver: what workers push, where they end, and that they agree.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/apps/lr/lr_solver.h"
#include "tests/apps/lr_samples.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::apps;
using test::Sample;

/// What the workers of a job have pushed, by iteration and worker.
class Pushed {
public:
    void add(uint64_t iteration, uint32_t worker, std::span<const uint64_t> keys, double rest) {
        const std::lock_guard lock(mutex_);
        if (iterations_.size() < iteration) iterations_.resize(iteration);
        iterations_[iteration - 1].keys[worker] = {keys.begin(), keys.end()};
        iterations_[iteration - 1].rest = rest;
    }

    struct Iteration {
        std::array<std::set<uint64_t>, 4> keys;  ///< by worker
        double rest = 0;
    };

    [[nodiscard]] const std::vector<Iteration>& iterations() const { return iterations_; }

    [[nodiscard]] uint64_t key_count() const {
        uint64_t count = 0;
        for (const Iteration& iteration : iterations_) {
            for (const std::set<uint64_t>& keys : iteration.keys)
                count += keys.size();
        }
        return count;
    }

private:
    std::mutex mutex_;
    std::vector<Iteration> iterations_;
};

/// A MemoryExchange whose pushes are noted.
class NotedExchange final : public BlockExchange {
public:
    NotedExchange(test::MemoryExchange& exchange, Pushed& pushed)
        : exchange_(exchange), pushed_(pushed) {}

    [[nodiscard]] uint32_t worker_index() const noexcept override {
        return exchange_.worker_index();
    }

    [[nodiscard]] uint32_t worker_count() const noexcept override {
        return exchange_.worker_count();
    }

    Result<std::span<double>> make_buffer(uint64_t count) override {
        return exchange_.make_buffer(count);
    }

    void push(uint64_t iteration, std::span<const uint64_t> keys, std::span<const double> pairs,
              double rest) override {
        pushed_.add(iteration, worker_index(), keys, rest);
        exchange_.push(iteration, keys, pairs, rest);
    }

    void pull(uint64_t iteration, std::span<const uint64_t> keys, std::span<double> out) override {
        exchange_.pull(iteration, keys, out);
    }

    Status wait(uint64_t iteration) override { return exchange_.wait(iteration); }

    uint64_t arrived() override { return exchange_.arrived(); }

    void start_sum(std::span<const double> mine, std::span<double> all) override {
        exchange_.start_sum(mine, all);
    }

    Status finish_sum() override { return exchange_.finish_sum(); }

    Status sum(std::span<double> values) override { return exchange_.sum(values); }

    Status sum_at_first(std::span<double> values) override {
        return exchange_.sum_at_first(values);
    }

    Status max(std::span<double> values) override { return exchange_.max(values); }

    Status barrier() override { return exchange_.barrier(); }

    Status sum_by_key(std::span<const uint64_t> keys, std::span<double> values) override {
        return exchange_.sum_by_key(keys, values);
    }

    Status max_by_key(std::span<const uint64_t> keys, std::span<double> values) override {
        return exchange_.max_by_key(keys, values);
    }

    Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                       std::span<uint64_t> all) override {
        return exchange_.concatenate(begin, mine, all);
    }

    [[nodiscard]] uint64_t waited_ns() const noexcept override { return exchange_.waited_ns(); }

private:
    test::MemoryExchange& exchange_;
    Pushed& pushed_;
};

struct NotedTraining {
    LrResult result;
    std::map<uint64_t, double> weights;
    Pushed pushed;
    std::array<std::set<uint64_t>, 4> keys;  ///< of each worker
};

void train_noting(const Sample& sample, uint32_t worker_count, const LrOptions& options,
                  NotedTraining& trained) {
    test::run_workers(worker_count, options.l1, [&](test::MemoryExchange& memory) {
        NotedExchange exchange(memory, trained.pushed);
        const uint32_t index = exchange.worker_index();
        auto solver = LrSolver::create(exchange, sample.part(index, worker_count), options);
        REQUIRE(solver);
        trained.keys[index] = {solver->keys().begin(), solver->keys().end()};
        auto result = solver->solve();
        REQUIRE(result);
        auto model = solver->model(index == 0);
        REQUIRE(model);
        if (index != 0) return;
        trained.result = *result;
        for (size_t i = 0; i < model->keys.size(); ++i)
            trained.weights[model->keys[i]] = model->weights[i];
    });
}

Sample clicks(uint64_t offset) {
    const uint64_t seed = weir::testing::seed_or(1);
    MESSAGE("WEIR_SEED=" << seed);
    Random random(seed * 1000 + offset);
    return test::text_sample(random, 600, 3000, offset % 2 == 1);
}

/// The gradient of the loss by each feature that has an example.
std::map<uint64_t, double> gradients(const Sample& sample,
                                     const std::map<uint64_t, double>& weights) {
    std::map<uint64_t, double> sums;
    for (size_t i = 0; i < sample.rows.size(); ++i) {
        double margin = 0;
        for (const auto& [key, value] : sample.rows[i]) {
            const auto at = weights.find(key);
            if (at != weights.end()) margin += at->second * static_cast<double>(value);
        }
        const double slope = -sample.labels[i] / (1 + std::exp(sample.labels[i] * margin));
        for (const auto& [key, value] : sample.rows[i])
            sums[key] += slope * static_cast<double>(value);
    }
    return sums;
}

double most_filtered(const LrResult& result) {
    double most = 0;
    for (const LrProgress& pass : result.history)
        most = std::max(most, pass.filtered_share);
    return most;
}

}  // namespace

TEST_SUITE("lr_kkt") {
    TEST_CASE("a feature takes a step by all workers that have it, and a move by one of them") {
        for (const uint32_t workers : {2U, 4U}) {
            NotedTraining trained;
            train_noting(clicks(31), workers, {}, trained);
            CHECK(most_filtered(trained.result) > 0.5);
            for (const Pushed::Iteration& iteration : trained.pushed.iterations()) {
                for (uint32_t a = 0; a < workers; ++a) {
                    for (const uint64_t key : iteration.keys[a]) {
                        for (uint32_t b = 0; b < workers; ++b) {
                            if (a == b || !trained.keys[b].contains(key)) continue;
                            const bool is_move = iteration.rest == 0;
                            REQUIRE(iteration.keys[b].contains(key) != is_move);
                        }
                    }
                }
            }
        }
    }

    TEST_CASE("a filtered training reaches the objective of an unfiltered one with fewer pushes") {
        for (const uint64_t offset : {32, 33}) {
            const Sample sample = clicks(offset);
            for (const double l1 : {0.5, 3.0}) {
                LrOptions options;
                options.l1 = l1;
                options.tolerance = 1e-5;
                NotedTraining filtered;
                train_noting(sample, 2, options, filtered);
                options.kkt = false;
                NotedTraining whole;
                train_noting(sample, 2, options, whole);
                CAPTURE(l1);
                const double objective = test::objective_of(sample, whole.weights, l1);
                CHECK(test::objective_of(sample, filtered.weights, l1) ==
                      doctest::Approx(objective).epsilon(1e-4));
                CHECK(most_filtered(whole.result) == 0);
                CHECK(most_filtered(filtered.result) > 0.5);
                const auto per_pass = [](const NotedTraining& one) {
                    return static_cast<double>(one.pushed.key_count()) / one.result.pass_count;
                };
                CHECK(per_pass(filtered) < 0.7 * per_pass(whole));
            }
        }
    }

    TEST_CASE("the last pass is over all features, however the training ends") {
        const Sample sample = clicks(34);
        std::vector<std::pair<LrOptions, LrEnd>> all = {{{}, LrEnd::kGap}};
        for (const double tolerance : {1e-3, 1e-4, 1e-5}) {
            all.push_back({{}, LrEnd::kGap});
            all.back().first.tolerance = tolerance;
        }
        for (const uint32_t passes : {8U, 9U, 10U, 11U}) {
            all.push_back({{}, LrEnd::kPassCount});
            all.back().first.tolerance = 0;
            all.back().first.pass_count_max = passes;
        }
        for (const auto& [options, end] : all) {
            NotedTraining trained;
            train_noting(sample, 2, options, trained);
            CHECK(trained.result.end == end);
            CHECK(most_filtered(trained.result) > 0);
            CHECK(trained.result.history.back().filtered_share == 0);
            // Only in a pass over all can a feature come to rest; nothing is pushed behind the last pass.
            const std::vector<Pushed::Iteration>& iterations = trained.pushed.iterations();
            std::array<std::set<uint64_t>, 2> last;
            for (size_t i = iterations.size(); i-- > 0 && iterations[i].rest > 1e-30;) {
                for (size_t worker = 0; worker < 2; ++worker)
                    last[worker].insert(iterations[i].keys[worker].begin(),
                                        iterations[i].keys[worker].end());
            }
            for (size_t worker = 0; worker < 2; ++worker)
                CHECK(last[worker] == trained.keys[worker]);
        }
    }

    TEST_CASE("no more progress is one behind three passes over all features") {
        Random random(5);
        const Sample sample = test::text_sample(random, 500, 100'000, false);
        LrOptions options;  // for which the gap stays wide
        options.l1 = 0.2;
        options.block_count = 1;
        NotedTraining trained;
        train_noting(sample, 2, options, trained);
        CHECK(trained.result.end == LrEnd::kNoProgress);
        CHECK(most_filtered(trained.result) > 0.5);
        const std::vector<LrProgress>& history = trained.result.history;
        CHECK(std::all_of(history.end() - 3, history.end(),
                          [](const LrProgress& pass) { return pass.filtered_share == 0; }));
    }

    TEST_CASE("at the end the conditions of Karush, Kuhn and Tucker hold for all features") {
        const Sample sample = clicks(35);
        LrOptions options;
        options.tolerance = 1e-7;
        NotedTraining trained;
        train_noting(sample, 2, options, trained);
        CHECK(trained.result.end == LrEnd::kGap);
        CHECK(most_filtered(trained.result) > 0.5);
        for (const auto& [key, gradient] : gradients(sample, trained.weights)) {
            const auto at = trained.weights.find(key);
            const double weight = at == trained.weights.end() ? 0 : at->second;
            const double beyond = weight == 0  ? std::max(0.0, std::abs(gradient) - options.l1)
                                  : weight > 0 ? std::abs(gradient + options.l1)
                                               : std::abs(gradient - options.l1);
            CHECK(beyond < 0.01 * options.l1);
        }
    }

    TEST_CASE("a training that goes on from weights first looks at all features") {
        const Sample sample = clicks(36);
        NotedTraining first;
        train_noting(sample, 2, {}, first);
        LrOptions options;
        for (const auto& [key, weight] : first.weights) {
            options.init.keys.push_back(key);
            options.init.weights.push_back(weight);
        }
        NotedTraining again;
        train_noting(sample, 3, options, again);
        CHECK(again.result.history.front().filtered_share == 0);
        CHECK(again.result.objective <= first.result.objective * (1 + 1e-9));
    }
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemoryExchange: the parameter server of the solver's tests, in one process. It keeps to the
/// contract of BlockExchange and to nothing more: what is pulled appears in wait(), not before.

#include <bit>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/apps/lr/block_exchange.h"
#include "lib/base/clock.h"
#include "lib/base/prox.h"

namespace weir::test {

/// The state that the workers share.
class MemoryServer {
public:
    MemoryServer(uint32_t worker_count, double l1) : worker_count_(worker_count), l1_(l1) {}

    [[nodiscard]] uint32_t worker_count() const noexcept { return worker_count_; }

    [[nodiscard]] uint64_t iteration_count() {
        const std::lock_guard lock(mutex_);
        return applied_;
    }

    void push(uint64_t iteration, std::span<const uint64_t> keys, std::span<const double> pairs,
              double rest) {
        const std::lock_guard lock(mutex_);
        Pending& pending = pending_[iteration];
        WEIR_CHECK(pending.push_count == 0 || pending.rest == rest);
        pending.rest = rest;
        for (size_t i = 0; i < keys.size(); ++i) {
            WEIR_CHECK(i == 0 || keys[i - 1] < keys[i]);
            auto& [gradient, curvature] = pending.sums[keys[i]];
            gradient += pairs[2 * i];
            curvature += pairs[2 * i + 1];
        }
        WEIR_CHECK(iteration > applied_);
        if (++pending.push_count == worker_count_) {
            WEIR_CHECK(iteration == applied_ + 1);
            for (const auto& [key, pair] : pending.sums) {
                ProxState<double>& state = table_[key];
                state = prox_l1_step(state, pair.first, pair.second, l1_, pending.rest);
            }
            pending_.erase(iteration);
            applied_ = iteration;
            changed_.notify_all();
        }
    }

    void pull(uint64_t iteration, std::span<const uint64_t> keys, std::span<double> out) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return applied_ >= iteration; });
        for (size_t i = 0; i < keys.size(); ++i) {
            const auto at = table_.find(keys[i]);
            out[i] = at == table_.end() ? 0.0 : at->second.weight;
        }
    }

    [[nodiscard]] bool has_applied(uint64_t iteration) {
        const std::lock_guard lock(mutex_);
        return applied_ >= iteration;
    }

    void push_sum(uint64_t number, std::span<const double> mine) {
        const std::lock_guard lock(mutex_);
        Sum& sum = sums_[number];
        sum.values.resize(mine.size());
        for (size_t i = 0; i < mine.size(); ++i)
            sum.values[i] += mine[i];
        ++sum.push_count;
        changed_.notify_all();
    }

    void pull_sum(uint64_t number, std::span<double> all) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return sums_[number].push_count == worker_count_; });
        std::ranges::copy(sums_[number].values, all.begin());
    }

    /// All workers call `combine` on one shared state, then `result` when everybody has.
    void collect(const std::function<void(std::map<uint64_t, double>&)>& combine,
                 const std::function<void(const std::map<uint64_t, double>&)>& result) {
        std::unique_lock lock(mutex_);
        combine(collected_);
        const uint64_t round = round_;
        if (++arrived_ == worker_count_) {
            arrived_ = 0;
            finished_ = std::exchange(collected_, {});
            ++round_;
            changed_.notify_all();
        } else {
            changed_.wait(lock, [&] { return round_ != round; });
        }
        result(finished_);
    }

private:
    struct Pending {
        uint32_t push_count = 0;
        double rest = 0;
        std::unordered_map<uint64_t, std::pair<double, double>> sums;
    };

    struct Sum {
        uint32_t push_count = 0;
        std::vector<double> values;
    };

    const uint32_t worker_count_;
    const double l1_;
    std::map<uint64_t, Sum> sums_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint64_t, Pending> pending_;
    uint64_t applied_ = 0;
    std::unordered_map<uint64_t, ProxState<double>> table_;
    std::map<uint64_t, double> collected_;
    std::map<uint64_t, double> finished_;
    uint64_t round_ = 0;
    uint32_t arrived_ = 0;
};

class MemoryExchange final : public apps::BlockExchange {
public:
    /// is_late: nothing arrives before it is waited for.
    MemoryExchange(MemoryServer& server, uint32_t index, bool is_late = false)
        : server_(server), index_(index), is_late_(is_late) {}

    [[nodiscard]] uint32_t worker_index() const noexcept override { return index_; }

    [[nodiscard]] uint32_t worker_count() const noexcept override { return server_.worker_count(); }

    Result<std::span<double>> make_buffer(uint64_t count) override {
        return std::span<double>(buffers_.emplace_back(count, 0.0));
    }

    void push(uint64_t iteration, std::span<const uint64_t> keys, std::span<const double> pairs,
              double rest) override {
        WEIR_CHECK(iteration == ++pushed_ && pairs.size() == 2 * keys.size());
        server_.push(iteration, keys, pairs, rest);
    }

    void pull(uint64_t iteration, std::span<const uint64_t> keys, std::span<double> out) override {
        WEIR_CHECK(iteration <= pushed_ && out.size() == keys.size());
        pulls_.push_back({iteration, keys, out});
    }

    Status wait(uint64_t iteration) override {
        const uint64_t start_ns = clock_.now_ns();
        while (!pulls_.empty() && pulls_.front().iteration <= iteration) {
            server_.pull(pulls_.front().iteration, pulls_.front().keys, pulls_.front().out);
            pulls_.pop_front();
        }
        waited_ns_ += clock_.now_ns() - start_ns;
        return {};
    }

    [[nodiscard]] uint64_t arrived() override {
        if (is_late_) return 0;
        uint64_t arrived = pushed_;
        for (const Pull& pull : pulls_) {
            if (!server_.has_applied(pull.iteration)) return pull.iteration - 1;
            arrived = pull.iteration;
        }
        return arrived;
    }

    void start_sum(std::span<const double> mine, std::span<double> all) override {
        server_.push_sum(++sum_number_, mine);
        sum_ = all;
    }

    Status finish_sum() override {
        if (!sum_.empty()) server_.pull_sum(sum_number_, std::exchange(sum_, {}));
        return {};
    }

    Status sum(std::span<double> values) override {
        WEIR_CHECK(values.size() <= apps::kReduceValueCountMax);
        return by_position(values, [](double& into, double value) { into += value; });
    }

    Status sum_at_first(std::span<double> values) override {
        const std::vector<double> own(values.begin(), values.end());
        WEIR_TRY(sum(values));
        if (worker_index() != 0) std::ranges::copy(own, values.begin());
        return {};
    }

    Status max(std::span<double> values) override {
        WEIR_CHECK(values.size() <= apps::kReduceValueCountMax);
        return by_position(values,
                           [](double& into, double value) { into = std::max(into, value); });
    }

    Status barrier() override { return sum({}); }

    Status sum_by_key(std::span<const uint64_t> keys, std::span<double> values) override {
        return by_key(keys, values, [](double& into, double value) { into += value; });
    }

    Status max_by_key(std::span<const uint64_t> keys, std::span<double> values) override {
        return by_key(keys, values,
                      [](double& into, double value) { into = std::max(into, value); });
    }

    Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                       std::span<uint64_t> all) override {
        WEIR_CHECK(pulls_.empty() && all.size() <= apps::kReduceValueCountMax);
        concatenated_ += mine.size();
        server_.collect(
            [&](std::map<uint64_t, double>& places) {
                for (size_t i = 0; i < mine.size(); ++i)
                    places[begin + i] = std::bit_cast<double>(mine[i]);
            },
            [&](const std::map<uint64_t, double>& places) {
                for (size_t i = 0; i < all.size(); ++i)
                    all[i] = std::bit_cast<uint64_t>(places.at(i));
            });
        return {};
    }

    /// Numbers that this worker gave to concatenate().
    [[nodiscard]] uint64_t concatenated() const noexcept { return concatenated_; }

    /// Keys that this worker gave to sum_by_key() and max_by_key().
    [[nodiscard]] uint64_t exchanged_by_key() const noexcept { return exchanged_by_key_; }

    [[nodiscard]] uint64_t waited_ns() const noexcept override { return waited_ns_; }

private:
    struct Pull {
        uint64_t iteration;
        std::span<const uint64_t> keys;
        std::span<double> out;
    };

    Status by_key(std::span<const uint64_t> keys, std::span<double> values,
                  const std::function<void(double& into, double value)>& combine) {
        WEIR_CHECK(pulls_.empty());
        exchanged_by_key_ += keys.size();
        server_.collect(
            [&](std::map<uint64_t, double>& all) {
                for (size_t i = 0; i < keys.size(); ++i) {
                    const auto [at, fresh] = all.try_emplace(keys[i], values[i]);
                    if (!fresh) combine(at->second, values[i]);
                }
            },
            [&](const std::map<uint64_t, double>& all) {
                for (size_t i = 0; i < keys.size(); ++i)
                    values[i] = all.at(keys[i]);
            });
        return {};
    }

    Status by_position(std::span<double> values,
                       const std::function<void(double& into, double value)>& combine) {
        WEIR_CHECK(pulls_.empty());
        server_.collect(
            [&](std::map<uint64_t, double>& all) {
                for (size_t i = 0; i < values.size(); ++i) {
                    const auto [at, fresh] = all.try_emplace(i, values[i]);
                    if (!fresh) combine(at->second, values[i]);
                }
            },
            [&](const std::map<uint64_t, double>& all) {
                for (size_t i = 0; i < values.size(); ++i)
                    values[i] = all.at(i);
            });
        return {};
    }

    MemoryServer& server_;
    const uint32_t index_;
    const bool is_late_;
    SteadyClock clock_;
    std::deque<std::vector<double>> buffers_;
    std::deque<Pull> pulls_;
    uint64_t pushed_ = 0;
    uint64_t sum_number_ = 0;
    std::span<double> sum_;
    uint64_t waited_ns_ = 0;
    uint64_t concatenated_ = 0;
    uint64_t exchanged_by_key_ = 0;
};

/// Runs `work(exchange)` for every worker, each on a thread of its own.
template <class Work>
void run_workers(uint32_t worker_count, double l1, Work work, bool is_late = false) {
    MemoryServer server(worker_count, l1);
    std::vector<std::thread> threads;
    for (uint32_t index = 0; index < worker_count; ++index) {
        threads.emplace_back([&server, &work, index, is_late] {
            MemoryExchange exchange(server, index, is_late);
            work(exchange);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace weir::test

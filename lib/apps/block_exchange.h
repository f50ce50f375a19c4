// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BlockExchange: all that the solver of sparse logistic regression needs from a parameter
/// server. One object per worker; implemented over weir::Client for real and in memory for tests.

#include <cstdint>
#include <limits>
#include <span>

#include "lib/base/result.h"

namespace weir::apps {

/// The longest list that BlockExchange::sum() and max() are given.
inline constexpr uint64_t kReduceValueCountMax = 65536;

/// The connection of one worker to the table of weights (float64, one value per key, rule
/// `prox_l1`) and to the other workers.
///
/// Iterations: numbered from 1 without gaps; every worker pushes every number exactly once (with
///     an empty list where it has nothing) in rising order. The server sums what the workers
///     pushed for a number, then applies prox_l1_step() once to every key touched in it.
/// Collectives: sum(), max(), barrier(), sum_by_key(), max_by_key() and concatenate() are called
///     by all workers in the same order, and never while an iteration is outstanding.
/// Waiting: between two calls a worker computes for as long as its data take, and the others wait
///     for it without a time limit. That another worker has died or given up ends the waiting at
///     once, with kPeerLost.
/// Errors: of the transport (Errc::kPeerLost, kDeadline, ...); the exchange cannot be used then.
/// Thread: the worker's own.
class BlockExchange {
public:
    virtual ~BlockExchange() = default;
    BlockExchange(const BlockExchange&) = delete;
    BlockExchange& operator=(const BlockExchange&) = delete;
    BlockExchange(BlockExchange&&) = delete;
    BlockExchange& operator=(BlockExchange&&) = delete;

    [[nodiscard]] virtual uint32_t worker_index() const noexcept = 0;
    [[nodiscard]] virtual uint32_t worker_count() const noexcept = 0;

    /// Memory for `count` values, zeroed, that lives as long as the exchange. Pushes from it and
    /// pulls into it need no copy. Other memory may be used too, for short lists.
    [[nodiscard]] virtual Result<std::span<double>> make_buffer(uint64_t count) = 0;

    /// Starts to push this worker's part of an iteration: for keys[i] the gradient is
    /// pairs[2 * i] and the curvature pairs[2 * i + 1].
    ///
    /// Shape:  keys sorted, unique; pairs.size() == 2 * keys.size()
    /// Borrow: both spans until wait(iteration) returned; see WaitAtExit
    /// Errors: told by wait()
    virtual void push(uint64_t iteration, std::span<const uint64_t> keys,
                      std::span<const double> pairs) = 0;

    /// Starts to pull the weights as they are right after `iteration` (which this worker has
    /// pushed). No later iteration touches these keys before wait(iteration) has returned here.
    ///
    /// Shape:  keys sorted, unique; out.size() == keys.size(). A key never touched reads as 0.
    /// Borrow: both spans until wait(iteration) returned; see WaitAtExit
    /// Errors: told by wait()
    virtual void pull(uint64_t iteration, std::span<const uint64_t> keys,
                      std::span<double> out) = 0;

    /// Waits for every push and pull of iterations up to `iteration`; at an error for all that
    /// are outstanding, so that their buffers are the caller's again either way.
    [[nodiscard]] virtual Status wait(uint64_t iteration) = 0;

    /// values[i] becomes the sum over all workers of values[i]; every worker gets the same bits.
    [[nodiscard]] virtual Status sum(std::span<double> values) = 0;
    /// values[i] becomes the greatest of all workers' values[i].
    [[nodiscard]] virtual Status max(std::span<double> values) = 0;
    [[nodiscard]] virtual Status barrier() = 0;

    /// values[i] becomes the sum over the workers that have keys[i] in their list; the same bits
    /// for each of them. `values` comes from make_buffer(), keys are sorted and unique.
    [[nodiscard]] virtual Status sum_by_key(std::span<const uint64_t> keys,
                                            std::span<double> values) = 0;

    /// values[i] becomes the greatest value of the workers that have keys[i] in their list.
    [[nodiscard]] virtual Status max_by_key(std::span<const uint64_t> keys,
                                            std::span<double> values) = 0;

    /// Lists of the workers become one list that all of them may read: what this worker gives
    /// stands from all[begin] on. Every place of the list is given by exactly one worker.
    ///
    /// Shape:  all.size() is the length of the whole list, at most kReduceValueCountMax; 0 for a
    ///         worker that does not want it
    [[nodiscard]] virtual Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                                             std::span<uint64_t> all) = 0;

    /// Time that this worker has spent in wait() and in collectives.
    [[nodiscard]] virtual uint64_t waited_ns() const noexcept = 0;

protected:
    BlockExchange() = default;
};

/// Waits for everything that is outstanding when its scope is left. Whoever pushes and pulls
/// declares one after the buffers, so that these outlive what works on them, also where an
/// exception (no memory left) leaves the scope.
class WaitAtExit {
public:
    explicit WaitAtExit(BlockExchange& exchange) : exchange_(exchange) {}

    WaitAtExit(const WaitAtExit&) = delete;
    WaitAtExit& operator=(const WaitAtExit&) = delete;
    WaitAtExit(WaitAtExit&&) = delete;
    WaitAtExit& operator=(WaitAtExit&&) = delete;

    ~WaitAtExit() { (void)exchange_.wait(std::numeric_limits<uint64_t>::max()); }

private:
    BlockExchange& exchange_;
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BlockExchange: the operations that the solver of sparse logistic regression needs from a
/// parameter server. One object per worker. ClientExchange implements it over weir::Client; the
/// tests implement it in memory.

#include <cstdint>
#include <limits>
#include <span>

#include "lib/base/result.h"

namespace weir::apps {

/// The most values that one call of BlockExchange::sum(), sum_at_first(), max() or concatenate() takes.
inline constexpr uint64_t kReduceValueCountMax = 65536;

/// The connection of one worker to the table of weights (float64, one value per key, rule
/// `prox_l1`) and to the other workers.
///
/// Iterations: numbered from 1 without gaps. Every worker pushes each iteration exactly once, in
///     rising order; a worker that has nothing to push pushes an empty list. The server sums the
///     workers' pushes of an iteration, then applies prox_l1_step() once to every pushed key.
/// Collectives: sum(), sum_at_first(), max(), barrier(), sum_by_key(), max_by_key() and concatenate() are
///     called by all workers in the same order, and never while an iteration is outstanding.
/// Waiting: a worker may compute between two calls for as long as its data need; the other
///     workers wait for it without a time limit. If another worker dies or gives up, the wait
///     ends at once with kPeerLost.
/// Errors: of the transport (Errc::kPeerLost, kDeadline, ...). After an error the exchange cannot
///     be used any more.
/// Thread: the worker's own.
class BlockExchange {
public:
    virtual ~BlockExchange() = default;
    BlockExchange(const BlockExchange&) = delete;
    BlockExchange& operator=(const BlockExchange&) = delete;

    [[nodiscard]] virtual uint32_t worker_index() const noexcept = 0;
    [[nodiscard]] virtual uint32_t worker_count() const noexcept = 0;

    /// Returns zeroed memory for `count` values that lives as long as the exchange. Pushes from
    /// it and pulls into it need no copy. For short lists the caller may use other memory.
    [[nodiscard]] virtual Result<std::span<double>> make_buffer(uint64_t count) = 0;

    /// Starts to push this worker's part of an iteration. For keys[i], pairs[2 * i] is the
    /// gradient and pairs[2 * i + 1] the curvature. `rest`: as of prox_l1_step(), the same for all
    /// workers.
    ///
    /// Shape:  keys sorted, unique; pairs.size() == 2 * keys.size()
    /// Borrow: both spans until wait(iteration) has returned; see WaitAtExit
    /// Errors: wait() returns them
    virtual void push(uint64_t iteration, std::span<const uint64_t> keys,
                      std::span<const double> pairs, double rest) = 0;

    /// Starts to pull the weights as they are right after `iteration`, which this worker has
    /// pushed, or before any iteration if that is 0. No later iteration may change these keys
    /// before wait(iteration) has returned here.
    ///
    /// Shape:  keys sorted, unique; out.size() == keys.size(). A key never pushed reads as 0.
    /// Borrow: both spans until wait(iteration) has returned; see WaitAtExit
    /// Errors: wait() returns them
    virtual void pull(uint64_t iteration, std::span<const uint64_t> keys,
                      std::span<double> out) = 0;

    /// Waits for every push and pull of iterations up to `iteration`. After an error it waits for
    /// all outstanding ones. So the caller owns the buffers again, with or without an error.
    [[nodiscard]] virtual Status wait(uint64_t iteration) = 0;

    /// All pushes and pulls of iterations up to this one have ended: wait() for it returns at once.
    [[nodiscard]] virtual uint64_t arrived() = 0;

    /// Starts to set all[i] to the sum of all workers' mine[i]. Iterations go on meanwhile; no other such sum and no
    /// sum_at_first() does.
    ///
    /// Shape:  both of one size, at most kReduceValueCountMax; the same for all workers
    /// Borrow: both until finish_sum() has returned
    virtual void start_sum(std::span<const double> mine, std::span<double> all) = 0;
    /// Without such a sum it returns at once.
    [[nodiscard]] virtual Status finish_sum() = 0;

    /// Sets values[i] to the sum of all workers' values[i]. Every worker gets the same bits.
    [[nodiscard]] virtual Status sum(std::span<double> values) = 0;
    /// Sets the first worker's values to the sums; those of the others stay. For many values, of which most
    /// may be 0. Shape: values.size() at most kReduceValueCountMax
    [[nodiscard]] virtual Status sum_at_first(std::span<double> values) = 0;
    /// Sets values[i] to the greatest of all workers' values[i].
    [[nodiscard]] virtual Status max(std::span<double> values) = 0;
    [[nodiscard]] virtual Status barrier() = 0;

    /// Sets values[i] to the sum over the workers that have keys[i] in their list. Each of them
    /// gets the same bits. Keys are sorted and unique; `values` comes from make_buffer().
    [[nodiscard]] virtual Status sum_by_key(std::span<const uint64_t> keys,
                                            std::span<double> values) = 0;

    /// Sets values[i] to the greatest value of the workers that have keys[i] in their list.
    [[nodiscard]] virtual Status max_by_key(std::span<const uint64_t> keys,
                                            std::span<double> values) = 0;

    /// Joins the workers' lists into one and writes it to `all`. This worker's list `mine` stands
    /// from all[begin] on. Exactly one worker must supply each element of the whole list.
    ///
    /// Shape:  all.size() is the length of the whole list, at most kReduceValueCountMax; 0 for a
    ///         worker that does not want the list
    [[nodiscard]] virtual Status concatenate(uint64_t begin, std::span<const uint64_t> mine,
                                             std::span<uint64_t> all) = 0;

    /// The time that this worker has spent waiting in wait() and in collectives.
    [[nodiscard]] virtual uint64_t waited_ns() const noexcept = 0;

protected:
    BlockExchange() = default;
};

/// Waits for all outstanding pushes, pulls and sums when its scope ends, also if an exception (out of
/// memory) ends it. Declare one after the buffers of these, so that they outlive it.
class WaitAtExit {
public:
    explicit WaitAtExit(BlockExchange& exchange) : exchange_(exchange) {}

    WaitAtExit(const WaitAtExit&) = delete;
    WaitAtExit& operator=(const WaitAtExit&) = delete;

    ~WaitAtExit() {
        (void)exchange_.wait(std::numeric_limits<uint64_t>::max());
        (void)exchange_.finish_sum();
    }

private:
    BlockExchange& exchange_;
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OpenIterations: the window of open iterations of one table at one shard. It has their state
/// (IterationProgress), knows which of them have a sum in the table, and keeps the parts that are
/// replied to when their iteration ends.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/result.h"
#include "lib/server/iterations/iteration_progress.h"
#include "lib/store/table.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the shard's
class OpenIterations {
public:
    using Failure = IterationProgress::Failure;

    /// `rows`: the table, whose schema says how many iterations are open. It and `closed` must live as long.
    OpenIterations(TableShard& rows, ClosedIterations& closed)
        : rows_(rows), state_(closed, rows.schema().window()), open_(rows.schema().window()) {}

    OpenIterations(const OpenIterations&) = delete;
    OpenIterations& operator=(const OpenIterations&) = delete;
    ~OpenIterations() = default;

    /// A part that has arrived. Within its iteration its name is its worker, its time and its
    /// first position: what is left of a piece that was cut again has the time of that piece.
    struct Part {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
        uint32_t worker = 0;
        uint32_t time = 0;
        std::optional<uint64_t> first;  ///< nothing if it has no keys
        bool is_closed = false;  ///< its positions have closed the iteration: it is only counted
        bool is_excuse = false;  ///< the worker sends no more parts of the iteration

        [[nodiscard]] bool has_name_of(const Part& other) const noexcept {
            return worker == other.worker && time == other.time && first == other.first;
        }
    };

    /// If a part with this name has arrived before, and is kept: that one counts, and `again` gets
    /// the reply. False if there is none.
    [[nodiscard]] bool replace(uint64_t iteration, const Part& again) noexcept;

    [[nodiscard]] IterationProgress& state() noexcept { return state_; }

    [[nodiscard]] const IterationProgress& state() const noexcept { return state_; }

    /// Whether a part, one of `parts`, needs no sum because it is all that changes the table
    /// next. One of several parts needs it even with a single worker: if another one fails,
    /// nothing of the iteration may be applied.
    [[nodiscard]] bool is_all(uint64_t iteration, uint32_t worker, uint32_t parts) const noexcept {
        return !open_[iteration % open_.size()].has_sum &&
               state_.is_last(iteration, worker, parts) && state_.closed().highest() < iteration;
    }

    /// Something is added to the iteration's sum, which has to be applied or dropped.
    void added(uint64_t iteration) noexcept { open(iteration).has_sum = true; }

    /// A part brings these arguments. Returns kOk of this worker, or how the iteration fails by them if others
    /// have come before.
    [[nodiscard]] Failure judge_arguments(uint64_t iteration, uint32_t worker,
                                          const RuleArguments& arguments) const;

    /// The part that brought them counts.
    void set_arguments(uint64_t iteration, uint32_t worker, const RuleArguments& arguments);

    /// A part, one of `parts`, has had its effect, or has failed: `outcome`. Returns how its
    /// iteration fails if that is hopeless(): reply to the part. Otherwise it is kept until close().
    /// Only while the iteration lacks() a part of the worker.
    [[nodiscard]] std::optional<Failure> arrived(uint64_t iteration, const Part& part,
                                                 uint32_t parts, const Failure& outcome);

    /// A part that has no effect, and says that none of the worker will have any. The iteration
    /// fails. Returns how if the part is to be replied to now; one is kept until close().
    [[nodiscard]] std::optional<Failure> excuse(uint64_t iteration, const Part& part, Errc status);

    /// A part, one of `parts`, whose positions have closed the iteration. It is only counted, but is
    /// replied to with the others: its worker may have no other part here, and must say again that it
    /// has come when a segment goes elsewhere before. False: nothing closes the iteration here any more, so reply
    /// it now. Only while the iteration lacks() a part of the worker.
    [[nodiscard]] bool arrived_again(uint64_t iteration, const Part& part, uint32_t parts);

    /// IterationProgress::set_withdrawals(). The sums of what fails by it are dropped.
    void set_withdrawals(std::vector<IterationProgress::Withdrawal> withdrawals);

    /// Drops the sum of an open iteration, and calls reply(part) for each part that is kept. None
    /// is kept afterwards.
    template <class Reply>
    void give_up(uint64_t iteration, Reply&& reply) {
        drop_sum(iteration);
        open(iteration).arguments.reset();
        reply_to_all(open(iteration), reply);
    }

    /// Calls reply(part) for each part of this connection that is kept, and forgets it.
    template <class Reply>
    void take_parts_of(transport::ConnectionId connection, Reply&& reply) {
        for (uint64_t i = state_.first_open(); i <= state_.last_open(); ++i) {
            std::erase_if(open(i).parts, [&](const Part& part) {
                if (part.connection != connection) return false;
                reply(part);
                return true;
            });
        }
    }

    /// Ends the first open iteration, which must be complete(): runs the rule on its sum unless it
    /// has failed, and calls reply(part) for each part that is kept.
    template <class Reply>
    void close(Reply&& reply) {
        WEIR_CHECK(state_.complete());
        Open& first = open(state_.first_open());
        if (std::exchange(first.has_sum, false))
            rows_.apply_aggregate(state_.first_open(),
                                  first.arguments ? &*first.arguments : nullptr);
        first.arguments.reset();
        state_.close();
        reply_to_all(first, reply);
    }

    /// The shard is primary of these ranges from now on. Drops the sums of all open iterations,
    /// and calls reply(part) for each part that is kept: its worker sends it again.
    template <class Reply>
    void restart(std::span<const PositionRange> primary, Reply&& reply) {
        for (uint64_t i = state_.first_open(); i <= state_.last_open(); ++i)
            give_up(i, reply);
        state_.restart(primary);
    }

private:
    struct Open {
        bool has_sum = false;
        std::optional<RuleArguments> arguments = {};  ///< of the parts that have come
        uint32_t first_worker = 0;                    ///< that has brought them
        std::vector<Part> parts;
    };

    [[nodiscard]] Open& open(uint64_t iteration) noexcept {
        return open_[iteration % open_.size()];
    }

    void drop_sum(uint64_t iteration) noexcept {
        if (std::exchange(open(iteration).has_sum, false)) rows_.drop_aggregate(iteration);
    }

    template <class Reply>
    static void reply_to_all(Open& of, Reply&& reply) {
        std::ranges::for_each(of.parts, reply);
        of.parts.clear();
    }

    TableShard& rows_;
    IterationProgress state_;
    std::vector<Open> open_;  ///< iteration i at i % size
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OpenIterations: the window of open iterations of one table at one shard. It has their state
/// (Iterations), knows which of them have a sum in the table, and keeps the parts that are
/// answered when their iteration ends.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/result.h"
#include "lib/server/iterations.h"
#include "lib/store/table.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the shard's
class OpenIterations {
public:
    using Failure = Iterations::Failure;

    /// `rows`: the table, whose schema says how many iterations are open. It must live as long.
    OpenIterations(TableShard& rows, uint32_t workers)
        : rows_(rows),
          state_(workers, rows.schema().window()),
          has_one_worker_(workers == 1),
          open_(rows.schema().window()) {}

    OpenIterations(const OpenIterations&) = delete;
    OpenIterations& operator=(const OpenIterations&) = delete;
    ~OpenIterations() = default;

    /// A part that has arrived.
    struct Part {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
        uint32_t worker = 0;
        uint32_t time = 0;  ///< with `worker` and `first`, its name in the iteration
        uint64_t first = 0;
    };

    /// If a part with this name has arrived, and is kept: that one counts, and `again` gets the
    /// answer. False if there is none.
    [[nodiscard]] bool replace(uint64_t iteration, const Part& again) noexcept;

    [[nodiscard]] Iterations& state() noexcept { return state_; }

    [[nodiscard]] const Iterations& state() const noexcept { return state_; }

    /// Whether a part, one of `parts`, needs no sum because it is all that changes the table
    /// next. One of several parts needs it even with a single worker: if another one fails,
    /// nothing of the iteration may be applied.
    [[nodiscard]] bool is_all(uint64_t iteration, uint32_t parts) const noexcept {
        return has_one_worker_ && parts == 1 && iteration == state_.first_open();
    }

    /// Something is added to the iteration's sum, which has to be applied or dropped.
    void added(uint64_t iteration) noexcept { open(iteration).has_sum = true; }

    /// An admitted part has had its effect, or has failed. If its iteration fails, returns how:
    /// answer the part, and what take_failed() says. Otherwise it is kept until then or close().
    [[nodiscard]] std::optional<Failure> arrived(uint64_t iteration, const Part& part, Errc status);

    /// Drops the sum of an open iteration that has failed, and calls answer(part) for each part
    /// that is kept. None is kept afterwards.
    template <class Answer>
    void take_failed(uint64_t iteration, Answer&& answer) {
        Open& failed = open(iteration);
        if (failed.has_sum) rows_.drop_aggregate(iteration);
        failed.has_sum = false;
        std::ranges::for_each(failed.parts, answer);
        failed.parts.clear();
    }

    /// Calls answer(part) for each part of this connection that is kept, and forgets
    /// it.
    template <class Answer>
    void take_parts_of(transport::ConnectionId connection, Answer&& answer) {
        for (uint64_t i = state_.first_open(); i <= state_.last_open(); ++i) {
            std::erase_if(open(i).parts, [&](const Part& part) {
                if (part.connection != connection) return false;
                answer(part);
                return true;
            });
        }
    }

    /// Ends the first open iteration, which must be complete(): runs the rule on its sum unless it
    /// has failed, and calls answer(part) for each part that is kept.
    template <class Answer>
    void close(Answer&& answer) {
        Open& first = open(state_.first_open());
        if (first.has_sum) rows_.apply_aggregate(state_.first_open());
        first.has_sum = false;
        state_.close();
        std::ranges::for_each(first.parts, answer);
        first.parts.clear();
    }

private:
    struct Open {
        bool has_sum = false;
        std::vector<Part> parts;
    };

    [[nodiscard]] Open& open(uint64_t iteration) noexcept {
        return open_[iteration % open_.size()];
    }

    TableShard& rows_;
    Iterations state_;
    bool has_one_worker_;
    std::vector<Open> open_;  ///< iteration i at i % size
};

}  // namespace weir

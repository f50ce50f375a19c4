// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PushedIterations: which iterations of a table a worker has pushed, and which of these pushes
/// have not ended.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "lib/worker/calls/calls.h"

namespace weir {

/// Thread: the client's
class PushedIterations {
public:
    /// `first`: the iteration from which on the worker takes part.
    explicit PushedIterations(uint64_t first = 1) noexcept : last_(first - 1) {}

    /// The last one that was pushed; the one before the first if none was.
    [[nodiscard]] uint64_t last() const noexcept { return last_; }

    /// How many iterations, up to last(), are not known to have ended: the first of them has not.
    [[nodiscard]] size_t open_count(Calls& calls) noexcept {
        while (!open_.empty() && calls.has_ended(open_.front()))
            open_.pop_front();
        return open_.size();
    }

    /// `push` is the push of the next iteration.
    void add(Calls::Id push) {
        ++last_;
        open_.push_back(push);
    }

private:
    uint64_t last_;
    std::deque<Calls::Id> open_;  ///< pushes of the iterations up to last_, one after the other
};

}  // namespace weir

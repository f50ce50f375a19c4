// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CompletionQueue: completions of an endpoint's own operations and connections, in order.

#include <cstddef>
#include <vector>

#include "transport/transport.h"

namespace weir::transport::shm {

/// Allocates only when it grows. Thread: the endpoint's.
class CompletionQueue {
public:
    [[nodiscard]] bool empty() const noexcept { return next_ == waiting_.size(); }

    /// Returns the completion's place, for at(), which is valid until the next pop().
    size_t push(const Completion& completion) {
        waiting_.push_back(completion);
        return waiting_.size() - 1;
    }

    [[nodiscard]] Completion& at(size_t place) noexcept { return waiting_[place]; }

    Completion pop() noexcept {
        const Completion first = waiting_[next_++];
        if (next_ == waiting_.size()) {
            waiting_.clear();
            next_ = 0;
        }
        return first;
    }

private:
    std::vector<Completion> waiting_;
    size_t next_ = 0;
};

}  // namespace weir::transport::shm

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Delivery: passes completions to the caller, and takes the buffers of received messages back. A
/// completion that finds no room in the caller's array waits for the next poll, in order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace weir::transport::verbs {

/// A buffer of the receive queue that a message came into.
struct ReceivedBuffer {
    uint32_t number = 0;
    ConnectionId connection = 0;  ///< whose window it counts against; 0: no connection's
};

/// Thread: the endpoint's.
class Delivery {
public:
    /// A poll begins: takes back the buffers lent in the last poll and delivers what waits.
    void begin(std::span<Completion> out) {
        out_ = out;
        count_ = 0;
        returned_.insert(returned_.end(), lent_.begin(), lent_.end());
        lent_.clear();
        while (!pending_.empty() && has_room()) {
            put(pending_.front());
            pending_.pop_front();
        }
    }

    /// The poll ends. Returns how many completions were delivered.
    [[nodiscard]] size_t end() noexcept {
        out_ = {};
        return std::exchange(count_, 0);
    }

    void add(const Completion& completion) { add_lending(completion, {}); }

    /// Like add(), but lends `buffer` to the caller until the next poll.
    void add_lending(const Completion& completion, const ReceivedBuffer& buffer) {
        if (has_room() && pending_.empty()) {
            put({completion, buffer});
        } else {
            pending_.push_back({completion, buffer});
        }
    }

    /// Takes back a buffer that is not lent.
    void give_back(const ReceivedBuffer& buffer) { returned_.push_back(buffer); }

    /// Buffers that may be posted again. The endpoint empties it.
    [[nodiscard]] std::vector<ReceivedBuffer>& returned() noexcept { return returned_; }

    [[nodiscard]] size_t count() const noexcept { return count_; }

    /// How many more completions fit into the caller's array.
    [[nodiscard]] size_t room() const noexcept { return out_.size() - count_; }

    [[nodiscard]] bool has_room() const noexcept { return count_ < out_.size(); }

    /// Whether the next poll has something to do even if the device reports nothing.
    [[nodiscard]] bool is_waiting() const noexcept { return !pending_.empty() || !lent_.empty(); }

private:
    struct PendingCompletion {
        Completion completion;
        ReceivedBuffer buffer;  ///< holds the message, if there is one
    };

    void put(const PendingCompletion& next) {
        out_[count_++] = next.completion;
        if (next.buffer.connection != 0) lent_.push_back(next.buffer);
    }

    std::span<Completion> out_;  ///< the caller's array, during a poll
    size_t count_ = 0;
    std::deque<PendingCompletion> pending_;
    std::vector<ReceivedBuffer> lent_;      ///< lent to the caller
    std::vector<ReceivedBuffer> returned_;  ///< to be posted again
};

}  // namespace weir::transport::verbs

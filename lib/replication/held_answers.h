// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HeldAnswers: answers that promise something, until all counted copies have what they promise.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// They leave in the order in which they came. Each waits for the state that the shard had when
/// what it answers was executed (Streams::state()): also a repeated push, whose effect may not be in
/// the copies yet.
///
/// Thread: the shard's
class HeldAnswers {
public:
    void add(uint64_t state, transport::ConnectionId connection, const wire::FrameHeader& header,
             std::span<const std::byte> body) {
        held_.push_back({state, connection, header, {body.begin(), body.end()}});
    }

    /// Calls send(connection, header, body) for those whose state is not above `confirmed`. Returns
    /// how many those are.
    template <class Send>
    size_t release(uint64_t confirmed, Send&& send) {
        size_t count = 0;
        for (; !held_.empty() && held_.front().state <= confirmed; ++count) {
            Held& first = held_.front();
            send(first.connection, first.header, std::span<const std::byte>(first.body));
            held_.pop_front();
        }
        return count;
    }

    [[nodiscard]] bool has_any_of(uint64_t confirmed) const noexcept {
        return !held_.empty() && held_.front().state <= confirmed;
    }

    /// The connection is closed: nobody waits for its answers.
    void forget(transport::ConnectionId connection) {
        std::erase_if(held_, [&](const Held& held) { return held.connection == connection; });
    }

    [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

private:
    struct Held {
        uint64_t state = 0;
        transport::ConnectionId connection = 0;
        wire::FrameHeader header;
        std::vector<std::byte> body;
    };

    std::deque<Held> held_;  ///< by rising state
};

}  // namespace weir

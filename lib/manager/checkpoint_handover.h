// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CheckpointHandover: of several managers, one that does not lead asks the one that does for a
/// checkpoint, because somebody asks its process for one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/clock.h"
#include "transport/transport.h"

namespace weir {

/// It asks as a command does, over a connection of its own, until it has an answer. One that did not
/// come because its manager died may mean a checkpoint more.
///
/// Thread: the manager's
class CheckpointHandover {
public:
    CheckpointHandover(transport::Endpoint& endpoint, const Clock& clock) noexcept
        : endpoint_(endpoint), clock_(clock) {}

    /// Goes on to ask the manager at `leader`, with whom it begins anew if that was another one.
    /// Empty: nobody leads. Returns how much was done.
    size_t ask(const std::string& leader);

    /// Whether there is an answer. Then the next ask() is another question.
    [[nodiscard]] bool take_answer();

    /// Nobody is to be asked any more.
    void stop();

    /// Whether take() is to have what happens on this connection.
    [[nodiscard]] bool has(transport::ConnectionId connection) const noexcept {
        return connection_ != 0 && connection == connection_;
    }

    void take(const transport::Completion& completion);

private:
    void send_question();
    void take_message(std::span<const std::byte> message);

    transport::Endpoint& endpoint_;
    const Clock& clock_;
    std::string leader_;                      ///< that was asked last
    transport::ConnectionId connection_ = 0;  ///< 0: none
    uint64_t due_ns_ = 0;                     ///< of the next attempt to connect
    bool is_answered_ = false;
};

}  // namespace weir

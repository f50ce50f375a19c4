// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Credits: the flow control of one connection, the same for every backend that has to post room
/// for messages before they come.
///
/// Each side grants the other a window: how many messages it has room for. A sender spends a
/// credit per message; the receiver owes it back once the room is free again, and pays on its next
/// message or, if there is none and half of the window is owed, by a credit update of its own. An
/// update is a message too and costs a credit, so the last credit is kept for it: two sides that
/// both have sent all they may can still tell each other that there is room again.

#include <algorithm>
#include <cstdint>

#include "lib/base/check.h"

namespace weir::transport {

/// Thread: the connection's own.
class Credits {
public:
    /// The smallest window. With less, every update would be answered by another one, for ever:
    /// half of the window must be more than the one message that an update is.
    static constexpr uint32_t kWindowMin = 4;

    Credits() = default;

    /// `granted_to_us` by the peer, `granted_by_us` to the peer; both at least kWindowMin.
    Credits(uint32_t granted_to_us, uint32_t granted_by_us) noexcept
        : window_out_(granted_to_us), window_in_(granted_by_us), available_(granted_to_us) {
        WEIR_CHECK(granted_to_us >= kWindowMin && granted_by_us >= kWindowMin);
    }

    // The sender's half.

    /// Whether a message may be sent now.
    [[nodiscard]] bool can_send() const noexcept { return available_ > 1; }

    /// One message goes out.
    void spend() noexcept {
        WEIR_CHECK(available_ > 0);
        --available_;
    }

    /// The peer has room again for `count` more. False: that is more than we ever used, a lie.
    [[nodiscard]] bool take_back(uint32_t count) noexcept {
        if (count > window_out_ - available_) return false;
        available_ += count;
        return true;
    }

    // The receiver's half.

    /// A message came in. False: the peer has sent more than it may.
    [[nodiscard]] bool receive() noexcept {
        if (unpaid_ == window_in_) return false;
        ++unpaid_;
        return true;
    }

    /// The room of one received message is free again.
    void free_one() noexcept {
        WEIR_CHECK(owed_ < unpaid_);
        ++owed_;
    }

    /// How many credits the message that is being made takes back to the peer, `most` at most. They
    /// count as paid.
    [[nodiscard]] uint32_t pay(uint32_t most) noexcept {
        const uint32_t paid = std::min(owed_, most);
        owed_ -= paid;
        unpaid_ -= paid;
        return paid;
    }

    /// Whether a credit update should go out now: much is owed, and it can be paid for.
    [[nodiscard]] bool update_due() const noexcept {
        return owed_ >= window_in_ / 2 && available_ > 0;
    }

    [[nodiscard]] uint32_t available() const noexcept { return available_; }

    [[nodiscard]] uint32_t owed() const noexcept { return owed_; }

    [[nodiscard]] uint32_t window_in() const noexcept { return window_in_; }

    [[nodiscard]] uint32_t window_out() const noexcept { return window_out_; }

private:
    uint32_t window_out_ = 0;
    uint32_t window_in_ = 0;
    uint32_t available_ = 0;  ///< messages that we may send
    uint32_t unpaid_ = 0;     ///< received messages that the peer has no credit back for
    uint32_t owed_ = 0;       ///< those of them whose room is free
};

}  // namespace weir::transport

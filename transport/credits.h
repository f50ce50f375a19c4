// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Credits: the flow control of one connection, for every backend that must post receive buffers
/// before messages arrive.
///
/// Each side grants the other a window: the number of messages it has room for. A sender spends a
/// credit per message. The receiver owes the credit once the room is free again, and returns it
/// with its next message. If it has no message to send and owes half of the window, it sends a
/// credit update. An update is a message too and costs a credit, so the last credit is kept for
/// it: two sides that have both sent all they may can still return credits to each other.

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

    /// The peer returned `count` credits. False if that is more than we have spent: a protocol
    /// error.
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

    /// Takes owed credits, `most` at most, to be returned with the message that is being made.
    /// Returns their number.
    [[nodiscard]] uint32_t pay(uint32_t most) noexcept {
        const uint32_t paid = std::min(owed_, most);
        owed_ -= paid;
        unpaid_ -= paid;
        return paid;
    }

    /// Whether a credit update should go out now: half of the window is owed, and a credit is
    /// left.
    [[nodiscard]] bool update_due() const noexcept {
        return owed_ >= window_in_ / 2 && available_ > 0;
    }

private:
    uint32_t window_out_ = 0;
    uint32_t window_in_ = 0;
    uint32_t available_ = 0;  ///< messages that we may send
    uint32_t unpaid_ = 0;     ///< received messages whose credit was not returned
    uint32_t owed_ = 0;       ///< those of them whose room is free
};

}  // namespace weir::transport

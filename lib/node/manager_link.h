// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerLink: a member's end of its link to the manager. It makes a connection that breaks anew
/// until the manager is known to have ended, or for kGiveUpNs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/node/link.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Its owner polls the endpoint, and tells the link what happens to the connection that it owns().
///
/// Thread: that of the endpoint
class ManagerLink {
public:
    using ConnectionId = transport::ConnectionId;

    /// A member that cannot reach a manager which is not known to have ended tries so long.
    static constexpr uint64_t kGiveUpNs = 120 * kSecond;

    ManagerLink(transport::Endpoint& endpoint, const Clock& clock, std::string address,
                LinkIdentity identity)
        : endpoint_(endpoint),
          clock_(clock),
          address_(std::move(address)),
          identity_(std::move(identity)) {}

    /// Begins the first connection.
    [[nodiscard]] Status connect();

    [[nodiscard]] bool owns(ConnectionId connection) const noexcept {
        return connection == connection_ && connection != 0;
    }

    [[nodiscard]] ConnectionId connection() const noexcept { return connection_; }

    /// The connection is open. True if it is the first one.
    bool connected();

    /// A frame, in order with all others, now or later. Does nothing once the link is over.
    void send(wire::FrameHeader header, std::span<const std::byte> body = {});

    enum class Taken {
        kFrame,  ///< a frame for the owner
        kOwn,    ///< the link needed it
        kWrong   ///< a frame that no manager sends now
    };

    /// A frame has arrived on the connection.
    [[nodiscard]] Taken take(const wire::Frame& frame);

    /// The connection is closed. True: the link goes on over another one. False: it is over.
    [[nodiscard]] bool closed();

    /// Posts what waits, and makes the connection anew when it is time. Returns how much was done.
    size_t poll(std::string_view name);

    /// poll() has something to do, or will have.
    [[nodiscard]] bool must_poll() const noexcept {
        return state_ == State::kBroken || link_.has_unposted() || link_.owes_count() ||
               has_moved();
    }

    [[nodiscard]] bool is_broken() const noexcept {
        return state_ == State::kBroken || state_ == State::kReconnecting ||
               state_ == State::kResuming;
    }

    /// When poll() has something to do. 0: now; ~0: when something has happened on the endpoint.
    [[nodiscard]] uint64_t due_ns() const noexcept;

    /// The link is over, because of this: since it broke, the manager has ended, or cannot be
    /// reached. The owner learns it once.
    [[nodiscard]] std::optional<Error> take_end();

    /// The rank of the manager that leads, if it is another one of several than before. The owner learns of
    /// each change once; of several changes between two calls, of the last.
    [[nodiscard]] std::optional<uint32_t> take_new_leader();

    /// The member ends, and says so if it can.
    void end();

private:
    enum class State : uint8_t {
        kConnecting,  ///< the first connection
        kOpen,
        kBroken,        ///< until the next attempt
        kReconnecting,  ///< an attempt is under way
        kResuming,      ///< the manager has yet to say how much it has
        kOver
    };

    void greet(Errc status);
    void over(Error why);
    [[nodiscard]] Result<ConnectionId> begin_connection();
    [[nodiscard]] bool has_several() const noexcept;
    /// Another of several managers leads than that to which the connection was begun.
    [[nodiscard]] bool has_moved() const noexcept;
    void follow_leader();
    size_t move();

    transport::Endpoint& endpoint_;
    const Clock& clock_;
    std::string address_;
    LinkIdentity identity_;
    State state_ = State::kConnecting;
    ConnectionId connection_ = 0;
    uint64_t made_to_ = 0;  ///< ManagerLife::leading, when the connection was begun
    Link link_;
    uint64_t number_ = 0;    ///< of the connection; the first has 1
    bool is_known_ = false;  ///< the manager has answered a connection
    bool has_warned_ = false;
    uint64_t broken_ns_ = 0;  ///< since when it is broken
    uint64_t not_before_ns_ = 0;
    uint64_t pause_ns_ = 0;
    std::optional<Error> end_;
    std::optional<uint32_t> new_leader_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FakeEndpoint: an endpoint whose peers are the test itself. It keeps what is sent, and delivers
/// what the test says.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/frame.h"
#include "tests/messages_only_endpoint.h"
#include "transport/transport.h"

namespace weir::testing {

using Bytes = std::vector<std::byte>;

[[nodiscard]] inline Bytes bytes_of_frame(wire::FrameHeader header,
                                          std::span<const std::byte> body = {}) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::span<const std::byte> head = wire::bytes_of(header);
    Bytes bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

/// The header of a frame that was sent or received.
[[nodiscard]] inline wire::FrameHeader header_in(std::span<const std::byte> bytes) {
    wire::Frame frame;
    REQUIRE(wire::decode(bytes, frame) == Errc::kOk);
    return frame.header;
}

class FakeEndpoint final : public MessagesOnlyEndpoint {
public:
    // What the peers do.

    /// A peer connects.
    ConnectionId accept() {
        open_.insert(++last_);
        tell(transport::Event::kAccepted, last_);
        return last_;
    }

    /// The peer of a connect() accepts it.
    void answer(ConnectionId connection) { tell(transport::Event::kConnected, connection); }

    void arrive(ConnectionId connection, Bytes message) {
        Arrived& arrived = tell(transport::Event::kReceived, connection);
        arrived.message = std::move(message);
    }

    void arrive(ConnectionId connection, wire::FrameHeader header,
                std::span<const std::byte> body = {}) {
        arrive(connection, bytes_of_frame(header, body));
    }

    /// A reset: it says nothing about the peer.
    void cut(ConnectionId connection) { end(connection, false); }

    /// The peer closes in order, or its kernel does.
    void end_in_order(ConnectionId connection) { end(connection, true); }

    // What was done here.

    [[nodiscard]] const std::vector<Bytes>& sent(ConnectionId connection) {
        return sent_[connection];
    }

    [[nodiscard]] bool is_open(ConnectionId connection) const { return open_.contains(connection); }

    [[nodiscard]] ConnectionId last() const { return last_; }

    size_t room = ~size_t{0};  ///< frames that send() still takes
    size_t message_bytes_max = 8192;
    bool is_unreachable = false;  ///< connect() fails
    size_t connects = 0;
    std::function<void(const Bytes&)> on_sent;  ///< a peer that answers at once

    // Endpoint
    [[nodiscard]] std::string address() const override { return "fake:0"; }

    [[nodiscard]] transport::Capabilities capabilities() const override { return {}; }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view /*address*/) override {
        ++connects;
        if (is_unreachable) return Error(Errc::kUnavailable, "no way");
        open_.insert(++last_);
        return last_;
    }

    void close(ConnectionId connection) override {
        if (open_.erase(connection) != 0) tell(transport::Event::kClosed, connection);
    }

    [[nodiscard]] transport::Post send(ConnectionId connection,
                                       std::span<const std::span<const std::byte>> parts) override {
        if (!open_.contains(connection)) return transport::Post::kClosed;
        Bytes frame = joined(parts);
        if (frame.size() > message_bytes_max) return transport::Post::kInvalid;
        if (room == 0) return transport::Post::kNotNow;
        --room;
        sent_[connection].push_back(std::move(frame));
        if (on_sent) on_sent(sent_[connection].back());
        return transport::Post::kPosted;
    }

    void flush() override {}

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override {
        lent_.clear();
        size_t count = 0;
        for (; count < completions.size() && !arrived_.empty(); ++count) {
            Arrived arrived = std::move(arrived_.front());
            arrived_.pop_front();
            completions[count] = arrived.completion;
            lent_.push_back(std::move(arrived.message));
            completions[count].message = lent_.back();
        }
        return count;
    }

    [[nodiscard]] int arm() override { return -1; }

    [[nodiscard]] std::string peer_name(ConnectionId /*connection*/) const override {
        return "a peer";
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return counters_;
    }

private:
    struct Arrived {
        transport::Completion completion;
        Bytes message;
    };

    Arrived& tell(transport::Event event, ConnectionId connection) {
        Arrived& arrived = arrived_.emplace_back();
        arrived.completion.event = event;
        arrived.completion.connection = connection;
        return arrived;
    }

    void end(ConnectionId connection, bool is_in_order) {
        if (open_.erase(connection) == 0) return;
        transport::Completion& completion = tell(transport::Event::kClosed, connection).completion;
        completion.status = is_in_order ? Errc::kOk : Errc::kPeerLost;
        completion.peer_ended = is_in_order;
    }

    transport::EndpointCounters counters_;
    ConnectionId last_ = 0;
    std::set<ConnectionId> open_;
    std::map<ConnectionId, std::vector<Bytes>> sent_;
    std::deque<Arrived> arrived_;
    std::deque<Bytes> lent_;
};

}  // namespace weir::testing

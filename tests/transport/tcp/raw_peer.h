// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RawPeer: the other end of a tcp connection, which knows the secret and then sends any bytes.

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "transport/net/handshake.h"
#include "transport/net/socket.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/limits.h"

namespace weir::transport::tcp::testing {

class RawPeer {
public:
    explicit RawPeer(const Secret& secret) : handshake_(kProtocol, Side::kConnecting, secret, {}) {}

    /// Connects to an endpoint's address, up to the end of the handshake. `poll` polls the
    /// endpoint. False: the handshake failed.
    [[nodiscard]] bool connect(std::string_view address, uint32_t message_bytes_max,
                               const std::function<void()>& poll) {
        const auto to = SocketAddress::parse(address.substr(kScheme.size()));
        WEIR_CHECK(to.has_value());
        socket_ = std::move(Socket::connect(*to, 4000).value());
        pollfd writable{socket_.fd(), POLLOUT, 0};
        static_cast<void>(::poll(&writable, 1, 1000));
        RecordReader records(kProtocol, Handshake::kBodyBytesMax);
        while (!handshake_.is_open()) {
            if (!socket_.send(handshake_.output())) return false;
            poll();
            std::array<std::byte, 512> bytes;
            size_t count = 0;
            const Socket::Got got = socket_.receive(bytes, count);
            if (got == Socket::Got::kEnd || got == Socket::Got::kBroken) return false;
            records.append(std::span(bytes).first(count));
            for (;;) {
                const auto record = records.next();
                if (!record) return false;
                if (!*record) break;
                const auto step = handshake_.take(**record);
                if (!step) return false;
                if (*step == Handshake::Step::kSendPayload) {
                    handshake_.send_payload(ByteWriter().number(message_bytes_max).bytes());
                }
                if (*step == Handshake::Step::kProven) handshake_.ready();
            }
        }
        return socket_.send(handshake_.output());
    }

    /// Sends as much as the kernel takes at once.
    size_t send(std::span<const std::byte> bytes) { return socket_.send_some(bytes).value_or(0); }

    void send(const Frame& frame) {
        const auto bytes = encode(frame);
        send(std::span(bytes).first(head_bytes(frame.type)));
    }

    /// Whatever has come; is_closed() afterwards if the endpoint has closed the connection.
    std::vector<std::byte> received() {
        std::vector<std::byte> all;
        std::array<std::byte, 4096> bytes;
        size_t count = 0;
        for (;;) {
            const Socket::Got got = socket_.receive(bytes, count);
            closed_ = closed_ || got == Socket::Got::kEnd || got == Socket::Got::kBroken;
            if (got != Socket::Got::kSome) return all;
            all.insert(all.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
        }
    }

    [[nodiscard]] bool is_closed() const noexcept { return closed_; }

    void hang_up() { socket_.close(); }

    /// As a network that breaks the connection.
    void reset() {
        const linger at_once{1, 0};
        static_cast<void>(
            ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
        socket_.close();
    }

    void stop_sending() const { ::shutdown(socket_.fd(), SHUT_WR); }

private:
    Handshake handshake_;
    Socket socket_;
    bool closed_ = false;
};

}  // namespace weir::transport::tcp::testing

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/socket.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/core.h>
#include <poll.h>

#include "lib/bootstrap/bootstrap.h"
#include "transport/net/resolve.h"

namespace weir::boot {
namespace {

using transport::Socket;
using transport::SocketAddress;

Error listen_error(const HostPort& at, const Error& error) {
    if (error.code() == Errc::kAlreadyExists) {
        return {Errc::kAlreadyExists,
                fmt::format("cannot listen on {}: the port is in use, by another job's rank 0 or "
                            "another program; choose another port for --rendezvous on all ranks",
                            at.text()),
                error.os_error()};
    }
    if (error.code() == Errc::kInvalidArgument) {
        return {
            Errc::kNotFound,
            fmt::format("cannot listen on {}: {} is not this machine; start rank 0 there, or give "
                        "rank 0's own address to all ranks",
                        at.text(), at.host),
            error.os_error()};
    }
    return error;
}

/// After so long it begins with the next address, too; RFC 8305 recommends 250 ms.
constexpr uint64_t kNextAddressNs = 250 * kMillisecond;

bool are_loopback(const std::vector<SocketAddress>& addresses) {
    return std::ranges::all_of(addresses, &SocketAddress::is_loopback);
}

/// RFC 6761 and the names that distributions have in /etc/hosts; or an address.
bool is_loopback_name(const std::string& host) {
    return host == "localhost" || host.ends_with(".localhost") || host.starts_with("localhost.") ||
           host.starts_with("localhost4") || host.starts_with("localhost6") ||
           host == "ip6-localhost" || host == "ip6-loopback" ||
           SocketAddress::parse_host(host, 0).has_value();
}

/// A socket on :: takes IPv4, too.
Result<Descriptor> listen_on_all(uint16_t port) {
    Result<Descriptor> listener =
        transport::listen_on(SocketAddress::parse_host("::", port).value());
    if (listener || listener.code() == Errc::kAlreadyExists) return listener;
    return transport::listen_on(SocketAddress::parse_host("0.0.0.0", port).value());  // no IPv6
}

/// " (10.0.0.1, 172.17.0.1)"; nothing for an address.
std::string addresses_of(const HostPort& name, const std::vector<SocketAddress>& addresses) {
    std::string text;
    for (const SocketAddress& address : addresses)
        text += (text.empty() ? "" : ", ") + address.host();
    return text == name.host ? "" : fmt::format(" ({})", text);
}

/// Connections that have begun.
class Attempts {
public:
    void begin(const SocketAddress& to) {
        Result<Socket> socket = Socket::connect(to, kSilenceMsMax);
        if (socket) {
            sockets_.push_back(*std::move(socket));
        } else {
            failure_ = socket.error().os_error();
        }
    }

    [[nodiscard]] bool are_over() const noexcept { return sockets_.empty(); }

    /// errno of the last that has failed; before, as if time had ended it.
    [[nodiscard]] int failure() const noexcept { return failure_; }

    /// Waits for one that is made; nothing: none in this time.
    [[nodiscard]] std::optional<Socket> wait(int wait_ms) {
        std::vector<pollfd> entries;
        for (const Socket& socket : sockets_)
            entries.push_back({socket.fd(), POLLOUT, 0});
        if (::poll(entries.data(), entries.size(), wait_ms) <= 0) return std::nullopt;
        for (size_t i = entries.size(); i-- > 0;) {
            if (entries[i].revents == 0) continue;
            const int failure = sockets_[i].failure();
            if (failure == 0) return std::move(sockets_[i]);
            failure_ = failure;
            sockets_.erase(sockets_.begin() + static_cast<ptrdiff_t>(i));
        }
        return std::nullopt;
    }

private:
    std::vector<Socket> sockets_;
    int failure_ = ETIMEDOUT;
};

}  // namespace

Result<std::vector<Descriptor>> tcp_listen(const HostPort& at) {
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(at));
    std::vector<Descriptor> listeners;
    if (are_loopback(addresses) && !is_loopback_name(at.host)) {
        Result<Descriptor> listener = listen_on_all(at.port);
        if (!listener) return listen_error(at, listener.error());
        listeners.push_back(*std::move(listener));
        return listeners;
    }
    Status first;
    for (auto at_address = addresses.begin(); at_address != addresses.end(); ++at_address) {
        const auto is_same = [&](const SocketAddress& a) { return a.same_host(*at_address); };
        if (std::any_of(addresses.begin(), at_address, is_same))
            continue;  // a name may have it twice
        Result<Descriptor> listener = transport::listen_on(*at_address);
        if (listener) {
            listeners.push_back(*std::move(listener));
        } else if (listener.code() == Errc::kAlreadyExists) {
            return listen_error(at, listener.error());
        } else if (first) {
            first = std::move(listener).error();
        }
    }
    if (listeners.empty()) return listen_error(at, first.error());
    return listeners;
}

uint16_t tcp_port(const Descriptor& listener) noexcept {
    return SocketAddress::own(listener.get()).port();
}

Result<Socket> tcp_connect(const HostPort& to, const Clock& clock, uint64_t deadline_ns) {
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(to));
    Attempts attempts;
    uint64_t next_ns = 0;
    for (auto next = addresses.begin(); next != addresses.end() || !attempts.are_over();) {
        const uint64_t now_ns = clock.now_ns();
        if (next != addresses.end() && (attempts.are_over() || now_ns >= next_ns)) {
            attempts.begin(*next++);
            next_ns = now_ns + kNextAddressNs;
            continue;
        }
        const uint64_t until_ns =
            next == addresses.end() ? deadline_ns : std::min(deadline_ns, next_ns);
        if (std::optional<Socket> made = attempts.wait(poll_slice_ms(clock, until_ns)))
            return *std::move(made);
        if (now_ns >= deadline_ns) break;
    }
    return Error(Errc::kPeerLost,
                 fmt::format("cannot connect to {}{}", to.text(), addresses_of(to, addresses)),
                 attempts.failure());
}

bool is_loopback(const std::string& host) {
    const auto addresses = transport::resolve(HostPort{host, 1});
    return addresses && are_loopback(*addresses) && is_loopback_name(host);
}

}  // namespace weir::boot

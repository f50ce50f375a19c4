// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Both sides of a rendezvous on loopback, and unknown peers with a plain socket.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include "lib/bootstrap/rendezvous/rendezvous_client.h"
#include "lib/bootstrap/rendezvous/rendezvous_server.h"
#include "lib/bootstrap/rendezvous/socket.h"
#include "tests/bootstrap/testing.h"

namespace weir::boot {

inline const SteadyClock kClock;

/// For what should happen soon, however busy the machine is.
inline constexpr uint64_t kPatienceS = 60;
/// For what another event must end: beyond all patience.
inline constexpr uint64_t kTooLongS = 3600;

inline uint64_t in_s(uint64_t seconds) {
    return kClock.now_ns() + seconds * kSecond;
}

inline uint64_t in_ms(uint64_t milliseconds) {
    return kClock.now_ns() + milliseconds * kMillisecond;
}

/// A clock that runs, and can be set ahead: a wait ends when what it waited for has been seen.
/// Thread: any.
class AheadClock final : public Clock {
public:
    [[nodiscard]] uint64_t now_ns() const noexcept override {
        ++readings_;
        return kClock.now_ns() + ahead_ns_;
    }

    void advance_s(uint64_t seconds) noexcept { ahead_ns_ += seconds * kSecond; }

    /// How often it has been read: who polls reads it each time.
    [[nodiscard]] uint64_t readings() const noexcept { return readings_; }

private:
    std::atomic<uint64_t> ahead_ns_ = 0;
    mutable std::atomic<uint64_t> readings_ = 0;
};

/// Rank 0 of a job on loopback; `port` 0: on any that is free.
inline std::unique_ptr<RendezvousServer> open_server(uint32_t size,
                                                     std::optional<transport::Secret> secret = {},
                                                     const Clock& clock = kClock,
                                                     uint16_t port = 0) {
    RendezvousOptions options{.at = {"127.0.0.1", port}, .size = size};
    options.secret = secret;
    auto server = RendezvousServer::open(std::move(options), clock);
    REQUIRE(server);
    return std::move(server).value();
}

/// Another rank of the same job, with whatever differences a test wants.
struct Other {
    uint32_t rank = 1;
    uint32_t size = 2;
    std::optional<transport::Secret> secret = {};
    uint64_t wait_ms = kPatienceS * 1000;
};

inline Status run_other(uint16_t port, const Other& other, const Clock& clock = kClock) {
    RendezvousClient client(
        {.at = {"127.0.0.1", port}, .rank = other.rank, .size = other.size, .secret = other.secret},
        clock);
    WEIR_TRY(client.put("name", fmt::format("rank-{}", other.rank)));
    WEIR_TRY(client.exchange(in_ms(other.wait_ms)));
    for (uint32_t rank = 0; rank < other.size; ++rank) {
        WEIR_ASSIGN(const std::string name, client.get(rank, "name"));
        if (name != fmt::format("rank-{}", rank)) return Error(Errc::kProtocol, "changed");
    }
    return client.finish();
}

inline Status run_server(RendezvousServer& server, uint64_t wait_ms = kPatienceS * 1000) {
    WEIR_TRY(server.put("name", "rank-0"));
    return server.exchange(in_ms(wait_ms));
}

inline transport::Socket connect_raw(uint16_t port) {
    auto socket = tcp_connect({"127.0.0.1", port}, kClock, in_s(kPatienceS));
    REQUIRE(socket);
    return std::move(socket).value();
}

inline void send_raw(int fd, std::string_view bytes) {
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// A program that is no rank 0 of a job: it answers one connection with something else, and keeps
/// that open while this object lives.
class OtherProgram {
public:
    OtherProgram() {
        auto listener = tcp_listen({"127.0.0.1", 0});
        REQUIRE(listener);
        listener_ = std::move(listener->front());
        thread_ = std::thread([this] {
            while (!accepted_)
                accepted_ = Descriptor(::accept(listener_.get(), nullptr, nullptr));
            send_raw(accepted_.get(), "SSH-2.0-OpenSSH_9.2\r\n");
        });
    }

    OtherProgram(const OtherProgram&) = delete;
    OtherProgram& operator=(const OtherProgram&) = delete;

    ~OtherProgram() { thread_.join(); }

    [[nodiscard]] uint16_t port() const { return tcp_port(listener_); }

private:
    Descriptor listener_;
    Descriptor accepted_;
    std::thread thread_;
};

/// A record, as text.
inline std::string record_of(uint8_t type, size_t body_bytes) {
    std::vector<std::byte> bytes;
    transport::append_record(bytes, kRendezvousProtocol, type, std::vector<std::byte>(body_bytes));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline constexpr uint8_t kHelloType = 1;  // of transport::Handshake
inline constexpr uint8_t kSaidType = 2;

/// Takes a rank's seat and does nothing with it.
inline RendezvousLink sit_raw(uint16_t port, uint32_t rank, uint32_t size) {
    RendezvousLink link(connect_raw(port), transport::Side::kConnecting, {});
    transport::Handshake& handshake = link.handshake();
    while (!handshake.is_open()) {
        REQUIRE(link.flush());
        const auto record = link.next();
        REQUIRE(record);
        if (!record->has_value()) {
            REQUIRE(link.fill());
            continue;
        }
        const auto step = handshake.take(**record);
        REQUIRE(step);
        const RendezvousHello hello{.rank = rank, .size = size};
        if (*step == transport::Handshake::Step::kSendPayload)
            handshake.send_payload(hello.encode());
        if (*step == transport::Handshake::Step::kProven) handshake.ready();
    }
    REQUIRE(link.flush());
    return link;
}

inline std::string text_of(const Status& status) {
    return status ? "ok" : status.error().message();
}

/// Whether `trial` comes true. It gets the time that ranks wait for each other: little, and if that
/// is too little on a busy machine for a rank to come within it, more.
inline bool comes_true(const std::function<bool(uint64_t wait_ms)>& trial) {
    return trial(200) || trial(5000) || trial(30'000);
}

}  // namespace weir::boot

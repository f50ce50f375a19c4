// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/devices.h"
#include "transport/transport.h"

namespace weir::tools {
namespace {

using transport::Completion;
using transport::ConnectionId;
using transport::Event;
using transport::Post;
using transport::RemoteSpan;

constexpr size_t kBlockBytes = 1 << 20;
constexpr uint32_t kInFlight = 4;
constexpr uint64_t kMeasuredNs = kSecond / 2;
constexpr uint64_t kPatienceNs = 20 * kSecond;

/// One side's memory and endpoint.
class TransferEnd {
public:
    Status open(const TransferSetting& setting, const std::string& transport) {
        WEIR_ASSIGN(devices_,
                    Devices::open_only(transport, setting.config, setting.secret, setting.own));
        WEIR_ASSIGN(memory_, Devices::worker_pool(devices_));
        std::byte* const block = memory_->allocate(kBlockBytes, kAlignment);
        if (block == nullptr)
            return Error(Errc::kNoMemory, "no registered memory for 1 MiB; see `weir help memory`");
        block_ = {block, kBlockBytes};
        std::memset(block_.data(), 1, block_.size());
        WEIR_ASSIGN(endpoint_, devices_->make_endpoint());
        return {};
    }

    ~TransferEnd() {
        endpoint_.reset();
        if (!block_.empty()) memory_->deallocate(block_.data(), block_.size(), kAlignment);
    }

    TransferEnd() = default;
    TransferEnd(const TransferEnd&) = delete;
    TransferEnd& operator=(const TransferEnd&) = delete;

    [[nodiscard]] transport::Endpoint& endpoint() const { return *endpoint_; }

    [[nodiscard]] std::span<std::byte> block() const { return block_; }

    /// Calls take(completion) for what has come. Returns false after `until_ns`.
    template <class Take>
    bool poll(const Take& take, uint64_t until_ns) {
        const size_t count = endpoint_->poll(completions_);
        for (const Completion& one : std::span(completions_).first(count))
            take(one);
        endpoint_->flush();
        return clock_.now_ns() < until_ns;
    }

    SteadyClock clock_;

private:
    static constexpr size_t kAlignment = 64;

    std::shared_ptr<Devices> devices_;
    std::shared_ptr<Memory> memory_;
    std::span<std::byte> block_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::array<Completion, 16> completions_;
};

Error no_connection(Errc status) {
    return {status == Errc::kOk ? Errc::kPeerLost : status,
            fmt::format("no connection ({})", to_string(status))};
}

/// Connects, and waits until the other side has said where its memory is.
Result<RemoteSpan> meet(TransferEnd& end, ConnectionId connection) {
    std::optional<RemoteSpan> remote;
    std::optional<Errc> closed;
    const uint64_t until_ns = end.clock_.now_ns() + kPatienceNs;
    const auto take = [&](const Completion& one) {
        if (one.connection != connection) return;
        if (one.event == Event::kClosed) closed = one.status;
        if (one.event != Event::kReceived || one.message.size() != sizeof(RemoteSpan)) return;
        std::memcpy(&remote.emplace(), one.message.data(), sizeof(RemoteSpan));
    };
    while (!remote && !closed) {
        if (!end.poll(take, until_ns)) return no_connection(Errc::kDeadline);
    }
    if (closed) return no_connection(*closed);
    return *remote;
}

/// A last read shows that all that was written has arrived.
Result<double> measure(TransferEnd& end, ConnectionId connection, const RemoteSpan& remote) {
    uint32_t in_flight = 0;
    uint64_t written = 0;
    Errc failed = Errc::kOk;
    bool is_read = false;
    const auto take = [&](const Completion& one) {
        if (one.connection != connection) return;
        if (one.status != Errc::kOk || one.event == Event::kClosed)
            failed = one.status == Errc::kOk ? Errc::kPeerLost : one.status;
        if (one.event == Event::kWritten) {
            --in_flight;
            written += kBlockBytes;
        }
        if (one.event == Event::kRead) is_read = true;
    };
    const uint64_t begin_ns = end.clock_.now_ns();
    const uint64_t until_ns = begin_ns + kPatienceNs;
    while (failed == Errc::kOk && (end.clock_.now_ns() < begin_ns + kMeasuredNs || in_flight > 0)) {
        const bool goes_on = end.clock_.now_ns() < begin_ns + kMeasuredNs;
        while (goes_on && in_flight < kInFlight &&
               end.endpoint().write(connection, end.block(), remote, 0) == Post::kPosted)
            ++in_flight;
        if (!end.poll(take, until_ns)) return no_connection(Errc::kDeadline);
    }
    RemoteSpan first = remote;
    first.length_bytes = sizeof(uint64_t);
    bool is_posted = false;
    while (failed == Errc::kOk && !is_read) {
        if (!is_posted)
            is_posted = end.endpoint().read(connection, end.block().first(sizeof(uint64_t)), first,
                                            0) == Post::kPosted;
        if (!end.poll(take, until_ns)) return no_connection(Errc::kDeadline);
    }
    if (failed != Errc::kOk) return no_connection(failed);
    return static_cast<double>(written) * 1e9 / static_cast<double>(end.clock_.now_ns() - begin_ns);
}

}  // namespace

Result<double> try_transfer(Talk& talk, const TransferSetting& setting,
                            const std::string& transport) {
    TransferEnd end;
    WEIR_TRY(end.open(setting, transport));
    WEIR_TRY(talk.say("try " + transport));
    WEIR_ASSIGN(const std::string answer, talk.hear());
    if (!answer.starts_with("at "))
        return Error(Errc::kUnavailable, fmt::format("at the other host: {}", answer));
    Result<double> rate = [&]() -> Result<double> {
        WEIR_ASSIGN(const ConnectionId connection, end.endpoint().connect(answer.substr(3)));
        WEIR_ASSIGN(const RemoteSpan remote, meet(end, connection));
        return measure(end, connection, remote);
    }();
    WEIR_TRY(talk.say("done"));
    return rate;
}

Status serve_transfer(Talk& talk, const TransferSetting& setting, const std::string& transport) {
    TransferEnd end;
    if (const Status opened = end.open(setting, transport); !opened)
        return talk.say("no: " + opened.error().message());
    WEIR_TRY(talk.say("at " + end.endpoint().address()));
    std::vector<ConnectionId> accepted;
    const auto take = [&](const Completion& one) {
        if (one.event == Event::kAccepted) accepted.push_back(one.connection);
    };
    const uint64_t until_ns = end.clock_.now_ns() + 3 * kPatienceNs;
    while (!talk.has_line()) {
        if (!end.poll(take, until_ns))
            return Error(Errc::kDeadline, "the other `weir doctor` does not come to an end");
        for (const ConnectionId connection : accepted) {
            const auto exposed = end.endpoint().expose(connection, end.block());
            if (!exposed) continue;
            const std::array<std::span<const std::byte>, 1> parts{
                std::as_bytes(std::span(&*exposed, 1))};
            (void)end.endpoint().send(connection, parts);
        }
        accepted.clear();
    }
    WEIR_ASSIGN(const std::string done, talk.hear());
    return done == "done" ? Status()
                          : Error(Errc::kProtocol, "the other `weir doctor` is confused");
}

Result<double> try_stream(Talk& talk, const transport::SocketAddress& at) {
    WEIR_TRY(talk.say("stream"));
    WEIR_ASSIGN(const std::string ready, talk.hear());
    WEIR_ASSIGN(Talk stream, Talk::call(at));
    const std::vector<char> block(kBlockBytes, 1);
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    uint64_t sent = 0;
    while (clock.now_ns() < begin_ns + kMeasuredNs) {
        const ssize_t got = ::send(stream.fd(), block.data(), block.size(), MSG_NOSIGNAL);
        if (got > 0) sent += static_cast<uint64_t>(got);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return Error(Errc::kPeerLost, "the stream broke", errno);
        pollfd wanted{stream.fd(), POLLOUT, 0};
        (void)::poll(&wanted, 1, 100);
    }
    (void)::shutdown(stream.fd(), SHUT_WR);
    WEIR_ASSIGN(const std::string all, talk.hear());  // once it has arrived
    return static_cast<double>(sent) * 1e9 / static_cast<double>(clock.now_ns() - begin_ns);
}

Status serve_stream(Talk& talk, int listener) {
    WEIR_TRY(talk.say("ready"));
    pollfd wanted{listener, POLLIN, 0};
    (void)::poll(&wanted, 1, static_cast<int>(kPatienceNs / kMillisecond));
    const Descriptor stream(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!stream) return Error(Errc::kPeerLost, "the other `weir doctor` sends no stream", errno);
    timeval patience{static_cast<time_t>(kPatienceNs / kSecond), 0};
    (void)::setsockopt(stream.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::vector<char> block(kBlockBytes);
    while (::recv(stream.get(), block.data(), block.size(), 0) > 0) {
    }
    return talk.say("all");
}

}  // namespace weir::tools

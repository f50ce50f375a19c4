// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/peers.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/consensus/messages.h"

namespace weir::consensus {

using transport::Completion;
using transport::ConnectionId;
using transport::Event;
using transport::Post;

namespace {

// Between two attempts to connect.
constexpr uint64_t kPeerPauseNsMin = 5 * kMillisecond;
constexpr uint64_t kPeerPauseNsMax = 80 * kMillisecond;

}  // namespace

Peers::Peers(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock, uint64_t group,
             uint64_t self, const std::vector<Member>& members, HasEnded has_ended)
    : endpoint_(std::move(endpoint)),
      clock_(clock),
      group_(group),
      self_(self),
      part_bytes_max_(endpoint_->capabilities().message_bytes_max),
      has_ended_(std::move(has_ended)),
      refusals_(clock) {
    for (size_t i = 0; i < members.size(); ++i)
        if (members[i].id != self) peers_.push_back({members[i], i});
    for (Peer& peer : peers_)
        connect(peer);
}

bool Peers::is_due(const Peer& peer, uint64_t now_ns) const {
    return peer.connection == 0 && now_ns >= peer.not_before_ns &&
           (has_ended_ == nullptr || !has_ended_(peer.index));
}

void Peers::connect(Peer& peer) {
    const Result<ConnectionId> begun = endpoint_->connect(peer.member.address);
    begun ? void(peer.connection = *begun) : try_later(peer);
}

void Peers::try_later(Peer& peer) {
    peer.connection = 0;
    peer.is_connected = false;
    peer.waiting.clear();
    peer.waiting_bytes = 0;
    peer.pause_ns = std::clamp(2 * peer.pause_ns, kPeerPauseNsMin, kPeerPauseNsMax);
    peer.not_before_ns = clock_.now_ns() + peer.pause_ns;
}

Peers::Peer* Peers::peer_of(ConnectionId connection) noexcept {
    const auto found = std::ranges::find(peers_, connection, &Peer::connection);
    return found == peers_.end() ? nullptr : &*found;
}

bool Peers::send(uint64_t receiver, std::span<const std::byte> message) {
    const auto peer =
        std::ranges::find(peers_, receiver, [](const Peer& one) { return one.member.id; });
    WEIR_CHECK(peer != peers_.end());
    if (!peer->is_connected || peer->waiting_bytes > kWaitingBytesMax) return false;
    if (message.size() > kMessageBytesMax) return false;
    for (std::vector<std::byte>& part : cut_message(message, part_bytes_max_)) {
        peer->waiting_bytes += part.size();
        peer->waiting.push_back(std::move(part));
    }
    post(*peer);
    return true;
}

void Peers::post(Peer& peer) {
    while (peer.is_connected && !peer.waiting.empty()) {
        const std::array<std::span<const std::byte>, 1> parts{peer.waiting.front()};
        // A connection that has ended says so by kClosed.
        if (endpoint_->send(peer.connection, parts) != Post::kPosted) return;
        peer.waiting_bytes -= peer.waiting.front().size();
        peer.waiting.pop_front();
    }
}

size_t Peers::poll(const Take& take) {
    size_t events = 0;
    for (size_t count = 1; count > 0 && events < kEventsMax; events += count) {
        count = endpoint_->poll(completions_);
        for (const Completion& completion : std::span(completions_).first(count))
            handle(completion, take);
    }
    const uint64_t now_ns = clock_.now_ns();
    for (Peer& peer : peers_) {
        if (is_due(peer, now_ns)) connect(peer);
        post(peer);
    }
    if (refusals_.pending()) refusals_.look();
    endpoint_->flush();
    return events;
}

void Peers::handle(const Completion& completion, const Take& take) {
    Peer* const peer = peer_of(completion.connection);
    switch (completion.event) {
        case Event::kConnected:
            if (peer == nullptr) break;
            peer->is_connected = true;
            peer->pause_ns = 0;
            peer->waiting.push_back(encode_greeting({group_, self_, peer->member.id}));
            peer->waiting_bytes += peer->waiting.back().size();
            post(*peer);
            break;
        case Event::kAccepted:
            inbound_.emplace(completion.connection, Inbound{0, PartJoiner(kMessageBytesMax)});
            if (std::ranges::count(inbound_, uint64_t{0}, [](const auto& one) {
                    return one.second.sender;
                }) > static_cast<std::ptrdiff_t>(kStrangersMax))
                refuse(completion.connection, "too many connections have not said who they are");
            break;
        case Event::kReceived: receive(completion, take); break;
        case Event::kClosed:
            inbound_.erase(completion.connection);
            if (peer != nullptr) try_later(*peer);
            break;
        default: break;
    }
}

void Peers::receive(const Completion& completion, const Take& take) {
    const auto found = inbound_.find(completion.connection);
    if (found == inbound_.end()) {  // refused before; or a peer answers, which none does
        if (peer_of(completion.connection) != nullptr) endpoint_->close(completion.connection);
        return;
    }
    Inbound& inbound = found->second;
    if (inbound.sender == 0) {
        const std::string_view fault = greet(inbound, completion);
        if (!fault.empty()) refuse(completion.connection, fault);
        return;
    }
    if (!inbound.joiner.take(completion.message))
        return refuse(completion.connection, "it sent what is no part of a message, or too much");
    const std::optional<std::vector<std::byte>> message = inbound.joiner.message();
    if (message && !take(inbound.sender, *message))
        refuse(completion.connection, "it sent a message that no replica sends");
}

std::string_view Peers::greet(Inbound& inbound, const Completion& completion) {
    const std::optional<Greeting> greeting = decode_greeting(completion.message);
    if (!greeting) return "it sent something else than a greeting";
    if (greeting->group != group_ || greeting->receiver != self_)
        return "it wants another group or another replica";
    const bool is_member = std::ranges::any_of(
        peers_, [&](const Peer& peer) { return peer.member.id == greeting->sender; });
    if (!is_member) return "it is not a replica of this group; one that has lost its memory is not";
    for (const auto& [connection, other] : inbound_)
        if (other.sender == greeting->sender) endpoint_->close(connection);
    inbound.sender = greeting->sender;
    return "";
}

void Peers::refuse(ConnectionId connection, std::string_view why) {
    refusals_.log(LogLevel::kWarning, why,
                  fmt::format("replica {:x} of the manager closes the connection from {}: {}",
                              self_, endpoint_->peer_name(connection), why));
    inbound_.erase(connection);
    endpoint_->close(connection);
}

int Peers::arm() {
    const uint64_t now_ns = clock_.now_ns();
    const bool has_work =
        std::ranges::any_of(peers_, [&](const Peer& peer) { return is_due(peer, now_ns); });
    return has_work ? -1 : endpoint_->arm();
}

}  // namespace weir::consensus

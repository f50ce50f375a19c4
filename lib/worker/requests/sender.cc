// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/sender.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/wire/messages.h"
#include "lib/worker/filters/table_filters.h"

namespace weir {

using transport::Post;
using wire::Kind;

namespace {

constexpr uint64_t kBusyPauseNs = kMillisecond;  // before a busy shard gets a request again

}  // namespace

Sender::Sender(Peers& peers, Requests& requests, Calls& calls, Deadlines& deadlines,
               const KnownTables& tables, transport::Endpoint& endpoint, const Clock& clock,
               Memory& memory, const ClientCoreOptions& options, ClientCounters& counters)
    : peers_(peers),
      requests_(requests),
      calls_(calls),
      deadlines_(deadlines),
      tables_(tables),
      endpoint_(endpoint),
      clock_(clock),
      counters_(counters),
      encoder_(endpoint, clock, memory, options, counters) {}

void Sender::submit(uint64_t id, ClientRequest& request, Call& call) {
    if (gathers_) [[unlikely]]
        return gathered_.push_back(id);
    Peer& peer = peers_[request.peer];
    if (!peer.lane.waiting.empty()) return wait(peer, id);
    switch (post(id, request, peer, &call)) {
        case Outcome::kSent: return;
        case Outcome::kWait: return wait(peer, id);
        case Outcome::kFailed: return requests_.end(id, request);
    }
}

void Sender::submit_gathered(Call& call) {
    gathers_ = false;
    const auto peer_of = [&](uint64_t id) { return requests_.find(id)->peer; };
    std::ranges::stable_sort(gathered_, {}, peer_of);
    for (auto first = gathered_.begin(); first != gathered_.end();) {
        const auto last = std::find_if(first, gathered_.end(),
                                       [&](uint64_t id) { return peer_of(id) != peer_of(*first); });
        submit_together({first, last}, call);
        first = last;
    }
    gathered_.clear();
}

/// New requests of one peer.
void Sender::submit_together(std::span<const uint64_t> requests, Call& call) {
    Peer& peer = peers_[requests_.find(requests.front())->peer];
    while (!requests.empty()) {
        const bool may_share =
            requests.size() > 1 && peer.lane.waiting.empty() && peer.is_open() && may_send_to(peer);
        Frames frames;
        const size_t count = may_share ? encode_together(requests, peer, frames) : 1;
        const std::span<const uint64_t> some = requests.first(count);
        requests = requests.subspan(count);
        if (count == 1) {
            submit(some.front(), *requests_.find(some.front()), call);
            continue;
        }
        const Outcome outcome = send_together(some, frames, peer, call);
        if (outcome == Outcome::kSent) continue;
        for (const uint64_t id : some) {
            if (outcome == Outcome::kWait) {
                wait(peer, id);
            } else {
                requests_.end(id, *requests_.find(id));
            }
        }
    }
}

/// Encodes the first of `requests`, as many as one message takes, and returns how many these are; 1 if the
/// first one is to be sent alone.
size_t Sender::encode_together(std::span<const uint64_t> requests, const Peer& peer,
                               Frames& frames) {
    size_t bytes = 0;
    size_t count = 0;
    for (const uint64_t id : requests.first(std::min(requests.size(), kFramesMax))) {
        ClientRequest& request = *requests_.find(id);
        EncodedFrame& frame = frames[count];
        if (has_push_before(requests.first(count), request.content())) break;
        if (encoder_.encode(id, request, peer, frame) != Encoder::Outcome::kDone) break;
        bytes = wire::aligned(bytes) + frame.bytes();
        if (bytes > encoder_.message_bytes_max()) break;
        ++count;
    }
    return std::max<size_t>(count, 1);
}

/// Whether one of `requests` is a push in the order of the same table: the next one names it only when it
/// was sent.
bool Sender::has_push_before(std::span<const uint64_t> requests, const Content& content) {
    return content.is_ordered() && std::ranges::any_of(requests, [&](uint64_t id) {
               const Content& other = requests_.find(id)->content();
               return other.is_ordered() && other.table == content.table;
           });
}

Sender::Outcome Sender::send_together(std::span<const uint64_t> requests, Frames& frames,
                                      Peer& peer, Call& call) {
    static constexpr std::array<std::byte, wire::kFrameAlign> kZeros{};
    parts_.clear();
    size_t bytes = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
        EncodedFrame& frame = frames[i];
        if (!set_predecessor(requests_.find(requests[i])->content(), peer, frame))
            return Outcome::kWait;
        const size_t gap = wire::aligned(bytes) - bytes;
        if (gap > 0) parts_.push_back(std::span(kZeros).first(gap));
        const auto its = frame.parts();
        parts_.insert(parts_.end(), its.begin(), its.end());
        bytes += gap + frame.bytes();
    }
    switch (endpoint_.send(peer.connection, parts_)) {
        case Post::kPosted: break;
        case Post::kClosed:  // its end is about to come
        case Post::kNotNow: return Outcome::kWait;
        case Post::kInvalid:
            call.note_error(gone(*requests_.find(requests.front())));
            return Outcome::kFailed;
    }
    for (const uint64_t id : requests)
        sent(*requests_.find(id), peer);
    return Outcome::kSent;
}

void Sender::wait(Peer& peer, uint64_t id) {
    peer.lane.waiting.push_back(id);
    ++waiting_count_;
}

void Sender::send_off(Call& call, uint64_t deadline_ns) {
    const bool has_others = call.open_requests < requests_.count();
    const bool may_wait = std::exchange(may_wait_, std::nullopt).value_or(false) && has_others;
    if (!may_wait) endpoint_.flush();
    const uint64_t now_ns = clock_.now_ns();
    if (!may_wait) {
        departures_.left(now_ns);
    } else if (departures_.are_due(now_ns)) {
        endpoint_.flush();
    }
    deadlines_.begin(call, now_ns, deadline_ns);
}

size_t Sender::send_waiting() {
    size_t sent = 0;
    peers_.for_each([&](uint32_t, Peer& peer) {
        Lane& lane = peer.lane;
        if (peer.is_held || lane.waiting.empty()) return;
        if (lane.not_before_ns != 0) {
            if (clock_.now_ns() < lane.not_before_ns) return;
            if (peer.is_open()) lane.not_before_ns = 0;
        }
        while (!lane.waiting.empty()) {
            const uint64_t id = lane.waiting.front();
            ClientRequest* const request = requests_.find(id);
            const bool is_left =
                request == nullptr || request->state() == ClientRequest::State::kKeptAside;
            const Outcome outcome =
                is_left ? Outcome::kSent : post(id, *request, peer, calls_.find(request->call));
            if (outcome == Outcome::kWait) break;
            lane.waiting.pop_front();
            WEIR_CHECK(waiting_count_ > 0);
            --waiting_count_;
            ++sent;
            if (outcome == Outcome::kFailed) requests_.end(id, *request);
        }
    });
    return sent;
}

uint64_t Sender::due_ns() const noexcept {
    uint64_t at_ns = ~uint64_t{0};
    peers_.for_each([&](uint32_t, const Peer& peer) {
        if (!peer.lane.waiting.empty() && peer.is_open() && !peer.is_held)
            at_ns = std::min(at_ns, peer.lane.not_before_ns);
    });
    return at_ns;
}

void Sender::send_again(uint64_t id, ClientRequest& request, bool after_pause) {
    request.enter(ClientRequest::State::kUnsent);
    Lane& lane = peers_[request.peer].lane;
    const PiecePlace place = request.content().place;
    auto at = lane.waiting.end();
    for (auto before = at; place.time != 0 && before != lane.waiting.begin();) {
        const ClientRequest* const other = requests_.find(*--before);
        if (other == nullptr || other->content().table != request.content().table) continue;
        if (other->content().place.time == 0) continue;
        if (other->content().place < place) break;
        at = before;
    }
    lane.waiting.insert(at, id);
    ++waiting_count_;
    if (after_pause) lane.not_before_ns = clock_.now_ns() + kBusyPauseNs;
}

void Sender::send_again(Peer& peer, std::vector<uint64_t> requests) {
    for (const uint64_t id : take_waiting(peer))
        requests.push_back(id);
    const auto place_of = [&](uint64_t id) {
        PiecePlace place = requests_.find(id)->content().place;
        if (place.time == 0) place.time = ~uint64_t{0};
        return place;
    };
    std::stable_sort(requests.begin(), requests.end(),
                     [&](uint64_t a, uint64_t b) { return place_of(a) < place_of(b); });
    peer.lane.waiting.assign(requests.begin(), requests.end());
    waiting_count_ += requests.size();
}

std::vector<uint64_t> Sender::take_waiting(Peer& peer) {
    std::vector<uint64_t> waiting(peer.lane.waiting.begin(), peer.lane.waiting.end());
    peer.lane.waiting.clear();
    WEIR_CHECK(waiting_count_ >= waiting.size());
    waiting_count_ -= waiting.size();
    std::erase_if(waiting, [&](uint64_t id) {
        const ClientRequest* const request = requests_.find(id);
        return request == nullptr || request->state() == ClientRequest::State::kKeptAside;
    });
    return waiting;
}

void Sender::push_ended(const ClientRequest& request, bool was_executed) {
    const Content& content = request.content();
    if (!content.is_ordered()) return;
    peers_[request.peer].lane.order(content.table).ended(request.attempt.send_number, was_executed);
}

Error Sender::gone(const ClientRequest& request) const {
    const Peer& peer = peers_[request.peer];
    Error why = peers_.gone(peer);
    if (request.peer == Peers::kManager) return why;
    return peers_.with_cause(with_keys(why, request.content()), peer);
}

/// Whether a peer takes requests now. Greets it first if need be.
bool Sender::may_send_to(Peer& peer) {
    switch (peer.state()) {
        case Peer::State::kOpen: return !peer.is_held && (peer.is_greeted || peers_.greet(peer));
        case Peer::State::kConnecting:
        case Peer::State::kBroken: return false;
        case Peer::State::kLost:
        case Peer::State::kGone: break;  // the request fails
    }
    return true;
}

Sender::Outcome Sender::post(uint64_t id, ClientRequest& request, Peer& peer, Call* call) {
    // Of a call that has ended or is withdrawn nothing more is sent: the caller may already use its
    // memory for something else. Only a part of an iteration goes out, as failed.
    const bool is_over = call == nullptr || call->has_ended() || call->is_withdrawn;
    if (is_over && (call == nullptr || !request.content().is_part)) return Outcome::kFailed;
    if (is_over) requests_.fail_part(request, call->status.code());
    if (!may_send_to(peer)) return Outcome::kWait;
    if (!peer.is_open()) {
        call->note_error(gone(request));
        return Outcome::kFailed;
    }
    if (request.content().is_piece()) return send_piece(id, request, peer, *call);
    EncodedFrame frame;
    if (request.content().is_scan()) {
        if (!encoder_.encode_scan(id, request, peer, frame)) return Outcome::kWait;
        return send(request, peer, *call, frame);
    }
    Encoder::encode_control(id, request.content(), frame);
    if (request.peer != Peers::kManager) return send(request, peer, *call, frame);
    peers_.link().send(frame.header, request.content().values);
    request.enter(ClientRequest::State::kSent);
    return Outcome::kSent;
}

Sender::Outcome Sender::send_piece(uint64_t id, ClientRequest& request, Peer& peer, Call& call) {
    EncodedFrame frame;
    switch (encoder_.encode(id, request, peer, frame)) {
        case Encoder::Outcome::kDone: return send(request, peer, call, frame);
        case Encoder::Outcome::kBroken: return Outcome::kWait;
        case Encoder::Outcome::kNoMemory: break;
    }
    const Content& content = request.content();
    call.note_error(Error(Errc::kNoMemory,
                          fmt::format("{}: no {} bytes of registered memory for a request; use "
                                      "weir::Buffer for what is pushed and pulled; the log of "
                                      "this process names the limit that was reached",
                                      tables_.text(content.table),
                                      std::max({content.pushed_bytes(), content.out_bytes(),
                                                content.list().size_bytes()}))));
    if (!content.is_part || content.count == 0) return Outcome::kFailed;
    requests_.fail_part(request, Errc::kNoMemory);
    return post(id, request, peer, &call);
}

Sender::Outcome Sender::send(ClientRequest& request, Peer& peer, Call& call, EncodedFrame& frame) {
    if (!set_predecessor(request.content(), peer, frame)) return Outcome::kWait;
    switch (endpoint_.send(peer.connection, frame.parts())) {
        case Post::kPosted: break;
        case Post::kClosed:  // its end is about to come
        case Post::kNotNow: return Outcome::kWait;
        case Post::kInvalid:
            if (!call.has_ended()) call.note_error(gone(request));
            return Outcome::kFailed;
    }
    sent(request, peer);
    return Outcome::kSent;
}

/// Names the push before, of what is in an order. False: it cannot be sent now.
bool Sender::set_predecessor(const Content& content, Peer& peer, EncodedFrame& frame) {
    if (!content.is_ordered()) return true;
    PieceOrder& order = peer.lane.order(content.table);
    if (order.is_far(content.place.time) && !tell_time(peer, order, content)) return false;
    frame.header.set_predecessor(order.predecessor(content.place));
    return true;
}

void Sender::sent(ClientRequest& request, Peer& peer) {
    request.enter(ClientRequest::State::kSent);
    const Content& content = request.content();
    if (content.filters != nullptr && content.filters->is_automatic() && !peer.maps_memory)
        [[unlikely]]
        measure(request, peer);
    if (content.is_ordered())
        request.attempt.send_number = peer.lane.order(content.table).sent(content.place);
    note_sent(request, peer);
}

/// Its reply tells how fast the link is. How much a pull brings is known then.
void Sender::measure(ClientRequest& request, Peer& peer) {
    Attempt& attempt = request.attempt;
    const Content& content = request.content();
    const bool has_keys = (attempt.form & (wire::kKeysInline | wire::kKeysRemote)) != 0;
    size_t bytes = attempt.pushed_bytes(content);
    if (has_keys && !attempt.has_keys_in_body()) bytes += content.list().size_bytes();
    attempt.timing = std::make_unique<Attempt::Timing>(
        Attempt::Timing{clock_.now_ns(), bytes, peer.link.sent(bytes)});
}

void Sender::note_sent(const ClientRequest& request, const Peer& peer) {
    const Content& content = request.content();
    // Other workers wait for a part of an iteration, and this one may do something else than poll.
    may_wait_ = may_wait_.value_or(true) && peer.flush_is_a_call && !content.is_part;
    const uint8_t form = request.attempt.form;
    if (content.is_push() && (form & wire::kValuesInline) != 0)
        counters_.bytes_copied += request.attempt.pushed_bytes(content);
    if ((form & wire::kKeysInline) != 0 && !request.attempt.has_keys_in_body())
        counters_.bytes_copied += content.list().size_bytes();
}

/// Pushes have the low half of their time only. If that is not enough for the shard to know the
/// whole, another hello says it. False: it cannot be sent now.
bool Sender::tell_time(const Peer& peer, PieceOrder& order, const Content& content) {
    wire::FrameHeader hello = wire::header_of(Kind::kHello);
    hello.request = peer.hello;
    hello.first = peers_.worker();
    const std::vector<std::byte> body = FarTimeMessage{content.table, content.place.time}.encode();
    hello.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(hello), body};
    if (endpoint_.send(peer.connection, parts) != Post::kPosted) return false;
    order.set_base(content.place.time);
    return true;
}

}  // namespace weir

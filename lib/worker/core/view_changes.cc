// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/view_changes.h"

#include <map>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

using wire::Kind;

namespace {

/// A job does not give out more numbers of shards than this: shards are found by number.
constexpr uint32_t kShardNumbersMax = 4 * ViewLimits::kShardsMax;

}  // namespace

void ViewChanges::receive(std::span<const std::byte> body) {
    if (standing_.has_failed()) return;
    if (const Status part = parts_.add(body); !part) {
        return standing_.fail(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!parts_.complete()) return;
    const ViewParts parts = std::exchange(parts_, {});
    Result<View> view = apply(next_ ? *next_ : peers_.view(), parts.change());
    if (!view) return standing_.fail(std::move(view).error());
    accept(std::move(*view));
}

void ViewChanges::accept(View view) {
    if (view.shards().empty() || view.data().next_shard > kShardNumbersMax) {
        return standing_.fail(
            Error(Errc::kProtocol,
                  fmt::format("the manager sent view {} with {} shards, numbered up to {}",
                              view.epoch(), view.shards().size(), view.data().next_shard)));
    }
    if (standing_.phase() == Standing::Phase::kJoining) return peers_.begin_with(std::move(view));
    for (JobEvent& event : events_between(next_ ? *next_ : peers_.view(), view))
        events_.note(std::move(event));
    next_ = std::move(view);
    hold_changed(*next_);
}

/// Sends nothing more to the shards that `next` changes, and closes the connections to those that
/// are not in it. What such a shard still does changes nothing any more; only values that it may write
/// into this worker's memory have to be waited for. A server that was stopped in the middle of that
/// confirms nothing, and is cut off.
void ViewChanges::hold_changed(const View& next) {
    for (uint32_t i = 0; i < peers_.shard_count(); ++i) {
        Peer& peer = peers_[i];
        if (peer.state() == Peer::State::kGone) continue;
        const ViewShard* const shard = next.shard(i);
        peer.is_held = peer.is_held || shard == nullptr || shard->since > peers_.view().epoch();
        peer.is_leaving = shard == nullptr;
        if (!peer.is_leaving || !peer.is_connected()) continue;
        if (peer.closing != Peer::Closing::kNot) continue;
        if (may_write(i)) {
            peer.closing = Peer::Closing::kAnew;
            endpoint_.cut_off(peer.connection);
            continue;
        }
        peers_.close(peer, Errc::kOk);
        outages_.closed(peer.connection, {Errc::kPeerLost, false});
        peer.connection = 0;
    }
}

/// Whether a shard may write values, of what is under way, into this worker's memory.
bool ViewChanges::may_write(uint32_t shard) {
    bool found = false;
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        found |= request.peer == shard && request.state() == ClientRequest::State::kSent &&
                 request.attempt.has_out_remote;
    });
    return found;
}

/// Whether the next view waits for the reply.
bool ViewChanges::is_awaited(const ClientRequest& request) const noexcept {
    return peers_[request.peer].is_held &&
           (request.awaits_reply() || request.state() == ClientRequest::State::kHeld);
}

/// Whether the next view still waits: for replies of shards that it changes, or for the end of a
/// connection.
bool ViewChanges::must_wait() {
    const ClientRequest* const before = requests_.find(awaited_);
    if (before != nullptr && is_awaited(*before)) return true;
    for (const Peer& peer : peers_.shards()) {
        const bool is_closing = peer.closing != Peer::Closing::kNot && peer.is_connected();
        if (peer.is_held && is_closing) return true;
    }
    awaited_ = 0;
    requests_.for_each([&](uint64_t id, const ClientRequest& request) {
        if (is_awaited(request)) awaited_ = id;
    });
    return awaited_ != 0;
}

/// The next view becomes the view.
void ViewChanges::adopt() {
    const uint64_t before = peers_.view().epoch();
    const std::vector<uint64_t> held = held_requests();
    const bool has_changed = peers_.adopt(*std::exchange(next_, std::nullopt));
    if (has_changed) operations_.forget_routes();
    cut_again(held, before);
    peers_.become_ready_if_connected();
}

/// Those of shards that are held: what waits in their lanes, and what is stale.
std::vector<uint64_t> ViewChanges::held_requests() {
    std::vector<uint64_t> held;
    for (Peer& peer : peers_.shards()) {
        if (!peer.is_held) continue;
        for (const uint64_t id : sender_.take_waiting(peer))
            held.push_back(id);
    }
    requests_.for_each([&](uint64_t id, ClientRequest& request) {
        if (request.state() != ClientRequest::State::kStale || !peers_[request.peer].is_held)
            return;
        request.enter(ClientRequest::State::kUnsent);
        held.push_back(id);
    });
    return held;
}

ViewChanges::Fate ViewChanges::fate_of(const ClientRequest& request) const {
    const Content& content = request.content();
    const View& view = peers_.view();
    const ViewShard* const shard = view.shard(request.peer);
    if (shard == nullptr && !content.is_piece()) return Fate::kEnds;
    const auto behind = static_cast<uint32_t>(view.epoch()) - content.epoch;
    const bool is_void = shard == nullptr || shard->since > view.epoch() - behind;
    if (content.is_piece() && is_void) return content.is_part ? Fate::kIsRenewed : Fate::kIsCut;
    const bool is_scan = content.kind == Kind::kScan;
    return is_scan && is_void ? Fate::kEnds : Fate::kStays;
}

/// `requests` were held, and none of them is under way. `before`: the epoch of the view before.
void ViewChanges::cut_again(std::span<const uint64_t> requests, uint64_t before) {
    std::vector<uint64_t> made;                                             // and what stays
    std::map<std::pair<Calls::Id, uint32_t>, std::vector<uint64_t>> parts;  // of a call in a table
    for (const uint64_t id : requests) {
        ClientRequest* const request = requests_.find(id);
        if (request == nullptr) continue;
        WEIR_CHECK(request->state() == ClientRequest::State::kUnsent);
        switch (fate_of(*request)) {
            case Fate::kStays: made.push_back(id); break;
            case Fate::kEnds: end(id, *request); break;
            case Fate::kIsRenewed:
                parts[{request->call, request->content().table}].push_back(id);
                break;
            case Fate::kIsCut:
                replace(std::span(&id, 1), request->call, cut_request(*request), made);
                break;
        }
    }
    for (const auto& [of, ids] : parts)
        renew_part(of.first, ids, before, made);
    std::map<uint32_t, std::vector<uint64_t>> by_peer;
    for (const uint64_t id : made)
        by_peer[requests_.find(id)->peer].push_back(id);
    for (auto& [peer, ids] : by_peer)
        sender_.send_again(peers_[peer], std::move(ids));
}

void ViewChanges::end(uint64_t id, ClientRequest& request) {
    if (Call* const call = calls_.find(request.call)) {
        const bool is_scan = request.content().kind == Kind::kScan;
        call->note_error(is_scan ? Error(Errc::kStaleEpoch, "its positions have moved")
                                 : Error(Errc::kUnavailable,
                                         fmt::format("{} has left", peers_[request.peer].name)));
    }
    requests_.end(id, request);
}

/// The new contents of what the request asks for; none if its call is over.
std::vector<Cut> ViewChanges::cut_request(const ClientRequest& request) {
    Call* const call = calls_.find(request.call);
    if (call == nullptr || call->has_ended() || call->is_withdrawn) return {};
    const Content& content = request.content();
    if (!request.is_in_doubt() || !content.has_out())
        return cut(content, request.was_sent(), peers_.view());
    call->note_error(
        Error(Errc::kPeerLost,
              fmt::format("{} may still write values into this call's memory: it did not "
                          "confirm the end of a connection before its keys moved{}",
                          peers_[request.peer].name, fate_of_push(content.kind))));
    return {};
}

/// Makes requests of `cuts`, which take the place of those that are `old`; puts their ids into `made`.
void ViewChanges::replace(std::span<const uint64_t> old, Calls::Id call_id, std::vector<Cut> cuts,
                          std::vector<uint64_t>& made) {
    Call* const call = calls_.find(call_id);
    WEIR_CHECK(call != nullptr || cuts.empty());
    for (Cut& one : cuts) {
        if (one.shard == kNoShard) {
            call->note_error(lost_keys(one.keys));
            continue;
        }
        uint64_t id = 0;
        const ClientRequest* const request = requests_.add_again(
            call_id, *call, one.shard, std::move(one.content), one.was_sent, id);
        if (request == nullptr) {
            call->note_error(Error(Errc::kBusy, kTooManyRequests));
            continue;
        }
        ++counters_.requests;
        made.push_back(id);
    }
    for (const uint64_t id : old) {
        ClientRequest& request = *requests_.find(id);
        // What is void is not executed.
        if (!request.content().has_out()) request.resolve_doubt();
        requests_.end(id, request);
    }
}

/// A worker's part of an iteration, of which `requests` are void. Shards that change forget what they
/// have of open iterations. So each of them gets a new part, if only an empty one, and before those of
/// later iterations: all have the place of the old.
void ViewChanges::renew_part(Calls::Id call_id, std::span<const uint64_t> requests, uint64_t before,
                             std::vector<uint64_t>& made) {
    std::vector<Cut> cuts;
    for (const uint64_t id : requests) {
        for (Cut& one : cut_request(*requests_.find(id)))
            cuts.push_back(std::move(one));
    }
    std::map<uint32_t, uint32_t> counts;  // of requests, by shard
    for (const Cut& one : cuts)
        ++counts[one.shard];
    const Content& old = requests_.find(requests.front())->content();
    for (const uint32_t shard : peers_.owners()) {
        if (counts.contains(shard) || peers_.view().shard(shard)->since <= before) continue;
        cuts.push_back({shard, {}, empty_part(old, peers_.view())});
        counts[shard] = 1;
    }
    for (Cut& one : cuts)
        one.content.parts = counts[one.shard];
    replace(requests, call_id, std::move(cuts), made);
}

}  // namespace weir

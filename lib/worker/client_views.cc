// SPDX-License-Identifier: Apache-2.0
/// \file
/// Views: which shards there are, and what becomes of open requests when segments move.
///
/// A later view is taken once the shards that it changes have answered all that is under way there;
/// what was cut for an older view they answer as stale. Meanwhile nothing more is sent to them, and
/// the others never stop. Then the requests that those shards would still refuse are cut again. A
/// push that was sent once is cut by segment, since a shard remembers by segment what was executed;
/// all fragments keep its place. What is not cut again keeps the epoch of its cut.

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "lib/worker/calls/fragments.h"
#include "lib/worker/client_core.h"

namespace weir {

using wire::Kind;

namespace {

/// A job does not give out more numbers of shards than this: shards are found by number.
constexpr uint32_t kShardNumbersMax = 4 * ViewLimits::kShardsMax;

}  // namespace

void ClientCore::receive_view(std::span<const std::byte> body) {
    if (phase_ == Phase::kFailed) return;
    if (const Status part = view_parts_.add(body); !part) {
        return fail(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!view_parts_.complete()) return;
    const ViewParts parts = std::exchange(view_parts_, {});
    Result<View> view = apply(next_view_ ? *next_view_ : view_, parts.change());
    if (!view) return fail(std::move(view).error());
    take_view(std::move(*view));
}

void ClientCore::take_view(View view) {
    if (view.shards().empty() || view.data().next_shard > kShardNumbersMax) {
        return fail(Error(Errc::kProtocol,
                          fmt::format("the manager sent view {} with {} shards, numbered up to {}",
                                      view.epoch(), view.shards().size(), view.data().next_shard)));
    }
    if (phase_ == Phase::kJoining) return begin_with(std::move(view));
    for (JobEvent& event : events_between(next_view_ ? *next_view_ : view_, view))
        note_event(std::move(event));
    next_view_ = std::move(view);
    hold_changed(*next_view_);
}

void ClientCore::note_event(JobEvent event) {
    events_.emplace_back(clock_.now_ns(), std::move(event));
    if (events_.size() > kEventsMax) events_.pop_front();
}

std::vector<JobEvent> ClientCore::take_events() {
    std::vector<JobEvent> events;
    for (auto& [at_ns, event] : std::exchange(events_, {})) {
        event.age = std::chrono::nanoseconds(clock_.now_ns() - at_ns);
        events.push_back(event);
    }
    return events;
}

/// The first view.
void ClientCore::begin_with(View view) {
    view_ = std::move(view);
    phase_ = Phase::kConnectingToShards;
    take_shards();
    count_at_start_ = worker_count_;
    for (const ViewShard& shard : view_.shards()) {
        Peer& peer = peers_[shard.number];
        Result<transport::ConnectionId> connection = endpoint_->connect(shard.address);
        if (!connection) {
            return fail(Error(connection.code(), fmt::format("cannot connect to {}: {}", peer.name,
                                                             connection.error().message())));
        }
        peer.connection = *connection;
        peer.state = Peer::State::kConnecting;
        --broken_count_;
    }
}

/// Sends nothing more to the shards that `next` changes, and closes the connections to those that
/// are not in it. What such a shard still does changes nothing any more; only values that it may write
/// into this worker's memory have to be waited for. A server that was stopped in the middle of that
/// confirms nothing, and is cut off.
void ClientCore::hold_changed(const View& next) {
    for (uint32_t i = 0; i < manager(); ++i) {
        Peer& peer = peers_[i];
        if (peer.state == Peer::State::kGone) continue;
        const ViewShard* const shard = next.shard(i);
        peer.is_held = peer.is_held || shard == nullptr || shard->since > view_.epoch();
        const bool is_connected =
            peer.state == Peer::State::kConnecting || peer.state == Peer::State::kOpen;
        if (shard != nullptr || !is_connected || peer.is_closing) continue;
        peer.is_closing = true;
        if (may_write(i)) {
            endpoint_->cut_off(peer.connection);
            continue;
        }
        endpoint_->close(peer.connection);
        closed(peer.connection, Errc::kPeerLost, false);
        peer.connection = 0;
    }
}

/// Whether a shard may write values of a pull that is under way into this worker's memory.
bool ClientCore::may_write(uint32_t shard) {
    bool found = false;
    requests_.for_each([&](uint64_t, const Request& request) {
        found |= request.peer == shard && request.state == Request::State::kSent &&
                 request.header.kind == Kind::kPull &&
                 (request.header.flags & wire::kValuesRemote) != 0;
    });
    return found;
}

/// Whether a view that is to be taken waits for the answer.
bool ClientCore::is_awaited(const Request& request) const noexcept {
    return peers_[request.peer].is_held &&
           (request.state == Request::State::kSent || request.state == Request::State::kAnswered);
}

/// Whether a view that is to be taken still waits: for answers of shards that it changes, or for the
/// end of a connection.
bool ClientCore::awaits_answers() {
    const Request* const before = requests_.find(awaited_);
    if (before != nullptr && is_awaited(*before)) return true;
    for (uint32_t i = 0; i < manager(); ++i) {
        if (peers_[i].is_held && peers_[i].is_closing) return true;
    }
    awaited_ = 0;
    requests_.for_each([&](uint64_t id, const Request& request) {
        if (is_awaited(request)) awaited_ = id;
    });
    return awaited_ != 0;
}

/// The next view becomes the view.
void ClientCore::adopt() {
    const uint64_t before = view_.epoch();
    view_ = *std::exchange(next_view_, std::nullopt);
    std::vector<uint64_t> open;
    for (uint32_t i = 0; i < manager(); ++i) {
        Peer& peer = peers_[i];
        if (!peer.is_held) continue;
        waiting_count_ -= peer.waiting.size();
        open.insert(open.end(), peer.waiting.begin(), peer.waiting.end());
        peer.waiting.clear();
    }
    requests_.for_each([&](uint64_t id, const Request& request) {
        if (request.state == Request::State::kStale && peers_[request.peer].is_held)
            open.push_back(id);
    });
    take_shards();
    cut_again(open, before);
    begin_if_connected();
}

/// Peers are found by the number of their shard; the manager is behind them all.
void ClientCore::take_shards() {
    worker_count_ = static_cast<uint32_t>(view_.workers().size());
    if (view_.data().next_shard > manager()) {
        const uint32_t before = manager();
        Peer last = std::move(peers_.back());
        peers_.back() = Peer();
        peers_.resize(view_.data().next_shard);
        peers_.push_back(std::move(last));
        requests_.for_each([&](uint64_t, Request& request) {
            if (request.peer == before) request.peer = manager();
        });
    }
    for (uint32_t i = 0; i < manager(); ++i) {
        Peer& peer = peers_[i];
        const ViewShard* const shard = view_.shard(i);
        if (peer.is_held) {
            peer.is_held = false;
            routes_.clear();
            for (PieceOrder& order : peer.orders)
                order.begin_anew();
        }
        if (shard != nullptr && peer.state == Peer::State::kGone) {
            // Of a first view nobody knows who was there from the start.
            peer.name = shard_name(view_, *shard, phase_ != Phase::kConnectingToShards);
            peer.state = Peer::State::kBroken;
            ++broken_count_;
        } else if (shard == nullptr && peer.state != Peer::State::kGone) {
            if (peer.state == Peer::State::kBroken) --broken_count_;
            peer.state = Peer::State::kGone;
        }
    }
    owners_.clear();
    for (const ViewSegment& segment : view_.segments()) {
        if (segment.primary != kNoShard) owners_.push_back(segment.primary);
    }
    std::ranges::sort(owners_);
    owners_.erase(std::unique(owners_.begin(), owners_.end()), owners_.end());
}

/// Whether its shard would refuse it, or is gone.
bool ClientCore::is_void(const Request& request) const noexcept {
    const ViewShard* const shard = view_.shard(request.peer);
    const auto behind = static_cast<uint32_t>(view_.epoch()) - request.header.epoch;
    return shard == nullptr || shard->since > view_.epoch() - behind;
}

/// `requests` were open at shards that the view has changed, and none of them is under way. `before`:
/// the epoch of the view before.
void ClientCore::cut_again(const std::vector<uint64_t>& requests, uint64_t before) {
    std::vector<uint64_t> cut;
    std::map<CallId, std::vector<uint64_t>> parts;  // of iterations
    for (const uint64_t id : requests) {
        Request* const request = requests_.find(id);
        if (request == nullptr) continue;
        request->state = Request::State::kUnsent;
        const bool is_piece = wire::is_request(request->header.kind);
        const bool is_scan = request->header.kind == Kind::kScan;
        if (is_piece || is_scan ? !is_void(*request) : view_.shard(request->peer) != nullptr) {
            cut.push_back(id);
        } else if (!is_piece) {
            if (Call* const call = calls_.find(request->call)) {
                call->note_error(
                    is_scan ? Error(Errc::kStaleEpoch, "its positions have moved")
                            : Error(Errc::kUnavailable,
                                    fmt::format("{} has left", peers_[request->peer].name)));
            }
            end_request(id, *request);
        } else if ((request->header.flags & wire::kAggregate) != 0) {
            parts[request->call].push_back(id);
        } else {
            cut_again(id, *request, cut);
        }
    }
    for (const auto& [call, ids] : parts)
        renew_part(call, ids, before, cut);
    std::map<uint32_t, std::vector<uint64_t>> by_peer;
    for (const uint64_t id : cut)
        by_peer[requests_.find(id)->peer].push_back(id);
    for (auto& [peer, ids] : by_peer)
        queue_again(peers_[peer], std::move(ids));
}

/// Puts fragments in the place of the request, and their ids into `cut`.
void ClientCore::cut_again(uint64_t id, Request& request, std::vector<uint64_t>& cut) {
    Call* const call = calls_.find(request.call);
    const bool is_pull = request.header.kind == Kind::kPull;
    const bool is_over = call == nullptr || call->has_ended() || call->is_withdrawn;
    if (!is_over && request.is_in_doubt && is_pull) {
        call->note_error(
            Error(Errc::kPeerLost,
                  fmt::format("{} may still write values into this call's memory: it did not "
                              "confirm the end of a connection before its keys moved",
                              peers_[request.peer].name)));
    } else if (!is_over) {
        const SplitBy by = !is_pull && request.was_sent ? SplitBy::kSegment : SplitBy::kOwner;
        const bool is_range = (request.header.flags & wire::kKeysRange) != 0;
        is_range ? cut_range(request, by, cut) : cut_list(request, by, cut);
    }
    request.is_in_doubt = request.is_in_doubt && is_pull;  // a push that is void is not executed
    end_request(id, request);
}

void ClientCore::cut_range(Request& from, SplitBy by, std::vector<uint64_t>& cut) {
    if (from.staged_values && from.header.kind == Kind::kPush)
        from.keeps = std::make_shared<Block>(std::move(from.staged_values));
    const std::span<std::byte> out = from.callers_out.empty() ? from.into : from.callers_out;
    const KeyRange keys{from.header.first, from.header.first + from.header.count};
    for (const OwnedKeys& owned : view_.split_dense(keys, from.positions.key_count(), by)) {
        Request* const part = add_fragment(from, owned.owner, owned.keys, cut);
        if (part == nullptr) continue;
        part->keeps = from.keeps;
        part->header.first = owned.keys.begin;
        part->header.count = static_cast<uint32_t>(owned.keys.key_count());
        part->place.position = from.positions.position(owned.keys.begin);
        const size_t begin = (owned.keys.begin - keys.begin) * from.row_bytes;
        const size_t bytes = owned.keys.key_count() * from.row_bytes;
        if (from.header.kind == Kind::kPush) {
            part->from = from.from.subspan(begin, bytes);
        } else {
            part->into = out.subspan(begin, bytes);
        }
    }
}

void ClientCore::cut_list(Request& from, SplitBy by, std::vector<uint64_t>& cut) {
    const auto lists =
        std::make_shared<Fragments>(from.keys, from.order, view_, from.positions, by);
    if (from.header.kind == Kind::kPush) lists->values = std::move(from.staged_values);
    lists->before = from.keeps;
    const std::span<std::byte> out = from.callers_out.empty() ? from.into : from.callers_out;
    for (const Fragment& fragment : lists->all()) {
        const std::span<const uint64_t> keys = lists->keys(fragment);
        Request* const part =
            add_fragment(from, fragment.shard, {keys.front(), keys.front() + 1}, cut);
        if (part == nullptr) continue;
        part->keeps = lists;
        part->keys = keys;
        part->header.first = hash_key_list(keys);
        part->header.count = static_cast<uint32_t>(keys.size());
        part->place.position = fragment.position;
        const size_t bytes = keys.size() * from.row_bytes;
        const size_t begin = size_t{lists->rows(fragment).front()} * from.row_bytes;
        const bool is_run = lists->is_run(fragment);
        if (!is_run) part->order = lists->rows(fragment);
        if (from.header.kind == Kind::kPush) {
            part->from = is_run ? from.from.subspan(begin, bytes) : from.from;
        } else if (is_run) {
            part->into = out.subspan(begin, bytes);
        } else {
            part->callers_out = out;
            part->into = {static_cast<std::byte*>(nullptr), bytes};
        }
    }
}

/// A request for the same call, without keys and values yet. nullptr if there can be none: the call
/// then has an error. `keys`: some of them, for its text.
ClientCore::Request* ClientCore::add_fragment(const Request& from, uint32_t shard, KeyRange keys,
                                              std::vector<uint64_t>& cut) {
    Call* const call = calls_.find(from.call);
    if (shard == kNoShard) {
        call->note_error(lost_keys(keys));
        return nullptr;
    }
    uint64_t id = 0;
    Request* const request = requests_.acquire(id);
    if (request == nullptr) {
        call->note_error(Error(Errc::kBusy, kTooManyRequests));
        return nullptr;
    }
    ++call->open_requests;
    ++counters_.requests;
    request->call = from.call;
    request->peer = shard;
    request->header = from.header;
    request->arguments = from.arguments;
    request->header.epoch = static_cast<uint32_t>(view_.epoch());
    request->row_bytes = from.row_bytes;
    request->place = from.place;
    request->positions = from.positions;
    request->was_sent = from.was_sent;
    cut.push_back(id);
    return request;
}

/// A worker's part of an iteration, of which `requests` are void. Shards that change forget what they
/// have of open iterations. So each of them gets a new part, if only an empty one, and before those of
/// later iterations: all have the place of the old.
void ClientCore::renew_part(CallId call_id, const std::vector<uint64_t>& requests, uint64_t before,
                            std::vector<uint64_t>& cut) {
    Call* const call = calls_.find(call_id);
    if (call == nullptr) return;
    ++call->open_requests;  // it does not end before all are made
    const size_t begin = cut.size();
    Request empty;
    {
        const Request& old = *requests_.find(requests.front());
        empty.call = call_id;
        empty.header = old.header;
        empty.arguments = old.arguments;
        empty.header.flags = wire::kAggregate | wire::kIteration | wire::kKeysRange;
        empty.header.first = 0;
        empty.header.count = 0;
        empty.row_bytes = old.row_bytes;
        empty.place.time = old.place.time;
    }
    for (const uint64_t id : requests)
        cut_again(id, *requests_.find(id), cut);
    std::map<uint32_t, uint32_t> counts;
    for (size_t i = begin; i < cut.size(); ++i)
        ++counts[requests_.find(cut[i])->peer];
    for (const uint32_t shard : owners_) {
        if (counts.contains(shard) || view_.shard(shard)->since <= before) continue;
        if (add_fragment(empty, shard, {}, cut) != nullptr) counts[shard] = 1;
    }
    for (size_t i = begin; i < cut.size(); ++i) {
        Request& part = *requests_.find(cut[i]);
        part.header.parts = counts[part.peer];
    }
    calls_.request_ended(call_id, [this](CallId of) { return call_needs_caller(of); });
}

}  // namespace weir

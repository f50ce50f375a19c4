// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/replies.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {

wire::FrameHeader Replies::reply_of(uint64_t request, Errc status, uint64_t detail) noexcept {
    wire::FrameHeader header = wire::header_of(wire::Kind::kReply);
    header.request = request;
    header.status = status;
    header.first = detail;
    return header;
}

wire::FrameHeader Replies::reply_of(uint64_t request, const IterationFailure& failure) noexcept {
    wire::FrameHeader header =
        reply_of(request, failure.status, failure.worker | uint64_t{failure.other} << 32);
    header.flags = wire::kIteration;
    return header;
}

void Replies::reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail,
                    std::span<const std::byte> body) {
    wire::FrameHeader header = reply_of(request, status, detail);
    send_reply(connection, header, body);
}

void Replies::reply_pushed(ConnectionId connection, uint64_t request, Errc status,
                           uint64_t detail) {
    wire::FrameHeader header = reply_of(request, status, detail);
    header.flags = wire::kPushed;
    is_active_ ? hold_reply(connection, header, {}) : send_reply(connection, header, {});
}

void Replies::reply_failed(ConnectionId connection, uint64_t request,
                           const IterationFailure& failure) {
    wire::FrameHeader header = reply_of(request, failure);
    send_reply(connection, header, {});
}

void Replies::reply_failed_when_replicated(ConnectionId connection, uint64_t request,
                                           const IterationFailure& failure) {
    if (!is_active_) [[likely]]
        return reply_failed(connection, request, failure);
    hold_reply(connection, reply_of(request, failure), {});
}

/// While others may take over from this shard, a reply leaves only after a look at the lease, at the
/// end of the poll.
void Replies::send_reply(ConnectionId connection, wire::FrameHeader& header,
                         std::span<const std::byte> body) {
    if (!needs_lease_) [[likely]]
        return outbox_.send(connection, header, body);
    keep(ready_, 0, connection, header, body);
}

void Replies::hold_reply(ConnectionId connection, const wire::FrameHeader& header,
                         std::span<const std::byte> body) {
    WEIR_CHECK(is_active_);
    const uint64_t change = streams_.last_change();
    WEIR_CHECK(held_.empty() || held_.back().change <= change);
    keep(held_, change, connection, header, body);
}

void Replies::keep(std::deque<Held>& queue, uint64_t change, ConnectionId connection,
                   const wire::FrameHeader& header, std::span<const std::byte> body) {
    queue.push_back({change, connection, header, {body.begin(), body.end()}});
    held_bytes_[connection] += queue.back().bytes();
}

size_t Replies::waiting_bytes(ConnectionId connection) const {
    const size_t bytes = outbox_.waiting_bytes(connection);
    if (held_bytes_.empty()) [[likely]]
        return bytes;
    const auto held = held_bytes_.find(connection);
    return bytes + (held == held_bytes_.end() ? 0 : held->second);
}

void Replies::look_at_streams(bool has_in_sync) noexcept {
    is_active_ = has_in_sync || !held_.empty() || !ready_.empty();
    needs_lease_ = has_in_sync && lease_ != nullptr;
}

bool Replies::may_send() const {
    return !needs_lease_ || lease_->holds(clock_.now_ns());
}

size_t Replies::send_up_to(std::deque<Held>& queue, uint64_t change) {
    size_t count = 0;
    for (; !queue.empty() && queue.front().change <= change; ++count) {
        Held& first = queue.front();
        const auto bytes = held_bytes_.find(first.connection);
        WEIR_CHECK(bytes != held_bytes_.end() && bytes->second >= first.bytes());
        bytes->second -= first.bytes();
        if (bytes->second == 0) held_bytes_.erase(bytes);
        outbox_.send(first.connection, first.header, first.body);
        queue.pop_front();
    }
    return count;
}

size_t Replies::release() {
    return send_up_to(ready_, ~uint64_t{0}) + send_up_to(held_, streams_.replicated_change());
}

void Replies::forget(ConnectionId connection) {
    outbox_.forget(connection);
    if (held_bytes_.erase(connection) == 0) return;
    const auto is_its = [&](const Held& held) { return held.connection == connection; };
    std::erase_if(held_, is_its);
    std::erase_if(ready_, is_its);
}

bool Replies::has_sent_before(Moment& moment) const noexcept {
    if (!moment.behind) {
        const bool has_held = !ready_.empty() ||
                              (!held_.empty() && held_.front().change <= moment.change) ||
                              moment.change > streams_.replicated_change();
        if (has_held) return false;
        moment.behind = outbox_.waited_count();
    }
    return outbox_.has_sent(*moment.behind);
}

}  // namespace weir

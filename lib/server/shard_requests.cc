// SPDX-License-Identifier: Apache-2.0
/// \file
/// Before a push or pull takes effect: is it for a table of ours and well made, is it its turn, and
/// where are its keys and values.

#include <fmt/format.h>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

Shard::Deferred::Deferred(ConnectionId from, const wire::Frame& received)
    : connection(from), frame(received) {
    body.reserve(received.keys.size() + received.values.size());
    body.assign(received.keys.begin(), received.keys.end());
    body.insert(body.end(), received.values.begin(), received.values.end());
    frame.keys = std::span(body).first(received.keys.size());
    frame.values = std::span(body).subspan(received.keys.size());
}

void Shard::admit(Session& session, const wire::Frame& frame) {
    const wire::FrameHeader& h = frame.header;
    if (h.table >= tables_.size() || tables_[h.table] == nullptr) {
        return reply(session.connection, h.request, Errc::kNotFound);
    }
    TableState& state = *tables_[h.table];
    if (const Errc wrong = check(state, frame); wrong != Errc::kOk) {
        if (wrong == Errc::kProtocol) return refuse(session.connection, "sizes that do not add up");
        return reply(session.connection, h.request, wrong, assignment_->epoch());
    }
    const bool aggregate = (h.flags & wire::kAggregate) != 0;
    if (h.iteration > state.iterations.last_applied() && (aggregate || h.kind == Kind::kPull)) {
        const bool gathered_now = h.iteration == state.iterations.last_applied() + 1;
        for (uint32_t worker = 0; worker < worker_count_; ++worker) {
            if (!lost_workers_[worker]) continue;
            if (gathered_now && state.iterations.complete(worker)) continue;
            return reply(session.connection, h.request, Errc::kPeerLost, worker);
        }
        if (h.kind == Kind::kPull) return defer(session, state.deferred, frame);
    }
    if (aggregate) {
        switch (state.iterations.judge(h.iteration, session.worker, h.parts)) {
            case Iterations::Verdict::kLater: return defer(session, state.deferred, frame);
            case Iterations::Verdict::kRefuse:
                return reply(session.connection, h.request, Errc::kInvalidArgument);
            case Iterations::Verdict::kNow: break;
        }
        state.iterations.admit(session.worker, h.parts);
    } else if (h.kind == Kind::kPush && pinned(state, h)) {
        return defer(session, state.behind_pins, frame);
    }
    gather(session, frame);
}

Errc Shard::check(const TableState& state, const wire::Frame& frame) const {
    const wire::FrameHeader& h = frame.header;
    const TableSchema& schema = state.table->schema();
    if (h.epoch != assignment_->epoch()) return Errc::kStaleEpoch;
    if (h.value_type != static_cast<uint8_t>(schema.value_type) || h.width != schema.width) {
        return Errc::kTypeMismatch;
    }
    // decode() has bounded count, and rows are bounded by the schema: nothing here overflows.
    const size_t row_bytes =
        h.kind == Kind::kPush ? state.table->pushed_row_bytes() : state.table->pulled_row_bytes();
    const uint64_t bytes = h.count * row_bytes;
    if ((h.flags & wire::kValuesRemote) != 0) {
        return frame.values_at.length_bytes == bytes ? Errc::kOk : Errc::kProtocol;
    }
    if (h.kind == Kind::kPush) return frame.values.size() == bytes ? Errc::kOk : Errc::kProtocol;
    const uint64_t room = endpoint_->capabilities().message_bytes_max - sizeof(wire::FrameHeader);
    return bytes <= room ? Errc::kOk : Errc::kProtocol;
}

void Shard::defer(Session& session, std::deque<Deferred>& queue, const wire::Frame& frame) {
    const size_t bytes = sizeof(Deferred) + frame.keys.size() + frame.values.size();
    if (session.deferred_bytes + bytes > options_.deferred_bytes_max) {
        return reply(session.connection, frame.header.request, Errc::kBusy);
    }
    session.deferred_bytes += bytes;
    queue.emplace_back(session.connection, frame);
}

size_t Shard::retry_deferred() {
    retry_ = false;
    size_t done = 0;
    for (const auto& state : tables_) {
        if (state == nullptr) continue;
        if (state->pins.empty() && waits_for_pins(*state)) {
            // Those that are here first: they have waited before.
            for (Held& held : std::exchange(state->held, {})) {
                apply({held.connection, held.header, held.keys, held.values, {}, held.ends});
                ++done;
            }
            done += admit_again(state->behind_pins);
        }
        done += admit_again(state->deferred);
    }
    return done;
}

size_t Shard::admit_again(std::deque<Deferred>& queue) {
    if (queue.empty()) return 0;
    const std::deque<Deferred> again = std::exchange(queue, {});
    for (const Deferred& deferred : again) {
        Session* const session = session_of(deferred.connection);
        if (session == nullptr) continue;
        session->deferred_bytes -= sizeof(Deferred) + deferred.body.size();
        admit(*session, deferred.frame);
    }
    return again.size();
}

bool Shard::map(ConnectionId connection, const wire::MemoryHandle& at, size_t alignment,
                std::span<const std::byte>& bytes) {
    if (at.length_bytes == 0) {
        bytes = {};
        return true;
    }
    const std::byte* const memory = endpoint_->map(
        connection, {at.address, at.length_bytes, at.key}, transport::Access::kRemoteRead);
    if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % alignment != 0) return false;
    bytes = {memory, at.length_bytes};
    return true;
}

void Shard::gather(Session& session, const wire::Frame& frame) {
    const wire::FrameHeader& h = frame.header;
    Request request{session.connection, h, frame.keys, frame.values, frame.values_at, frame.ends};
    const bool far_keys = (h.flags & wire::kKeysRemote) != 0;
    const bool far_values = h.kind == Kind::kPush && (h.flags & wire::kValuesRemote) != 0;
    const bool here =
        (!far_keys || map(session.connection, frame.keys_at, sizeof(uint64_t), request.keys)) &&
        (!far_values || map(session.connection, frame.values_at,
                            size_of(static_cast<ValueType>(h.value_type)), request.values));
    if (here) return apply(request);
    fetcher_.add(session.connection, frame);
    (void)fetcher_.start();
}

void Shard::fetched(const Fetched& fetched) {
    const Session* const session = session_of(fetched.connection);
    if (session == nullptr) return;
    const Request request{fetched.connection, fetched.header,    fetched.keys,
                          fetched.values,     fetched.values_at, fetched.ends};
    if (fetched.status == Errc::kOk) return apply(request);
    if ((fetched.header.flags & wire::kAggregate) != 0) {
        return aggregate_part(*tables_[fetched.header.table], request, fetched.status);
    }
    reply(fetched.connection, fetched.header.request, fetched.status);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Before a push or pull takes effect: is its table known and its size right, is it its turn, and
/// where are its keys and values.

#include <fmt/core.h>

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
    const Errc wrong = check(state, frame);
    if (wrong == Errc::kProtocol) return refuse(session.connection, "sizes that do not add up");
    if (wrong == Errc::kStaleEpoch) {
        return reply(session.connection, h.request, wrong, assignment_->epoch());
    }
    if ((h.flags & wire::kAggregate) != 0) return admit_part(session, state, frame, wrong);
    if (wrong != Errc::kOk) return reply(session.connection, h.request, wrong);
    if (h.kind == Kind::kPush) {
        if (pinned(state, h)) return defer(session, state.behind_pins, frame);
    } else if (h.iteration > 0) {
        if (const auto failure = state.iterations.failure_for(h.iteration, session.worker)) {
            return reply_failed(session.connection, h.request, *failure);
        }
        const uint64_t sent = state.iterations.last_seen(session.worker);
        if (h.iteration > sent) {  // no part was sent: it would wait for its own worker
            return reply(session.connection, h.request, Errc::kInvalidArgument, sent);
        }
        if (h.iteration > state.iterations.last_closed()) {
            return defer(session, state.deferred, frame);
        }
    }
    start(session, frame);
}

/// `status`: what check() found wrong with the part. The part may also say (header.status) that
/// its worker cannot send it. In both cases the part counts, and its iteration fails.
void Shard::admit_part(Session& session, TableState& state, const wire::Frame& frame, Errc status) {
    const wire::FrameHeader& h = frame.header;
    Iterations& iterations = state.iterations;
    switch (iterations.judge(h.iteration, session.worker, h.parts)) {
        case Iterations::Verdict::kLater:
            if (const auto failure = iterations.failure_for(h.iteration, session.worker)) {
                return reply_failed(session.connection, h.request, *failure);
            }
            return defer(session, state.deferred, frame);
        case Iterations::Verdict::kPast:
            if (const auto failure = iterations.failure_of(h.iteration)) {
                return reply_failed(session.connection, h.request, *failure);
            }
            [[fallthrough]];
        case Iterations::Verdict::kSkips:
        case Iterations::Verdict::kRefuse:
            return reply(session.connection, h.request, Errc::kInvalidArgument,
                         iterations.last_seen(session.worker));
        case Iterations::Verdict::kNow: break;
    }
    iterations.admit(session.worker, h.parts);
    if (h.status != Errc::kOk) status = Errc::kCancelled;
    const bool failed = iterations.failure_of(h.iteration).has_value();
    if (failed || status != Errc::kOk) return end_part(state, session, h.request, status);
    start(session, frame);
}

Errc Shard::check(const TableState& state, const wire::Frame& frame) const {
    const wire::FrameHeader& h = frame.header;
    const TableSchema& schema = state.table->schema();
    if (h.epoch != assignment_->epoch()) return Errc::kStaleEpoch;
    if (h.value_type != static_cast<uint8_t>(schema.value_type) || h.width != schema.width) {
        return Errc::kTypeMismatch;
    }
    // decode() bounds the count, and the schema bounds the row size: nothing here overflows.
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

/// Counts a request that waits. False if too many bytes of this worker wait already. (A request
/// that has waited and must wait again fits: its bytes have just been subtracted.)
bool Shard::add_waiting(Session& session, size_t bytes) const {
    if (session.waiting_bytes + kWaitingBytes + bytes > options_.waiting_bytes_max) return false;
    session.waiting_bytes += kWaitingBytes + bytes;
    return true;
}

void Shard::defer(Session& session, std::deque<Deferred>& queue, const wire::Frame& frame) {
    if (!add_waiting(session, frame.keys.size() + frame.values.size())) {
        return reply(session.connection, frame.header.request, Errc::kBusy);
    }
    counters_.bytes_copied += frame.keys.size() + frame.values.size();
    queue.emplace_back(session.connection, frame);
}

size_t Shard::retry_deferred() {
    retry_ = false;
    size_t done = 0;
    for (const auto& state : tables_) {
        if (state == nullptr) continue;
        if (state->pins.empty() && waits_for_pins(*state)) {
            // Held pushes first: they were admitted before those behind pins were stopped.
            for (const Held& held : std::exchange(state->held, {})) {
                if (Session* const session = session_of(held.request.connection)) {
                    session->waiting_bytes -= kWaitingBytes;
                    push(*state, held.request);
                }
                fetcher_.release(held.ticket);
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
        session->waiting_bytes -= kWaitingBytes + deferred.body.size();
        admit(*session, deferred.frame);
    }
    return again.size();
}

std::byte* Shard::map(ConnectionId connection, const wire::MemoryHandle& at, size_t alignment,
                      transport::Access access) {
    std::byte* const memory =
        endpoint_->map(connection, {at.address, at.length_bytes, at.key}, access);
    return reinterpret_cast<uintptr_t>(memory) % alignment == 0 ? memory : nullptr;
}

/// Maps the keys and values that lie in the worker's memory. False: they cannot be mapped, so
/// that the Fetcher must read them, or provide a buffer for the values of a pulled list.
bool Shard::find_bytes(const wire::Frame& frame, Request& request) {
    const wire::FrameHeader& h = frame.header;
    const size_t value_bytes = size_of(static_cast<ValueType>(h.value_type));
    if ((h.flags & wire::kKeysRemote) != 0 && frame.keys_at.length_bytes > 0) {
        const std::byte* const keys = map(request.connection, frame.keys_at, sizeof(uint64_t),
                                          transport::Access::kRemoteRead);
        if (keys == nullptr) return false;
        request.keys = {keys, frame.keys_at.length_bytes};
    }
    if ((h.flags & wire::kValuesRemote) == 0 || frame.values_at.length_bytes == 0) return true;
    if (h.kind == Kind::kPush) {
        const std::byte* const values =
            map(request.connection, frame.values_at, value_bytes, transport::Access::kRemoteRead);
        request.values = {values, frame.values_at.length_bytes};
        return values != nullptr;
    }
    request.out =
        map(request.connection, frame.values_at, value_bytes, transport::Access::kRemoteWrite);
    return request.out != nullptr || (h.flags & wire::kKeysRange) != 0;
}

/// Counts mapped bytes as the endpoint counts bytes that it reads and writes.
void Shard::count_mapped(const wire::Frame& frame) {
    counters_.bytes_received += frame.keys_at.length_bytes;
    (frame.header.kind == Kind::kPush ? counters_.bytes_received : counters_.bytes_sent) +=
        frame.values_at.length_bytes;
}

void Shard::start(Session& session, const wire::Frame& frame) {
    Request request{session.connection, frame.header, frame.keys, frame.values,
                    frame.values_at,    frame.ends,   nullptr,    {}};
    if (find_bytes(frame, request)) {
        count_mapped(frame);
        return apply(request);
    }
    if (!add_waiting(session, frame.keys.size() + frame.values.size())) {
        if ((frame.header.flags & wire::kAggregate) != 0) {
            tables_[frame.header.table]->iterations.withdraw(session.worker);
        }
        return reply(session.connection, frame.header.request, Errc::kBusy);
    }
    counters_.bytes_copied += frame.keys.size() + frame.values.size();
    fetcher_.add(session.connection, frame);
}

size_t Shard::take_fetched() {
    size_t done = fetcher_.start();
    while (const std::optional<Fetched> next = fetcher_.next()) {
        fetched(*next);
        fetcher_.done();
        ++done;
    }
    return done;
}

void Shard::fetched(const Fetched& fetched) {
    Session* const session = session_of(fetched.connection);
    if (session == nullptr) return;
    session->waiting_bytes -= kWaitingBytes + fetched.carried_bytes;
    const Request request{fetched.connection, fetched.header, fetched.keys, fetched.values,
                          fetched.values_at,  fetched.ends,   nullptr,      fetched.room};
    if (fetched.status == Errc::kOk) return apply(request);
    if ((fetched.header.flags & wire::kAggregate) != 0) {
        return end_part(*tables_[fetched.header.table], *session, fetched.header.request,
                        fetched.status);
    }
    reply(fetched.connection, fetched.header.request, fetched.status);
}

}  // namespace weir

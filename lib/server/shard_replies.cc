// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a shard answers.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/node/manager_names.h"
#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

void Shard::reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail,
                  std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    header.status = status;
    header.first = detail;
    answer(connection, header, body);
}

/// While others may take over from this shard, an answer leaves only after a look at the lease, at the
/// end of the poll.
void Shard::answer(ConnectionId connection, wire::FrameHeader& header,
                   std::span<const std::byte> body) {
    if (!needs_lease_) [[likely]]
        return outbox_.send(connection, header, body);
    ready_.add(0, connection, header, body);
}

static wire::FrameHeader failed_reply(uint64_t request, const IterationProgress::Failure& failure) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.flags = wire::kIteration;
    header.request = request;
    header.status = failure.status;
    header.first = failure.worker | uint64_t{failure.other} << 32;
    return header;
}

/// Answers a part of, or a pull that names, an iteration that has failed at this shard. It promises
/// nothing: if a shard that takes over could make the iteration succeed, promise_failed() is due.
void Shard::reply_failed(ConnectionId connection, uint64_t request,
                         const IterationProgress::Failure& failure) {
    wire::FrameHeader header = failed_reply(request, failure);
    answer(connection, header, {});
}

void Shard::hold(ConnectionId connection, uint64_t request, Errc status, uint64_t detail,
                 std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    header.status = status;
    header.first = detail;
    held_.add(streams_.state(), connection, header, body);
}

void Shard::promise_failed(ConnectionId connection, uint64_t request,
                           const IterationProgress::Failure& failure) {
    if (!holds_answers_) [[likely]]
        return reply_failed(connection, request, failure);
    held_.add(streams_.state(), connection, failed_reply(request, failure), {});
}

/// Whether what was done up to now may be reported.
bool Shard::has_lease() {
    if (!needs_lease_ || options_.lease->holds(clock_.now_ns())) return true;
    refusals_.log(
        LogLevel::kWarning, "lease",
        fmt::format(
            "{}: the lease of this server has ended, so its answers wait: {} does "
            "not answer, or cannot be reached, or this host or the manager's is so busy that "
            "one of the two processes did not run for that long",
            name(), manager_name(options_.link.manager.get())));
    return false;
}

/// Sends the answers that wait for nothing else, and those whose promises all counted copies can keep.
size_t Shard::release_answers() {
    const uint64_t confirmed = streams_.confirmed_state();
    const bool has_some =
        !ready_.empty() || held_.has_any_of(confirmed) || !unconfirmed_drops_.empty();
    if (!has_some || !has_lease()) return 0;
    const auto send = [&](ConnectionId connection, wire::FrameHeader& header,
                          std::span<const std::byte> body) {
        outbox_.send(connection, header, body);
    };
    const size_t released = ready_.release(~uint64_t{0}, send) + held_.release(confirmed, send);
    confirm_drops(confirmed);
    return released;
}

/// With the counters. It promises nothing, so it needs no lease.
void Shard::give_sign_of_life(ConnectionId connection, uint64_t request) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    outbox_.send(connection, header, stats());
}

void Shard::reply_to_manager(uint64_t request, Errc status, std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    header.status = status;
    to_manager_.send(header, body);
}

/// The body of the answer to kStats.
std::vector<std::byte> Shard::stats() {
    StatsMessage message = counters_;
    message.bytes_sent += endpoint_->counters().bytes_sent;
    message.bytes_received += endpoint_->counters().bytes_received;
    message.bytes_copied += endpoint_->counters().bytes_staged;
    const MemoryUse use = memory_.use();
    message.registered_bytes = use.registered_bytes;
    message.used_bytes = use.used_bytes;
    const size_t cached_bytes = lists_.bytes() + fetcher_.spares().bytes();
    message.table_bytes = use.used_bytes - std::min<uint64_t>(cached_bytes, use.used_bytes);
    message.lists_remembered = lists_.list_count();
    for (const auto& table : tables_) {
        if (table != nullptr) message.keys_held += table->rows->row_count();
    }
    note_open_iterations(message);
    return message.encode();
}

/// The open iterations that have begun, as many as the message has room for: the first one of each
/// table, then the second ones, and so on.
void Shard::note_open_iterations(StatsMessage& message) const {
    size_t room_bytes = endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin -
                        message.encode().size();
    bool has_more = true;
    for (uint64_t ahead = 0; has_more; ++ahead) {
        has_more = false;
        for (const auto& table : tables_) {
            if (table == nullptr) continue;
            const IterationProgress& iterations = table->iterations.state();
            const uint64_t iteration = iterations.first_open() + ahead;
            if (iteration > std::min(iterations.last_begun(), iterations.last_open())) continue;
            StatsMessage::OpenIteration open{table->rows->schema().id, iteration, 0, {}};
            for (const ViewWorker& worker : view_.workers()) {
                if (!iterations.waits_for(iteration, worker.number)) continue;
                const bool is_named = open.late_count++ < StatsMessage::OpenIteration::kLateMax;
                if (is_named) open.late.push_back(worker.number);
            }
            if (message.open.size() == StatsMessage::kOpenMax || open.bytes() > room_bytes) return;
            room_bytes -= open.bytes();
            message.open.push_back(std::move(open));
            has_more = true;
        }
    }
}

}  // namespace weir

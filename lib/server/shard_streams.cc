// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a shard does beside requests, in each poll while something moves or is replicated (Replication), or a
/// checkpoint is under way.

#include <utility>

#include <fmt/core.h>

#include "lib/node/manager_names.h"
#include "lib/server/shard.h"

namespace weir {

void Shard::look_at_moves() noexcept {
    const bool needed_lease = replies_.needs_lease();
    replies_.look_at_streams(replication_.look_at_backups());
    if (replies_.needs_lease() && !needed_lease) writes_.want_replies();
    is_moving_ = replication_.is_active() || replies_.is_active() || !unreported_drops_.empty() ||
                 checkpoint_.is_under_way() || !fills_.empty();
}

/// Whether what was done up to now may be reported.
bool Shard::has_lease() {
    if (replies_.may_send()) return true;
    refusals_.log(
        LogLevel::kWarning, "lease",
        fmt::format(
            "{}: the lease of this server has ended, so its answers wait: {} does "
            "not answer, or cannot be reached, or this host or the manager's is so busy that "
            "one of the two processes did not run for that long",
            name(), manager_name(options_.link.manager.get())));
    return false;
}

/// Sends the replies that are due, if there is a lease.
size_t Shard::release_replies() {
    if (!replies_.has_due() && unreported_drops_.empty()) return 0;
    if (!has_lease()) return 0;
    const size_t released = replies_.release();
    report_drops();
    return released;
}

size_t Shard::move_on() {
    size_t done = replication_.poll();
    done += release_replies();
    done += replication_.hand_over();
    if (holds_pushes_ && streams_.has_room() && !checkpoint_.is_frozen()) {
        holds_pushes_ = false;
        retry_ = true;
    }
    look_at_moves();
    return done;
}

/// What nobody waits for, when the replies of a poll are on their way.
size_t Shard::work_behind() {
    const bool has_checkpoint = checkpoint_.is_under_way() || !fills_.empty();
    return (has_checkpoint ? go_on_with_checkpoint() : 0) + replication_.work_behind();
}

/// Of a list the table finds the rows of keys that are served only.
bool Shard::serves(const ShardTable& table, const Request& request) const {
    return !request.has(wire::kKeysRange) || replication_.serves(table, range_of(request));
}

/// Whether a push can be executed now: kOk, or kBusy if it must wait until streams have room, or
/// how it is replied to.
Errc Shard::judge_push(const ShardTable& table, const Request& request) const {
    if (!serves(table, request)) return Errc::kOutOfRange;
    return checkpoint_.is_frozen() || !streams_.has_room() ? Errc::kBusy : Errc::kOk;
}

// What Replication asks for.

void Shard::close(ConnectionId connection) {
    endpoint_->close(connection);
    closed(connection);
}

void Shard::send_to_shard(ConnectionId connection, wire::FrameHeader& header) {
    replies_.send_at_once(connection, header);
}

void Shard::send_to_manager(const wire::FrameHeader& header, std::span<const std::byte> body) {
    wire::FrameHeader sent = header;
    to_manager_.send(sent, body);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a shard does beside requests, in each poll while something moves or has copies (Replication), or a
/// checkpoint is under way.

#include <utility>

#include "lib/server/shard.h"

namespace weir {

void Shard::look_at_moves() noexcept {
    const bool is_counted = replication_.look_at_copies();
    holds_answers_ = is_counted || !held_.empty() || !ready_.empty() || !unconfirmed_drops_.empty();
    const bool needed_lease = std::exchange(needs_lease_, is_counted && options_.lease != nullptr);
    if (needs_lease_ && !needed_lease) writes_.want_replies();
    is_moving_ =
        replication_.is_active() || holds_answers_ || checkpoint_.is_under_way() || !fills_.empty();
}

size_t Shard::move_on() {
    size_t done = replication_.poll();
    done += release_answers();
    done += replication_.hand_over();
    if (holds_pushes_ && streams_.has_room() && !checkpoint_.is_frozen()) {
        holds_pushes_ = false;
        retry_ = true;
    }
    look_at_moves();
    return done;
}

/// What nobody waits for, when the answers of a poll are on their way.
size_t Shard::work_behind() {
    const bool has_checkpoint = checkpoint_.is_under_way() || !fills_.empty();
    return (has_checkpoint ? go_on_with_checkpoint() : 0) + replication_.work_behind();
}

/// Of a list the table finds the rows of keys that are served only.
bool Shard::serves(const ShardTable& table, const Request& request) const {
    return !request.has(wire::kKeysRange) || replication_.serves(table, range_of(request));
}

/// Whether a push can be executed now: kOk, or kBusy if it must wait until streams have room, or
/// how it is answered.
Errc Shard::judge_push(const ShardTable& table, const Request& request) const {
    if (!serves(table, request)) return Errc::kOutOfRange;
    if (checkpoint_.is_frozen()) return Errc::kBusy;
    using MayChange = Replication::MayChange;
    MayChange may = MayChange::kYes;
    if (request.has(wire::kKeysKnown)) {
        const uint32_t number = request.header.table;
        const ListId list = known_list(request);
        may = replication_.may_change(number, list,
                                      touched_.find(number, list, holdings_.segments()));
    } else {
        may = replication_.may_change();
    }
    if (may == MayChange::kYes) return Errc::kOk;
    return may == MayChange::kLater ? Errc::kBusy : Errc::kUnknownList;
}

// What Replication asks for.

void Shard::close(ConnectionId connection) {
    endpoint_->close(connection);
    closed(connection);
}

void Shard::send_to_shard(ConnectionId connection, wire::FrameHeader& header) {
    outbox_.send(connection, header);
}

void Shard::send_to_manager(const wire::FrameHeader& header, std::span<const std::byte> body) {
    wire::FrameHeader sent = header;
    to_manager_.send(sent, body);
}

}  // namespace weir

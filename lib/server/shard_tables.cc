// SPDX-License-Identifier: Apache-2.0
/// \file
/// The manager's orders to make a table, and to drop one: another shard could not make it, or nobody needs it.

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/server/shard.h"
#include "lib/store/schema_codec.h"

namespace weir {

/// The manager orders a table. A shard that joins makes those that come before its first view when
/// it has that.
void Shard::order_table(uint64_t request, std::span<const std::byte> body) {
    if (phase_ == Phase::kJoining && is_admitted_ &&
        early_tables_.size() < TableMessage::kTablesMax) {
        early_tables_.push_back({request, {body.begin(), body.end()}});
        return;
    }
    const Status made = create_table(body);
    const std::string why =
        made ? std::string() : fmt::format("{}: {}", name(), made.error().message());
    reply_to_manager(request, made.code(),
                     made ? std::vector<std::byte>() : encode_text(why.substr(0, 600)));
}

Status Shard::create_table(std::span<const std::byte> body) {
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema || message->table >= TableMessage::kTablesMax || phase_ != Phase::kServing ||
        message->closed > ClosedState::kIterationMax) {
        return Error(Errc::kProtocol, "a malformed table schema");
    }
    schema->id = message->table;
    const PositionSet held = holdings_.in_role(
        {Holdings::Role::kPrimary, Holdings::Role::kLeaving, Holdings::Role::kHandedOver,
         Holdings::Role::kLearning, Holdings::Role::kLearned});
    Result<std::unique_ptr<TableShard>> table =
        TableShard::make(*schema, held, rules_, memory_, lists_, options_.secret_seed);
    if (!table) {
        const Error why = of_table(schema->name, table.error());
        log(LogLevel::kError, "{}: {}", name(), why.message());
        return why;
    }
    const size_t row_bytes = (*table)->pulled_row_bytes() + (*table)->state_row_bytes();
    if (row_bytes > RecordMessage::kRowBytesMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a row of {} MiB with its state is too long: more than {} MiB "
                        "could not move to another server; choose a lower width",
                        schema->name, row_bytes >> 20, RecordMessage::kRowBytesMax >> 20));
    }
    if (message->table < tables_.size() && tables_[message->table] != nullptr) {
        // The network may be reading the rows of the first one.
        return Error(Errc::kProtocol,
                     "the manager gave the number of this table to another table before");
    }
    (*table)->serve(holdings_.primary());
    if (tables_.size() <= message->table) tables_.resize(message->table + 1);
    auto made = std::make_unique<ShardTable>(std::move(*table));
    made->was_pushed = message->checkpoint != 0;
    made->closed_at_start = message->closed;
    if (message->closed != 0) {
        for (const PositionRange range : held.ranges())
            made->iterations.state().closed().set({range, {message->closed, {}}});
    }
    made->iterations.state().restart(primary_ranges());
    set_members(*made);
    tables_.put(message->table, std::move(made));
    tables_.dropped.erase(message->table);
    finish_iterations(*tables_[message->table]);  // those before its first member's are empty
    return {};
}

/// The table is refused, maybe by another shard, or a worker has dropped it: whatever waits is answered as
/// if the table had never been. What a checkpoint that is under way needs stays until that is over.
void Shard::drop_table(uint64_t number) {
    const bool is_being_filled =
        std::ranges::any_of(fills_, [&](const Fill& fill) { return fill.table() == number; });
    if (number >= TableMessage::kTablesMax || is_being_filled) {
        return end(
            Error(Errc::kProtocol, fmt::format("the manager sent an impossible order to drop "
                                               "table {}",
                                               number)));
    }
    const auto table = static_cast<uint32_t>(number);
    std::erase_if(early_tables_, [&](const EarlyTable& early) { return early.request == number; });
    const bool is_here = table < tables_.size() && tables_[table] != nullptr;
    if (!is_here) {
        tables_.dropped.insert(table);
    } else if (!checkpoint_.needs(table)) {
        drop_made_table(table);
    } else if (!std::exchange(tables_[table]->is_dropped, true)) {
        end_iterations(*tables_[table], Errc::kNotFound);
        drop_waiting(*tables_[table]);
        to_drop_.push_back(table);
    }
    unconfirmed_drops_.push_back({table, streams_.state(), std::nullopt});
    if (!holds_answers_) confirm_drops(streams_.state());
    look_at_moves();
}

/// The manager's answer to the worker that dropped a table promises that no push to it is acknowledged any
/// more: what is to be answered for those before goes first, also to workers whose connections take little.
///
/// `confirmed`: the changes whose answers have left, or wait in the outbox
void Shard::confirm_drops(uint64_t confirmed) {
    for (UnconfirmedDrop& drop : unconfirmed_drops_) {
        if (drop.state <= confirmed && !drop.behind) drop.behind = outbox_.waited_count();
    }
    std::erase_if(unconfirmed_drops_, [&](const UnconfirmedDrop& drop) {
        if (!drop.behind || !outbox_.has_sent(*drop.behind)) return false;
        wire::FrameHeader header = wire::header_of(wire::Kind::kDropTable);
        header.first = drop.table;
        to_manager_.send(header);
        return true;
    });
}

void Shard::drop_made_table(uint32_t number) {
    tables_.dropped.insert(number);
    streams_.forget_table(number);
    dropped_.push_back(tables_.take(number));
    ShardTable& table = *dropped_.back();
    (void)table.pins.take_push();
    (void)table.pins.take_iteration();
    table.rows->forget_lists();
    table.iterations.restart({}, [&](const OpenIterations::Part& part) {
        reply(part.connection, part.request, Errc::kNotFound);
    });
    drop_waiting(table);
    writes_.forget(table);
    take_ended_writes();
}

void Shard::drop_waiting(ShardTable& table) {
    sessions_.for_each([&](Session& session) { drop_queue(session, table); });
    (void)admit_again(table.deferred);
}

/// Pushes that wait in this table, which is dropped.
void Shard::drop_queue(Session& session, const ShardTable& table) {
    PushOrder& order = session.order(table.rows->schema().id);
    order.clock = nullptr;
    for (const uint32_t slot : std::exchange(order.queue, {})) {
        KeptRequest& push = requests_[slot];
        // It is answered when its bytes have come: until then its worker must keep them.
        if (push.wait == Wait::kBytes) continue;
        if (push.wait == Wait::kTurn)
            reply(session.connection, push.header.request, Errc::kNotFound);
        end(push);
    }
}

/// The network may still read rows of a table that was dropped.
void Shard::free_dropped() {
    std::erase_if(dropped_, [&](const auto& table) { return !requests_.writes_of(*table); });
}

}  // namespace weir

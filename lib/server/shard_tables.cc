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
    if (const Status begun = begin_table(request, body); !begun)
        return refuse_table(request, begun);
    while (!tables_to_fill_.empty() && go_on_making_table() == Step::kDone) {
    }
}

void Shard::refuse_table(uint64_t request, const Status& status) {
    const std::string why = fmt::format("{}: {}", name(), status.error().message());
    reply_to_manager(request, status.code(), encode_text(why.substr(0, 600)));
}

PositionSet Shard::held() const {
    return holdings_.in_role({Holdings::Role::kPrimary, Holdings::Role::kLeaving,
                              Holdings::Role::kHandedOver, Holdings::Role::kLearning,
                              Holdings::Role::kLearned});
}

/// Makes a table, but for its initial rows: these are made in the next polls, if they take long.
Status Shard::begin_table(uint64_t request, std::span<const std::byte> body) {
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema || message->table >= TableMessage::kTablesMax || phase_ != Phase::kServing ||
        message->closed > ClosedState::kIterationMax) {
        return Error(Errc::kProtocol, "a malformed table schema");
    }
    schema->id = message->table;
    Result<std::unique_ptr<TableShard>> table =
        TableShard::make(*schema, held(), rules_, memory_, lists_, options_.secret_seed);
    if (!table) {
        const Error why = of_table(schema->name, table.error());
        log(LogLevel::kError, "{}: {}", name(), why.message());
        return why;
    }
    const size_t row_bytes =
        (*table)->row_layout().value_bytes() + (*table)->row_layout().state_bytes;
    if (row_bytes > RecordMessage::kRowBytesMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a row of {} MiB with its state is too long: more than {} MiB "
                        "could not move to another server; choose a lower width",
                        schema->name, row_bytes >> 20, RecordMessage::kRowBytesMax >> 20));
    }
    const bool is_known =
        (message->table < tables_.size() && tables_[message->table] != nullptr) ||
        std::ranges::count(tables_to_fill_, message->table, &TableToFill::number) > 0;
    if (is_known) {
        // The network may be reading the rows of the first one.
        return Error(Errc::kProtocol,
                     "the manager gave the number of this table to another table before");
    }
    tables_to_fill_.push_back(
        {request, message->table, message->checkpoint != 0, message->closed, std::move(*table)});
    return {};
}

/// Makes some initial rows of the first table that lacks them. kDone: that has all, and is there now, or
/// is refused. What this shard holds may have changed since it was begun.
Shard::Step Shard::go_on_making_table() {
    TableToFill& first = tables_to_fill_.front();
    const PositionSet now = held();
    const PositionSet lost = first.rows->held().without(now);
    if (!lost.ranges().empty()) first.rows->give_up(lost);
    const bool has_more = !now.without(first.rows->held()).ranges().empty();
    const Status kept = has_more ? first.rows->hold(now) : Status();
    if (kept && first.rows->fill_some()) return Step::kMore;
    TableToFill done = std::move(first);
    tables_to_fill_.pop_front();
    if (!kept) {
        refuse_table(done.request, kept);
        return Step::kDone;
    }
    WEIR_CHECK(done.rows->unfilled_rows() == 0);
    add_table(done);
    reply_to_manager(done.request, Errc::kOk, {});
    return Step::kDone;
}

void Shard::add_table(TableToFill& table) {
    table.rows->serve(holdings_.primary());
    if (tables_.size() <= table.number) tables_.resize(table.number + 1);
    auto made = std::make_unique<ShardTable>(std::move(table.rows));
    made->was_pushed = table.is_from_checkpoint;
    made->closed_at_start = table.closed;
    if (table.closed != 0) {
        const PositionSet all = held();
        for (const PositionRange range : all.ranges())
            made->iterations.state().closed().set({range, {table.closed, {}}});
    }
    made->iterations.state().restart(primary_ranges());
    set_members(*made);
    if (made->rows->schema().erasable) erasable_.push_back(table.number);
    tables_.put(table.number, std::move(made));
    tables_.dropped.erase(table.number);
    finish_iterations(*tables_[table.number]);  // those before its first member's are empty
}

/// The table is refused, maybe by another shard, or a worker has dropped it: whatever waits gets a reply as
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
    std::erase_if(tables_to_fill_, [&](const TableToFill& made) { return made.number == number; });
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
    unreported_drops_.push_back({table, replies_.now()});
    if (!replies_.is_active()) report_drops();
    look_at_moves();
}

/// The manager's reply to the worker that dropped a table says that no push to it is acknowledged any
/// more: the replies to those before go first.
void Shard::report_drops() {
    std::erase_if(unreported_drops_, [&](UnreportedDrop& drop) {
        if (!replies_.has_sent_before(drop.dropped)) return false;
        wire::FrameHeader header = wire::header_of(wire::Kind::kDropTable);
        header.first = drop.table;
        to_manager_.send(header);
        return true;
    });
}

void Shard::drop_made_table(uint32_t number) {
    tables_.dropped.insert(number);
    std::erase(erasable_, number);
    streams_.forget_table(number);
    dropped_.push_back(tables_.take(number));
    ShardTable& table = *dropped_.back();
    (void)table.pins.take_push();
    (void)table.pins.take_iteration();
    table.rows->forget_lists();
    table.iterations.restart({}, [&](const OpenIterations::Part& part) {
        replies_.reply(part.connection, part.request, Errc::kNotFound);
    });
    drop_waiting(table);
    writes_.forget(table);
    end_writes();
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
        // It is replied to when its bytes have come: until then its worker must keep them.
        if (push.wait == Wait::kBytes) continue;
        if (push.wait == Wait::kTurn)
            replies_.reply(session.connection, push.header.request, Errc::kNotFound);
        end(push);
    }
}

/// The network may still read rows of a table that was dropped.
void Shard::free_dropped() {
    std::erase_if(dropped_, [&](const auto& table) { return !requests_.writes_of(*table); });
}

}  // namespace weir

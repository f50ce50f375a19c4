// SPDX-License-Identifier: Apache-2.0
#include "lib/server/tables/table_orders.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/store/schema_codec.h"

namespace weir {

void TableOrders::order(uint64_t request, std::span<const std::byte> body) {
    if (standing_.phase() == ShardStanding::Phase::kJoining && options_.join &&
        standing_.has_number() && early_.size() < TableMessage::kTablesMax) {
        early_.push_back({request, {body.begin(), body.end()}});
        return;
    }
    if (const Status begun = begin(request, body); !begun) return refuse(request, begun);
    while (!to_fill_.empty() && go_on_making() == Step::kDone) {
    }
}

void TableOrders::make_early() {
    for (const Early& table : std::exchange(early_, {}))
        order(table.request, table.body);
}

void TableOrders::refuse(uint64_t request, const Status& status) {
    const std::string why = fmt::format("{}: {}", name(), status.error().message());
    reply_to_manager(request, status.code(), encode_text(why.substr(0, 600)));
}

PositionSet TableOrders::held() const {
    return replication_.holdings().in_role({Holdings::Role::kPrimary, Holdings::Role::kLeaving,
                                            Holdings::Role::kHandedOver, Holdings::Role::kLearning,
                                            Holdings::Role::kLearned});
}

/// Makes a table, but for its initial rows: these are made in the next polls, if they take long.
Status TableOrders::begin(uint64_t request, std::span<const std::byte> body) {
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema || message->table >= TableMessage::kTablesMax || !standing_.is_serving() ||
        message->closed > ClosedState::kIterationMax) {
        return Error(Errc::kProtocol, "a malformed table schema");
    }
    schema->id = message->table;
    Result<std::unique_ptr<TableShard>> table = TableShard::make(
        *schema, held(), means_.rules, means_.memory, means_.lists, options_.secret_seed);
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
    const bool is_known = (message->table < tables_.size() && tables_[message->table] != nullptr) ||
                          std::ranges::count(to_fill_, message->table, &ToFill::number) > 0;
    if (is_known) {
        // The network may be reading the rows of the first one.
        return Error(Errc::kProtocol,
                     "the manager gave the number of this table to another table before");
    }
    to_fill_.push_back(
        {request, message->table, message->checkpoint != 0, message->closed, std::move(*table)});
    return {};
}

/// What this shard holds may have changed since the table was begun.
TableOrders::Step TableOrders::go_on_making() {
    ToFill& first = to_fill_.front();
    const PositionSet now = held();
    const PositionSet lost = first.rows->held().without(now);
    if (!lost.ranges().empty()) first.rows->give_up(lost);
    const bool has_more = !now.without(first.rows->held()).ranges().empty();
    const Status kept = has_more ? first.rows->hold(now) : Status();
    if (kept && first.rows->fill_some()) return Step::kMore;
    ToFill done = std::move(first);
    to_fill_.pop_front();
    if (!kept) {
        refuse(done.request, kept);
        return Step::kDone;
    }
    WEIR_CHECK(done.rows->unfilled_rows() == 0);
    add(done);
    reply_to_manager(done.request, Errc::kOk, {});
    return Step::kDone;
}

void TableOrders::add(ToFill& table) {
    table.rows->serve(replication_.primary());
    if (tables_.size() <= table.number) tables_.resize(table.number + 1);
    auto made = std::make_unique<ShardTable>(std::move(table.rows));
    made->was_pushed = table.is_from_checkpoint;
    made->closed_at_start = table.closed;
    if (table.closed != 0) {
        const PositionSet all = held();
        for (const PositionRange range : all.ranges())
            made->iterations.state().closed().set({range, {table.closed, {}}});
    }
    made->iterations.state().restart(standing_.primary_ranges());
    members_.set(*made);
    if (made->rows->schema().erasable) erasable_.push_back(table.number);
    tables_.put(table.number, std::move(made));
    tables_.dropped.erase(table.number);
    parts_.finish(*tables_[table.number]);  // those before its first member's are empty
}

void TableOrders::drop(uint64_t number) {
    const bool is_here = number < tables_.size() && tables_[number] != nullptr;
    const bool is_being_filled = is_here && tables_[number]->fill_count > 0;
    if (number >= TableMessage::kTablesMax || is_being_filled) {
        return standing_.end(
            Error(Errc::kProtocol, fmt::format("the manager sent an impossible order to drop "
                                               "table {}",
                                               number)));
    }
    const auto table = static_cast<uint32_t>(number);
    std::erase_if(early_, [&](const Early& early) { return early.request == number; });
    std::erase_if(to_fill_, [&](const ToFill& made) { return made.number == number; });
    if (!is_here) {
        tables_.dropped.insert(table);
    } else if (!checkpoint_.needs(table)) {
        drop_made(table);
    } else if (!std::exchange(tables_[table]->is_dropped, true)) {
        parts_.end_all(*tables_[table], Errc::kNotFound);
        drop_waiting(*tables_[table]);
        to_drop_.push_back(table);
    }
    unreported_drops_.push_back({table, replies_.now()});
    if (!replies_.is_active()) report_drops();
}

void TableOrders::drop_unneeded() {
    std::erase_if(to_drop_, [&](uint32_t table) {
        if (checkpoint_.needs(table)) return false;
        drop_made(table);
        return true;
    });
}

void TableOrders::report_drops() {
    std::erase_if(unreported_drops_, [&](UnreportedDrop& drop) {
        if (!replies_.has_sent_before(drop.dropped)) return false;
        wire::FrameHeader header = wire::header_of(wire::Kind::kDropTable);
        header.first = drop.table;
        to_manager_.send(header);
        return true;
    });
}

void TableOrders::drop_made(uint32_t number) {
    tables_.dropped.insert(number);
    std::erase(erasable_, number);
    replication_.streams().forget_table(number);
    std::unique_ptr<ShardTable> table = tables_.take(number);
    (void)table->pins.take_push();
    (void)table->pins.take_iteration();
    table->rows->forget_lists();
    table->iterations.restart({}, [&](const OpenIterations::Part& part) {
        replies_.reply(part.connection, part.request, Errc::kNotFound);
    });
    drop_waiting(*table);
    reads_.drop(std::move(table));
}

void TableOrders::drop_waiting(ShardTable& table) {
    pushes_.drop(table);
    (void)requests_.retry(table.deferred);
}

/// A row stays until all backups in sync know that it is empty.
bool TableOrders::may_vacuum(uint32_t number) const {
    const ShardTable& table = *tables_[number];
    return table.rows->wants_vacuum() && table.erased_in <= replication_.replicated_change();
}

bool TableOrders::may_vacuum() const {
    return std::ranges::any_of(erasable_, [&](uint32_t number) { return may_vacuum(number); });
}

size_t TableOrders::vacuum_some() {
    size_t done = 0;
    for (const uint32_t number : erasable_) {
        ShardTable& table = *tables_[number];
        if (may_vacuum(number)) {
            table.rows->vacuum_some();
            table.vacuumed_in = table.erased_in;
            ++done;
        }
        pushes_.look_for_erasures(table);
    }
    return done;
}

}  // namespace weir

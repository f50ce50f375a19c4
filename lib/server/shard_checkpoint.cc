// SPDX-License-Identifier: Apache-2.0
/// \file
/// Checkpoints: what the manager orders, and what is done for it in each poll. Tables that are read
/// from one.

#include <algorithm>

#include <fmt/core.h>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

namespace {

/// What is copied in one poll: a push that has just missed it waits for so much.
constexpr size_t kRowBytesPerPoll = size_t{4} << 10;
/// While no worker has asked for anything for some polls.
constexpr size_t kRowBytesIfQuiet = size_t{64} << 10;

}  // namespace

void Shard::order_checkpoint(std::span<const std::byte> body) {
    const auto order = CheckpointOrder::decode(body);
    if (!order || (phase_ != Phase::kServing && order->step != CheckpointOrder::Step::kWatch))
        return end(Error(Errc::kProtocol, "the manager sent a malformed order for a checkpoint"));
    switch (order->step) {
        case CheckpointOrder::Step::kFreeze: checkpoint_.freeze(order->number); break;
        case CheckpointOrder::Step::kTake: checkpoint_.take(*order, options_.number); break;
        case CheckpointOrder::Step::kGiveUp: checkpoint_.give_up(order->number); break;
        case CheckpointOrder::Step::kFill: begin_fill(*order); break;
        case CheckpointOrder::Step::kWatch: watch_every_ = order->number; return;
    }
    settle_checkpoint();
    look_at_moves();
}

/// After everything that the checkpoint's part has done.
void Shard::settle_checkpoint() {
    if (checkpoint_.take_kept()) kept_change_ = streams_.last_change();
    for (const CheckpointReport& report : checkpoint_.take_reports())
        report_on_checkpoint(report);
    std::erase_if(to_drop_, [&](uint32_t table) {
        if (checkpoint_.needs(table)) return false;
        drop_made_table(table);
        return true;
    });
    if (!checkpoint_.take_release()) return;
    retry_ = true;
    for (const auto& table : tables_) {
        if (table != nullptr) finish_iterations(*table);
    }
}

void Shard::report_on_checkpoint(const CheckpointReport& report) {
    if (manager_lost_) return;
    to_manager_.send(wire::header_of(Kind::kCheckpoint), report.encode());
}

/// In each poll while there is a checkpoint, or a table is read.
size_t Shard::go_on_with_checkpoint() {
    size_t done = 0;
    if (checkpoint_.is_under_way()) {
        const bool is_replicated = streams_.replicated_change() >= kept_change_;
        done += checkpoint_.step(replication_.is_quiet() ? kRowBytesIfQuiet : kRowBytesPerPoll,
                                 is_replicated);
        settle_checkpoint();
    }
    bool is_reading = false;
    for (Fill& fill : fills_) {
        if (fill.stage == Fill::Stage::kWaiting && is_reading) break;
        done += go_on_filling(fill);
        is_reading |= fill.stage == Fill::Stage::kReading;
    }
    std::erase_if(fills_, [](const Fill& fill) { return fill.stage == Fill::Stage::kReported; });
    return done;
}

/// What this shard holds has changed, or its manager is gone.
void Shard::fail_checkpoint(const Error& why) {
    checkpoint_.fail(why);
    settle_checkpoint();
    for (const Fill& fill : fills_) {
        streams_.forget_filled(fill.table());
        report_filled(fill.table(), why);
    }
    fills_.clear();
}

// A table is read.

void Shard::begin_fill(const CheckpointOrder& order) {
    if (order.tables.size() != 1) return;
    const uint32_t number = order.tables[0].table;
    if (number >= tables_.size() || tables_[number] == nullptr) {
        return report_filled(number,
                             Error(Errc::kNotFound, fmt::format("there is no table {}", number)));
    }
    checkpoint_.forget_saved();
    fills_.push_back({order});
}

/// Backups get all rows at the end, and the manager hears that the table is here when they have them.
size_t Shard::go_on_filling(Fill& fill) {
    const auto report = [&](const Status& outcome) {
        report_filled(fill.table(), outcome);
        fill.stage = Fill::Stage::kReported;
        return size_t{1};
    };
    switch (fill.stage) {
        case Fill::Stage::kWaiting:
            fill.rows =
                std::make_unique<TableFill>(*tables_[fill.table()]->rows, holdings_.primary(),
                                            options_.disk, fill.order.folder, fill.order.number);
            fill.stage = Fill::Stage::kReading;
            return 1;
        case Fill::Stage::kReading:
            if (!fill.rows->is_over()) return fill.rows->step();
            if (!fill.rows->outcome()) return report(fill.rows->outcome());
            fill.rows.reset();
            streams_.table_filled(fill.table());
            fill.stage = Fill::Stage::kCopying;
            return 1;
        case Fill::Stage::kCopying: return streams_.has_filled(fill.table()) ? report({}) : 0;
        case Fill::Stage::kReported: return 0;
    }
    return 0;
}

void Shard::report_filled(uint32_t table, const Status& outcome) {
    CheckpointReport report{.step = CheckpointReport::Step::kFilled, .number = table};
    report.status = outcome.code();
    if (!outcome) report.why = outcome.error().message();
    report_on_checkpoint(report);
}

bool Shard::is_reading_rows() const noexcept {
    return std::ranges::any_of(
        fills_, [](const Fill& fill) { return fill.rows != nullptr && fill.rows->has_rows(); });
}

/// The manager wants to hear when a table that is in checkpoints has closed so many more iterations.
void Shard::watch_iterations(ShardTable& table) {
    if (!table.rows->schema().in_checkpoints) return;
    const uint64_t closed = table.iterations.state().last_closed();
    if (closed / watch_every_ <= table.watched) return;
    table.watched = closed / watch_every_;
    CheckpointReport report{.step = CheckpointReport::Step::kDue};
    report.tables = {{table.rows->schema().id, closed}};
    report_on_checkpoint(report);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/server/checkpoint/shard_checkpoints.h"

#include <fmt/core.h>

namespace weir {

using wire::Kind;

namespace {

/// What is copied in one poll: a push that has just missed it waits for so much.
constexpr size_t kRowBytesPerPoll = size_t{4} << 10;
/// While no worker has asked for anything for some polls.
constexpr size_t kRowBytesIfQuiet = size_t{64} << 10;

}  // namespace

void ShardCheckpoints::order(std::span<const std::byte> body) {
    const auto order = CheckpointOrder::decode(body);
    if (!order || (!standing_.is_serving() && order->step != CheckpointOrder::Step::kWatch))
        return standing_.end(
            Error(Errc::kProtocol, "the manager sent a malformed order for a checkpoint"));
    switch (order->step) {
        case CheckpointOrder::Step::kFreeze: part_.freeze(order->number); break;
        case CheckpointOrder::Step::kTake: part_.take(*order, options_.number); break;
        case CheckpointOrder::Step::kGiveUp: part_.give_up(order->number); break;
        case CheckpointOrder::Step::kFill: begin_fill(*order); break;
        case CheckpointOrder::Step::kWatch: return parts_.watch(order->number);
    }
    settle();
}

/// After everything that the checkpoint's part has done.
void ShardCheckpoints::settle() {
    if (part_.take_kept()) kept_change_ = replication_.last_change();
    for (const CheckpointReport& one : part_.take_reports())
        report(one);
    orders_.drop_unneeded();
    if (!part_.take_release()) return;
    waiting_.retry();
    for (ShardTable* const table : tables_)
        parts_.finish(*table);
}

void ShardCheckpoints::report(const CheckpointReport& report) {
    if (standing_.has_lost_manager()) return;
    to_manager_.send(wire::header_of(Kind::kCheckpoint), report.encode());
}

size_t ShardCheckpoints::step() {
    size_t done = 0;
    if (part_.is_under_way()) {
        const bool is_replicated = replication_.replicated_change() >= kept_change_;
        done += part_.step(replication_.is_quiet() ? kRowBytesIfQuiet : kRowBytesPerPoll,
                           is_replicated);
        settle();
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

void ShardCheckpoints::fail(const Error& why) {
    part_.fail(why);
    settle();
    for (const Fill& fill : fills_) {
        replication_.streams().forget_filled(fill.table());
        report_filled(fill.table(), why);
        --tables_[fill.table()]->fill_count;
    }
    fills_.clear();
}

// A table is read.

void ShardCheckpoints::begin_fill(const CheckpointOrder& order) {
    if (order.tables.size() != 1) return;
    const uint32_t number = order.tables[0].table;
    if (number >= tables_.size() || tables_[number] == nullptr) {
        return report_filled(number,
                             Error(Errc::kNotFound, fmt::format("there is no table {}", number)));
    }
    part_.forget_saved();
    ++tables_[number]->fill_count;
    fills_.push_back({order});
}

/// Backups get all rows at the end, and the manager hears that the table is here when they have them.
size_t ShardCheckpoints::go_on_filling(Fill& fill) {
    const auto end = [&](const Status& outcome) {
        report_filled(fill.table(), outcome);
        --tables_[fill.table()]->fill_count;
        fill.stage = Fill::Stage::kReported;
        return size_t{1};
    };
    switch (fill.stage) {
        case Fill::Stage::kWaiting:
            fill.rows =
                std::make_unique<TableFill>(*tables_[fill.table()]->rows, replication_.primary(),
                                            options_.disk, fill.order.folder, fill.order.number);
            fill.stage = Fill::Stage::kReading;
            return 1;
        case Fill::Stage::kReading:
            if (!fill.rows->is_over()) return fill.rows->step();
            if (!fill.rows->outcome()) return end(fill.rows->outcome());
            fill.rows.reset();
            replication_.streams().table_filled(fill.table());
            fill.stage = Fill::Stage::kCopying;
            return 1;
        case Fill::Stage::kCopying:
            return replication_.streams().has_filled(fill.table()) ? end({}) : 0;
        case Fill::Stage::kReported: return 0;
    }
    return 0;
}

void ShardCheckpoints::report_filled(uint32_t table, const Status& outcome) {
    CheckpointReport filled{.step = CheckpointReport::Step::kFilled, .number = table};
    filled.status = outcome.code();
    if (!outcome) filled.why = outcome.error().message();
    report(filled);
}

}  // namespace weir

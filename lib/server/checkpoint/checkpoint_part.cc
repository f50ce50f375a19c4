// SPDX-License-Identifier: Apache-2.0
#include "lib/server/checkpoint/checkpoint_part.h"

#include <algorithm>
#include <new>

#include <fmt/core.h>

namespace weir {

bool CheckpointPart::has_work() const noexcept {
    if (phase_ != Phase::kTaking) return false;
    return std::ranges::any_of(snapshots_,
                               [](const auto& snapshot) { return !snapshot->waits_for_disk(); });
}

void CheckpointPart::report(CheckpointReport::Step step) {
    reports_.push_back({.step = step, .number = number_});
}

void CheckpointPart::freeze(uint64_t number) {
    end();
    number_ = number;
    phase_ = Phase::kFrozen;
    if (const Status moves = disk_ == nullptr ? Status() : disk_->check_moves(); !moves)
        return fail(moves.error());
    saving_.clear();
    is_saving_void_ = false;
    std::vector<TableIteration> highest;
    for (uint32_t i = 0; i < tables_.size(); ++i) {
        if (tables_[i] == nullptr) continue;
        IterationProgress& iterations = tables_[i]->iterations.state();
        iterations.stop_behind(iterations.closed().highest());
        if (iterations.closed().highest() > 0)
            highest.push_back({i, iterations.closed().highest()});
    }
    do {
        report(CheckpointReport::Step::kFrozen);
        const size_t some = std::min(highest.size(), CheckpointOrder::kTablesMax);
        reports_.back().tables.assign(highest.begin(),
                                      highest.begin() + static_cast<ptrdiff_t>(some));
        highest.erase(highest.begin(), highest.begin() + static_cast<ptrdiff_t>(some));
        reports_.back().has_more = !highest.empty();
    } while (!highest.empty());
}

void CheckpointPart::take(const CheckpointOrder& order, uint32_t shard) {
    if (phase_ == Phase::kNone || order.number != number_ || has_all_orders_) return;
    phase_ = Phase::kTaking;
    shard_ = shard;
    if (!order.folder.empty()) {
        folder_ = order.folder;
        std::erase_if(saved_, [&](const auto& one) { return one.first != order.base; });
    }
    for (const TableIteration& one : order.tables)
        awaited_[one.table] = one.iteration;
    has_all_orders_ = !order.has_more;
    if (!has_all_orders_) return;
    if (disk_ == nullptr)
        return fail(Error(Errc::kUnavailable, "this server can write no checkpoints"));
    for (uint32_t i = 0; i < tables_.size(); ++i) {
        if (tables_[i] == nullptr) continue;
        IterationProgress& iterations = tables_[i]->iterations.state();
        const auto awaited = awaited_.find(i);
        awaited == awaited_.end() ? iterations.go_on() : iterations.stop_behind(awaited->second);
    }
    is_released_ = true;
    if (const Status kept = keep_rows(); !kept) fail(kept.error());
}

/// Of the tables that have come to their iteration.
Status CheckpointPart::keep_rows() {
    for (auto next = awaited_.begin(); next != awaited_.end();) {
        const auto [number, iteration] = *next;
        if (number >= tables_.size() || tables_[number] == nullptr)
            return Error(Errc::kNotFound, fmt::format("there is no table {} here", number));
        ShardTable& table = *tables_[number];
        IterationProgress& iterations = table.iterations.state();
        const ClosedIterations& closed = iterations.closed();
        const bool has_rows = closed.has_primary();
        if (has_rows && closed.highest() > iteration)
            return Error(Errc::kCancelled, "an iteration behind that of the checkpoint is closed");
        // One that has ended comes no farther: elsewhere it may have, before a worker was lost.
        if (has_rows && closed.lowest() < iteration && !iterations.has_ended()) {
            ++next;
            continue;
        }
        if (has_rows) {
            const std::span<const SavedChunk> before =
                saved_.empty() ? std::span<const SavedChunk>() : saved_.begin()->second[number];
            WEIR_ASSIGN(std::unique_ptr<TableSnapshot> snapshot,
                        TableSnapshot::begin(table, holdings_.primary(), holdings_.segments(),
                                             before, {disk_, &memory_, folder_, number_, shard_}));
            snapshots_.push_back(std::move(snapshot));
        }
        iterations.go_on();
        is_released_ = has_kept_ = true;
        next = awaited_.erase(next);
    }
    if (awaited_.empty() && has_all_orders_ && !std::exchange(has_taken_, true))
        report(CheckpointReport::Step::kTaken);
    return {};
}

bool CheckpointPart::needs(uint32_t table) const noexcept {
    return awaited_.contains(table) || std::ranges::any_of(snapshots_, [&](const auto& snapshot) {
               return snapshot->table().rows->schema().id == table;
           });
}

size_t CheckpointPart::step(size_t bytes_max, bool is_replicated) {
    if (phase_ != Phase::kTaking || !has_all_orders_) return 0;
    try {
        return step_or_throw(bytes_max, is_replicated);
    } catch (const std::bad_alloc&) {
        fail(Error(Errc::kNoMemory, "no memory for the chunks of a checkpoint"));
        return 1;
    }
}

size_t CheckpointPart::step_or_throw(size_t bytes_max, bool is_replicated) {
    const size_t before = reports_.size();
    if (const Status kept = keep_rows(); !kept) {
        fail(kept.error());
        return 1;
    }
    const Result<size_t> written = write_some(bytes_max);
    if (!written) {
        fail(written.error());
        return 1;
    }
    if (awaited_.empty() && snapshots_.empty() && is_replicated) {
        report(CheckpointReport::Step::kSaved);
        for (auto& [table, chunks] : saving_)
            std::ranges::sort(chunks, {},
                              [](const SavedChunk& one) { return one.entry.range.first; });
        if (!is_saving_void_) saved_[number_] = std::move(saving_);
        end();
    }
    return *written + reports_.size() - before;
}

/// One table after the other.
Result<size_t> CheckpointPart::write_some(size_t bytes_max) {
    size_t done = 0;
    for (const auto& snapshot : snapshots_) {
        WEIR_ASSIGN(const size_t some, snapshot->step(done == 0 ? bytes_max : 0));
        done += some;
        while (auto chunk = snapshot->take_chunk()) {
            report(CheckpointReport::Step::kChunk);
            reports_.back().chunk = chunk->entry;
            auto& saving = saving_[chunk->entry.table];
            saving.push_back(*std::move(chunk));
        }
    }
    std::erase_if(snapshots_, [](const auto& snapshot) { return snapshot->is_over(); });
    return done;
}

void CheckpointPart::give_up(uint64_t number) {
    if (number == number_) end();
}

void CheckpointPart::fail(const Error& why) {
    if (phase_ == Phase::kNone) return;
    report(CheckpointReport::Step::kFailed);
    reports_.back().status = why.code();
    reports_.back().why = why.message();
    end();
}

void CheckpointPart::end() {
    if (phase_ == Phase::kNone) return;
    phase_ = Phase::kNone;
    awaited_.clear();
    snapshots_.clear();
    has_all_orders_ = has_taken_ = false;
    folder_.clear();
    for (ShardTable* const table : tables_)
        table->iterations.state().go_on();
    is_released_ = true;
}

}  // namespace weir

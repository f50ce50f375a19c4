// SPDX-License-Identifier: Apache-2.0
/// \file
/// Checkpoints of the job, and going on from one: when they may begin, and what they hold up.

#include <utility>

#include "lib/manager/manager.h"

namespace weir {

/// In each poll while the job runs. Returns how much was done.
size_t Manager::go_on_with_checkpoints(uint64_t now_ns) {
    constexpr uint64_t kLookNs = kMillisecond;
    if (now_ns - looked_for_checkpoints_ns_ < kLookNs) return 0;
    looked_for_checkpoints_ns_ = now_ns;
    size_t done = checkpoints_.poll();
    if (checkpoints_.is_due() && may_begin_checkpoint()) {
        std::vector<TableSchema> tables = tables_.made_tables();
        std::erase_if(tables, [](const TableSchema& table) { return !table.in_checkpoints; });
        std::vector<uint32_t> unread = tables_.unread_tables();
        const bool is_empty = tables.empty() && unread.empty();
        if (!is_empty || !checkpoints_.put_off())
            checkpoints_.begin(live_shards(), std::move(tables), std::move(unread));
        ++done;
    }
    if (!checkpoints_.needs_shards()) tables_.forget_dropped();
    if (tables_.wants_fill_again() && has_one_view()) tables_.fill_again();
    hold_moves();
    return done;
}

/// While the rows of a checkpoint are kept or read, nothing changes hands if nobody dies.
void Manager::hold_moves() {
    if (!membership_) return;
    const bool holds = checkpoints_.needs_shards() || tables_.is_filling();
    if (membership_->hold_moves(holds)) has_news_ = true;
}

/// Whether all shards have the same view, are there, and have all tables; and no copy is being made
/// that the checkpoint would hold up, unless it has waited for that long enough.
bool Manager::may_begin_checkpoint() const {
    if (!membership_->is_at_rest() && !checkpoints_.needs_no_rest()) return false;
    return has_one_view() && !tables_.is_making();
}

/// Whether all shards have the same view, and are there.
bool Manager::has_one_view() const {
    return !loss_ && !has_news_ && !membership_->has_losers() && removed_.empty() &&
           fenced_.empty() && membership_->view().shards().size() == shards_.size();
}

void Manager::ask_for_checkpoint(const Asker& asker, const wire::Frame& frame) {
    const auto what = static_cast<CheckpointAsk>(frame.header.first);
    if (what > CheckpointAsk::kBegin || !frame.values.empty())
        return refuse(asker.connection, "a malformed question about checkpoints");
    const size_t bytes_max = endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin;
    switch (what) {
        case CheckpointAsk::kWrite:
            if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
            return checkpoints_.ask(asker);
        case CheckpointAsk::kResumedFrom:
            return answer(outbox_, asker, Errc::kOk, tables_.resumed().encode(bytes_max));
        case CheckpointAsk::kWritten:
            return answer(outbox_, asker, Errc::kOk, checkpoints_.written().encode(bytes_max));
        case CheckpointAsk::kForgetUnread:
            tables_.forget_unread();
            return answer(outbox_, asker, Errc::kOk);
        case CheckpointAsk::kBegin: {
            const Status wanted = loss_ ? Status(*loss_) : checkpoints_.want();
            return answer(outbox_, asker, wanted.code(),
                          wanted ? std::vector<std::byte>() : encode_text(wanted.error().text()));
        }
    }
}

/// Errors: as Checkpoints::take()
Status Manager::take_checkpoint_report(uint32_t shard, const wire::Frame& frame) {
    const auto report = CheckpointReport::decode(frame.values);
    if (!report) return Error(Errc::kProtocol, "a malformed report on a checkpoint");
    if (report->step != CheckpointReport::Step::kFilled) return checkpoints_.take(shard, *report);
    CheckpointReport filled = *report;
    if (filled.status != Errc::kOk) filled.why = name_of_shard(shard) + ": " + filled.why;
    tables_.filled(shard, filled);
    return {};
}

}  // namespace weir

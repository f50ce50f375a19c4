// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who has which part of the work: rounds, which end when a worker comes or dies, if the job then
/// takes its work anew.

#include "lib/base/byte_codec.h"
#include "lib/node/manager.h"
#include "lib/node/work_share.h"

namespace weir {

using wire::Kind;

void Manager::take_work(const Asker& asker, const wire::Frame& frame) {
    ByteReader reader(frame.values);
    const auto piece_count = reader.number<uint32_t>();
    if (!reader.done() || piece_count == 0 || piece_count > WorkShare::kPiecesMax)
        return refuse(asker.connection, "a malformed question for work");
    if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
    if (work_.arrive(asker, piece_count)) end_round();
    settle_work();
}

/// The worker's call at a barrier or for work has ended. If its share comes too late for that, the
/// others must not wait for its part of the work.
void Manager::withdraw(const Asker& asker, uint64_t request) {
    if (work_.withdraw(asker.worker, request)) end_round();
    barrier_.withdraw(asker, request);
}

/// Workers have come or gone. What waits for the others' parts ends, and they take the work anew.
void Manager::end_round() {
    if (options_.on_worker_loss != OnWorkerLoss::kReassign || !work_.end()) return;
    ended_tables_ = tables_.size();
    for (const auto& [number, shard] : shards_)
        end_iterations(shard.connection);
    settle_barrier();
}

void Manager::end_iterations(ConnectionId shard) {
    if (ended_tables_ == 0) return;
    wire::FrameHeader header = wire::header_of(Kind::kWork);
    header.first = ended_tables_;
    outbox_.send(shard, header);
}

/// Whether the worker may share tables with others: not while it has no share in their work. Then
/// it is told so.
bool Manager::may_share(const Asker& asker) {
    const bool is_outside = options_.on_worker_loss == OnWorkerLoss::kReassign && !is_stopping_ &&
                            work_.is_outside(asker.worker);
    if (is_outside) answer(outbox_, asker, Errc::kReassigned, encode_text(reassigned().text()));
    return !is_outside;
}

void Manager::settle_work() {
    if (is_stopping_) return work_.settle(lost_workers_.error());
    work_.settle(loss_ ? Status(*loss_) : Status());
}

}  // namespace weir

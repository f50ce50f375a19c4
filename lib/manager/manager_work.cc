// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who has which part of the work: rounds, which end when a worker comes, dies or gives its work
/// back, if the job then takes its work anew.

#include <algorithm>

#include "lib/base/log.h"
#include "lib/manager/manager.h"
#include "lib/wire/work_message.h"
#include "lib/wire/work_share.h"

namespace weir {

using wire::Kind;

void Manager::ask_for_work(const Asker& asker, const wire::Frame& frame) {
    const auto what = static_cast<WorkAsk>(frame.header.first);
    if (what == WorkAsk::kTake) return take_work(asker, frame);
    if (what > WorkAsk::kLost || !frame.values.empty())
        return refuse(asker.connection, "a malformed question about work");
    if (what == WorkAsk::kLost)
        return answer(outbox_, asker, Errc::kOk, lost_workers_.numbers().encode());
    Status accepted =
        what == WorkAsk::kFinish ? work_.finish(asker.worker) : may_give_back_work(asker.worker);
    answer(outbox_, asker, accepted.code(),
           accepted ? std::vector<std::byte>() : encode_text(accepted.error().text()));
    if (!accepted) return;
    if (what == WorkAsk::kGiveBack) give_back_work(asker.worker);
    if (what == WorkAsk::kFinish) settle_barrier();
}

void Manager::take_work(const Asker& asker, const wire::Frame& frame) {
    const auto message = WorkMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed question for work");
    if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
    if (work_.arrive(asker, message->piece_count, message->description)) end_round();
    settle_work();
}

/// Errors: for the worker, why it has to go on, or to end with all others
Status Manager::may_give_back_work(uint32_t worker) const {
    if (options_.on_worker_loss != OnWorkerLoss::kReassign) {
        return Error(Errc::kUnavailable,
                     "the workers of this job do not take over each other's work");
    }
    if (!work_.has(worker))
        return Error(Errc::kUnavailable, "this worker has left the job, or given its work back");
    if (options_.is_being_stopped && options_.is_being_stopped()) {
        return Error(Errc::kCancelled,
                     "the whole job is being stopped: nobody is to take work over");
    }
    const uint64_t process = endpoint_->process_of(workers_.at(worker).connection);
    const bool others_go_on = std::ranges::any_of(workers_, [&](const auto& other) {
        return other.first != worker && work_.has(other.first) &&
               (process == 0 || endpoint_->process_of(other.second.connection) != process);
    });
    if (others_go_on) return {};
    return Error(Errc::kUnavailable,
                 "no other process has a worker that could take over what this one has");
}

/// The others take its work over, as if it had died. Nobody waits for it, and it leaves next.
void Manager::give_back_work(uint32_t number) {
    Worker& worker = workers_.at(number);
    worker.has_given_back = true;
    log(LogLevel::kInfo, "worker {} (rank {}) gives its work back, and leaves", number,
        worker.rank);
    barrier_.remove(number);
    if (work_.remove(number)) end_round();
    settle_barrier();
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
    if (is_stopping_) return work_.settle(lost_workers_.error(checkpoints_.resume_advice()));
    work_.settle(loss_ ? Status(*loss_) : Status());
}

}  // namespace weir

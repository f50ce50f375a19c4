// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that start later: after tasks that they name, or after the parts of earlier iterations;
/// and the handlers of calls. CallTasks knows their order.

#include <utility>

#include <fmt/core.h>

#include "lib/worker/client_core.h"

namespace weir {

using wire::Kind;

/// Whether the call waits for something, or belongs to a handler's task.
bool ClientCore::is_ordered(const Transfer& t) const {
    if (!t.options.after.empty() || tasks_.has_parent()) return true;
    const bool is_part = t.kind == Kind::kPush && t.options.iteration.has_value();
    return is_part && tasks_.last_waiting_iteration(t.table->schema.id) != 0;
}

/// The last iteration of the table that this worker has pushed, or will push when it may.
uint64_t ClientCore::last_iteration(uint32_t table) const {
    const uint64_t waiting = tasks_.last_waiting_iteration(table);
    if (waiting != 0) return waiting;
    const auto pushed = pushed_iterations_.find(table);
    return pushed != pushed_iterations_.end() ? pushed->second.last() : first_iteration(table) - 1;
}

const TableInfo& ClientCore::remember(const TableInfo& table) {
    std::unique_ptr<const TableInfo>& known = remembered_tables_[table.schema.id];
    if (known == nullptr) known = std::make_unique<const TableInfo>(table);
    return *known;
}

ClientCore::CallId ClientCore::start_in_order(const Transfer& t) {
    Status wrong = check_shape(t);
    if (wrong) wrong = check_iteration(t);
    CallTasks::Waiting waiting;
    waiting.after.assign(t.options.after.begin(), t.options.after.end());
    waiting.memory = {std::as_bytes(t.keys), t.values, t.out};
    if (t.kind == Kind::kPush && t.options.iteration) {
        waiting.table = t.table->schema.id;
        waiting.iteration = *t.options.iteration;
    }
    if (wrong) {
        Transfer later = t;
        later.table = &remember(*t.table);
        later.options.after = {};
        waiting.start = [this, later](CallId id, Call& call) mutable -> Status {
            WEIR_ASSIGN(later.options.deadline_ns, remaining_ns(call));
            WEIR_TRY(check(later));
            // A part has been checked, and none before it is missing; but what a pull waits for
            // may have been withdrawn.
            if (later.kind == Kind::kPull) WEIR_TRY(check_iteration(later));
            WEIR_TRY(check_window(later));
            return launch(later, id);
        };
    }
    const CallId id = add_task(t.options.deadline_ns, std::move(waiting), std::move(wrong));
    note_table(id, t);
    return id;
}

/// Who waits for other workers does so for as long as they compute, unless the caller has said how long.
ClientCore::CallId ClientCore::barrier(uint64_t deadline_ns, std::span<const TaskId> after) {
    if (deadline_ns == CallOptions::kOver) {
        return calls_.failed(Error(Errc::kDeadline,
                                   "the time for the barrier was over before the call began: this "
                                   "worker did not come to it"));
    }
    if (after.empty()) {
        if (Status status = check_barrier(); !status) return calls_.failed(std::move(status));
        return control(manager(), Kind::kBarrier, {},
                       deadline_ns == 0 ? CallOptions::kLongNs : deadline_ns);
    }
    CallTasks::Waiting waiting;
    waiting.after.assign(after.begin(), after.end());
    waiting.start = [this](CallId id, Call& call) -> Status {
        WEIR_ASSIGN(const uint64_t left_ns, remaining_ns(call));
        WEIR_TRY(check_ready());
        WEIR_TRY(check_barrier());
        if (!requests_.has_room(1)) return Error(Errc::kBusy, kTooManyRequests);
        if (call.state == Call::State::kStarting) call.state = Call::State::kOpen;
        send_off(call, left_ns == 0 ? CallOptions::kLongNs : left_ns);
        add_control_request(id, manager(), Kind::kBarrier, {});
        endpoint_->flush();
        return {};
    };
    return add_task(deadline_ns, std::move(waiting), check_ready());
}

ClientCore::CallId ClientCore::take_work(uint32_t piece_count, uint64_t deadline_ns,
                                         std::string_view description) {
    const WorkMessage message{piece_count, std::string(description)};
    return control(manager(), Kind::kWork, message.encode(), deadline_ns);
}

ClientCore::CallId ClientCore::ask_about_work(WorkAsk what) {
    return control(manager(), Kind::kWork, {}, 0, static_cast<uint64_t>(what));
}

ClientCore::CallId ClientCore::wait_for(uint64_t deadline_ns, std::span<const TaskId> after) {
    CallTasks::Waiting waiting;
    waiting.after.assign(after.begin(), after.end());
    waiting.start = [this](CallId id, Call& call) -> Status {
        calls_.started(id, call, [](CallId) { return false; });
        return {};
    };
    return add_task(deadline_ns, std::move(waiting), check_ready());
}

/// A deadline counts from now on. Without one (0) the call waits for as long as its tasks take, which
/// have their own, and the usual one counts from when it starts.
ClientCore::CallId ClientCore::add_task(uint64_t deadline_ns, CallTasks::Waiting waiting,
                                        Status wrong) {
    CallId id = 0;
    Call* const call = calls_.begin(id);
    if (call == nullptr) return 0;
    if (deadline_ns != 0) call->deadline_ns = clock_.now_ns() + deadline_ns;
    next_deadline_ns_ = std::min(next_deadline_ns_, call->deadline_ns);
    tasks_.add(id, *call, std::move(waiting), std::move(wrong));
    return id;
}

/// Of the time that a call has that starts only now; 0: it was given none.
Result<uint64_t> ClientCore::remaining_ns(const Call& call) const {
    if (call.deadline_ns == Call::kNoDeadline) return 0;
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < call.deadline_ns) return call.deadline_ns - now_ns;
    return Error(Errc::kDeadline,
                 fmt::format("task {} of client {} could start only after its deadline, which "
                             "counts from when the call was made",
                             call.task, options_.worker));
}

TaskId ClientCore::name_task(CallId id) {
    Call* const call = calls_.find(id);
    return call == nullptr ? kNoTask : tasks_.name(id, *call);
}

Status ClientCore::on_finished(CallId id, CallTasks::Handler handler) {
    Call* const call = calls_.find(id);
    if (call == nullptr) {
        return Error(Errc::kInvalidArgument,
                     "a handler for a task whose outcome was taken: attach it before wait()");
    }
    tasks_.on_finished(id, *call, std::move(handler));
    return {};
}

bool ClientCore::cancel_waiting(CallId id) {
    const Call* const call = calls_.find(id);
    if (call == nullptr) return false;
    return tasks_.cancel(*call,
                         Error(Errc::kCancelled,
                               fmt::format("task {} of client {} was destroyed in a handler before "
                                           "it had started",
                                           call->task, options_.worker)));
}

/// The last thing in a poll(): handlers may poll.
size_t ClientCore::run_tasks() {
    tasks_.advance();
    const size_t done = tasks_.run_handlers();
    endpoint_->flush();
    return done;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/calls/call_tasks.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

namespace {

/// Relaxed: the numbers only have to differ.
uint32_t new_instance() {
    static std::atomic<uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

CallTasks::CallTasks(uint32_t client, Calls& calls)
    : calls_(calls), graph_(client, TaskGraph::kCountMax, new_instance()) {}

CallTasks::Task* CallTasks::find(uint64_t number) {
    const auto found = tasks_.find(number);
    return found == tasks_.end() ? nullptr : &found->second;
}

CallTasks::Task& CallTasks::watch(CallId id, Call& call, uint64_t number) {
    call.task = number;
    call.reports = &reports_;
    Task& task = tasks_[number];
    task.call = id;
    return task;
}

TaskId CallTasks::name(CallId id, Call& call) {
    if (call.task == 0) {
        watch(id, call, graph_.add_running().number);
        // What it would have reported.
        if (call.has_ended()) reports_.push_back({call.task, true, call.status});
        if (call.is_unwatched()) reports_.push_back({call.task, false, {}});
        pass_reports_on();
    }
    return graph_.id_of(call.task);
}

Result<TaskId> CallTasks::add_to_graph(std::span<const TaskId> after) {
    if (parent_ != 0) return graph_.add_subtask(graph_.id_of(parent_), after);
    return graph_.add(after);
}

void CallTasks::add(CallId id, Call& call, Waiting waiting, Status wrong) {
    pass_reports_on();  // what has ended is to count as finished
    std::erase(waiting.after, kNoTask);
    Result<TaskId> added = add_to_graph(waiting.after);
    if (!added) {
        if (wrong) wrong = std::move(added).error();
        added = add_to_graph({});  // a subtask that fails is a subtask
    }
    // There are fewer calls than the graph has room for.
    WEIR_CHECK(added);
    Task& task = watch(id, call, added->number);
    task.state = State::kWaiting;
    if (!wrong) waiting.iteration = 0;
    if (waiting.iteration == 0) waiting.tables.clear();
    for (const uint32_t table : waiting.tables)
        parts_[table].push_back({added->number, waiting.iteration});
    task.waiting = std::make_unique<Waiting>(std::move(waiting));
    if (!wrong) call.fail(std::move(wrong).error());
    advance();
}

void CallTasks::on_finished(CallId id, Call& call, Handler handler) {
    if (!call.has_ended()) (void)name(id, call);
    pass_reports_on();
    Task* const task = call.task == 0 ? nullptr : find(call.task);
    if (task == nullptr || task->state >= State::kDue) {
        Due& due = due_.emplace_back();
        due.outcome = call.status;
        due.handlers.push_back(std::move(handler));
        return;
    }
    task->handlers.push_back(std::move(handler));
    call.has_handler = true;
}

bool CallTasks::cancel(const Call& call, const Error& why) {
    const Task* const task = call.task == 0 ? nullptr : find(call.task);
    if (task == nullptr || task->waiting == nullptr) return false;
    calls_.find(task->call)->fail(why);
    advance();
    return true;
}

void CallTasks::cancel_waiting(const Error& why) {
    for (const auto& [number, task] : tasks_) {
        if (task.waiting != nullptr) calls_.find(task.call)->fail(why);
    }
}

Error CallTasks::too_late(uint64_t number, const Task& task) const {
    std::string reason = "the part of an earlier iteration";
    for (const TaskId id : task.waiting->after) {
        if (graph_.is_finished(id)) continue;
        reason = to_string(id);
        break;
    }
    return {Errc::kDeadline,
            fmt::format("{} did not start before its deadline, which counts from when the call was "
                        "made: it waited for {}",
                        to_string(graph_.id_of(number)), reason)};
}

uint64_t CallTasks::expire(uint64_t now_ns) {
    uint64_t next_ns = ~uint64_t{0};
    for (const auto& [number, task] : tasks_) {
        if (task.waiting == nullptr) continue;
        Call& call = *calls_.find(task.call);
        if (call.has_ended()) continue;
        if (now_ns >= call.deadline_ns) {
            call.fail(too_late(number, task));
        } else {
            next_ns = std::min(next_ns, call.deadline_ns);
        }
    }
    return next_ns;
}

uint64_t CallTasks::last_waiting_iteration(uint32_t table) const {
    const auto found = parts_.find(table);
    return found == parts_.end() ? 0 : found->second.back().iteration;
}

bool CallTasks::is_referenced(std::span<const std::byte> memory) const noexcept {
    return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
        const Waiting* const waiting = entry.second.waiting.get();
        if (waiting == nullptr) return false;
        return std::any_of(waiting->memory.begin(), waiting->memory.end(), [&](const auto& other) {
            return other.data() < memory.data() + memory.size() &&
                   memory.data() < other.data() + other.size();
        });
    });
}

void CallTasks::advance() {
    while (true) {
        pass_reports_on();
        if (const auto id = graph_.start_next()) {
            ready(id->number);
        } else if (const auto other = graph_.next_settled()) {
            settled(*other);
        } else if (reports_.empty()) {
            return;
        }
    }
}

void CallTasks::pass_reports_on() {
    while (!reports_.empty()) {
        for (const CallReport& report : std::exchange(reports_, {})) {
            if (report.has_ended) {
                ended(report.task, report.outcome);
            } else {
                unwatched(report.task);
            }
        }
    }
}

/// The call has no open requests, or none that matters.
void CallTasks::ended(uint64_t number, const Status& outcome) {
    const TaskId id = graph_.id_of(number);
    Task* const task = find(number);
    WEIR_CHECK(task != nullptr);
    const bool has_started = task->waiting == nullptr;
    if (!has_started) {
        // The graph may have ended it already, because of a task that it waited for.
        if (task->state == State::kWaiting) {
            (void)graph_.cancel(id, outcome.error());
        } else {
            graph_.finish(id, outcome);
        }
        const std::unique_ptr<Waiting> waiting = std::move(task->waiting);
        for (const uint32_t table : waiting->tables)
            withdraw_part(table, waiting->iteration, number, outcome.error());
        calls_.never_started(task->call, *calls_.find(task->call));
    }
    if (!task->handlers.empty()) {
        task->state = State::kDue;
        due_.push_back({number, has_started, outcome, std::exchange(task->handlers, {})});
        return;
    }
    if (has_started) graph_.finish(id, outcome);
    finished(id);
}

/// A part that was not sent: those behind it cannot be sent either.
void CallTasks::withdraw_part(uint32_t table, uint64_t iteration, uint64_t number,
                              const Error& why) {
    const auto found = parts_.find(table);
    if (found == parts_.end()) return;
    std::deque<Part>& parts = found->second;
    if (parts.back().iteration < iteration) return;  // withdrawn with one before it
    while (!parts.empty() && parts.back().iteration >= iteration) {
        const Part part = parts.back();
        parts.pop_back();
        if (part.task == number) continue;
        calls_.find(find(part.task)->call)
            ->fail(Error(why.code(),
                         fmt::format("iteration {} of this table was not pushed, so that {} cannot "
                                     "be: {}",
                                     iteration, part.iteration, why.text())));
    }
    if (parts.empty()) parts_.erase(found);
}

void CallTasks::unwatched(uint64_t number) {
    if (Task* const task = find(number)) {
        task->is_unwanted = true;
    } else {
        graph_.forget(graph_.id_of(number));
    }
}

/// Ended by the graph: something that it waited for has failed, or its last subtask has finished.
void CallTasks::settled(TaskId id) {
    Task* const task = find(id.number);
    if (task == nullptr) return;
    if (task->state == State::kSubtasks) return finished(id);
    if (task->state != State::kWaiting) return;
    calls_.find(task->call)->fail(graph_.outcome(id).error());
}

void CallTasks::finished(TaskId id) {
    const auto found = tasks_.find(id.number);
    const CallId call_id = found->second.call;
    const bool is_unwanted = found->second.is_unwanted;
    tasks_.erase(found);
    Call* const call = calls_.find(call_id);
    if (call != nullptr && call->has_handler)
        calls_.handlers_ended(call_id, *call, graph_.outcome(id));
    if (is_unwanted) graph_.forget(id);
}

/// The graph has started it.
void CallTasks::ready(uint64_t number) {
    Task* const ready_one = find(number);
    WEIR_CHECK(ready_one != nullptr && ready_one->state == State::kWaiting);
    ready_one->state = State::kHeld;
    // Then those that waited for it alone.
    for (std::vector<uint64_t> next{number}; !next.empty();) {
        number = next.back();
        next.pop_back();
        Task& task = *find(number);
        if (task.state != State::kHeld || !is_first(task, number)) continue;
        const std::vector<uint32_t> tables = task.waiting->tables;
        if (!start(task)) continue;
        for (const uint32_t table : tables) {
            const auto found = parts_.find(table);
            found->second.pop_front();
            if (found->second.empty()) {
                parts_.erase(found);
            } else {
                next.push_back(found->second.front().task);
            }
        }
    }
}

/// Whether no part of an earlier iteration waits in its tables.
bool CallTasks::is_first(const Task& task, uint64_t number) const {
    return std::ranges::all_of(task.waiting->tables, [&](uint32_t table) {
        const auto found = parts_.find(table);
        return found != parts_.end() && found->second.front().task == number;
    });
}

bool CallTasks::start(Task& task) {
    Call& call = *calls_.find(task.call);
    if (call.has_ended()) return false;
    if (Status started = task.waiting->start(task.call, call); !started) {
        call.fail(std::move(started).error());
        return false;
    }
    task.state = State::kRunning;
    task.waiting.reset();
    return true;
}

void CallTasks::run(Due& due) {
    is_in_handler_ = true;
    parent_ = due.has_started ? due.task : 0;
    for (const Handler& handler : due.handlers)
        handler(due.outcome);
    due.handlers.clear();  // their tasks' destructors must know that a handler runs
    is_in_handler_ = false;
    parent_ = 0;
}

size_t CallTasks::run_handlers() {
    if (is_in_handler_) return 0;
    const size_t count = due_.size();
    for (size_t i = 0; i < count && !due_.empty(); ++i) {
        Due due = std::move(due_.front());
        due_.pop_front();
        run(due);
        if (due.task != 0) {
            const TaskId id = graph_.id_of(due.task);
            find(due.task)->state = State::kSubtasks;
            if (due.has_started) graph_.finish(id, due.outcome);
            if (graph_.is_finished(id)) finished(id);
        }
        advance();
    }
    return count;
}

void CallTasks::drop_handlers() {
    std::vector<Handler> dropped;
    const auto drop = [&](std::vector<Handler>& handlers) {
        std::move(handlers.begin(), handlers.end(), std::back_inserter(dropped));
        handlers.clear();
    };
    for (auto& [number, task] : tasks_)
        drop(task.handlers);
    for (Due& due : due_)
        drop(due.handlers);
}

}  // namespace weir

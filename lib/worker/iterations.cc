// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/iterations.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "lib/task/iteration_order.h"
#include "lib/worker/client_state.h"

namespace weir {

using access::Turn;

Iterations::Iterations(Client& client, Consistency consistency)
    : state_(client.state_),
      order_(std::make_unique<IterationOrder>(state_->core().graph(), consistency)),
      began_with_(consistency) {}

Iterations::~Iterations() = default;

Consistency Iterations::consistency() const noexcept {
    return order_->consistency();
}

void Iterations::set_consistency(Consistency consistency) noexcept {
    order_->set_consistency(consistency);
}

uint64_t Iterations::last() const noexcept {
    return order_->last();
}

bool Iterations::may_begin(uint64_t iteration) {
    return may_begin(iteration, consistency());
}

bool Iterations::may_begin(uint64_t iteration, Consistency consistency) {
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return false;
    }
    state_->core().settle_tasks();
    if (order_->may_begin(iteration, consistency)) return true;
    (void)state_->core().poll_seldom();
    return order_->may_begin(iteration, consistency);
}

Status Iterations::begin(uint64_t iteration, const BeginOptions& options) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (iteration <= last()) return order_->begin(iteration);  // says what is wrong
    state_->core().settle_tasks();
    const auto may = [&] { return order_->may_begin(iteration, options.consistency); };
    if (!may()) {
        WEIR_TRY(state_->may_wait());
        const std::chrono::nanoseconds at_most =
            options.at_most.count() == 0 ? kLongDeadline : std::min(options.at_most, kLongDeadline);
        const auto end = std::chrono::steady_clock::now() + at_most;
        state_->wait_until([&] { return may() || std::chrono::steady_clock::now() >= end; },
                           static_cast<uint64_t>(std::max<int64_t>(1, at_most.count())));
        if (!may()) {
            return Error(
                Errc::kDeadline,
                fmt::format("iteration {} may not begin before iteration {} is finished: that "
                            "still waits for {}; if workers may compute for longer, wait longer",
                            iteration, options.consistency.finished_before(iteration),
                            to_string(order_->dependencies(iteration, options.consistency)[0])));
        }
    }
    for (const TaskId id : order_->dependencies(iteration, options.consistency)) {
        const Status outcome = state_->core().graph().outcome(id);
        if (outcome) continue;
        return Error(outcome.code(), fmt::format("iteration {} cannot begin: {}: {}", iteration,
                                                 to_string(id), outcome.error().text()));
    }
    began_with_ = options.consistency;
    in_tables_.clear();
    return order_->begin(iteration);
}

Status Iterations::add(Task& task) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (last() == 0)
        return Error(Errc::kInvalidArgument, "a task is added before any iteration has begun");
    const TaskId id = task.id();
    if (id == kNoTask) return {};  // it has ended, and its outcome was taken
    if (task.state_ != nullptr && task.state_ != state_) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is of another client than these iterations", to_string(id)));
    }
    order_->add(id);
    return {};
}

uint32_t Iterations::max_delay_for(uint32_t asked) const noexcept {
    if (consistency().is_eventual()) return asked;
    constexpr uint64_t kMost = ~uint32_t{0};  // which create_table() refuses
    return std::max(asked, static_cast<uint32_t>(std::min(consistency().tau(), kMost)));
}

Result<std::byte*> Iterations::memory_of(const std::shared_ptr<ClientState>& owner,
                                         const TableSchema& table, size_t count,
                                         size_t value_bytes) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    const auto refused = [&](std::string_view why) {
        return Error(Errc::kInvalidArgument, fmt::format("table '{}': {}", table.name, why));
    };
    if (const Status mine = check_may_use(owner, "values"); !mine)
        return refused(mine.error().text());
    if (count == 0) return refused("it is sparse, so say how many values the push will have");
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, value_bytes, &bytes)) bytes = ~size_t{0};
    for (const Memory& memory : memory_) {
        if (memory.table != table.id || memory.iteration != last()) continue;
        if (memory.bytes == bytes) return memory.at.get();
        return refused(
            fmt::format("{} values are asked for in iteration {}, and {} were before; "
                        "all of a push are one buffer",
                        count, last(), memory.bytes / value_bytes));
    }
    const auto in_table = [&] { return std::ranges::count(memory_, table.id, &Memory::table); };
    const uint64_t count_max =
        began_with_.is_eventual() ? kEventualBuffers : began_with_.open_max();
    Memory* found = free_memory(table.id);
    if (found == nullptr && static_cast<uint64_t>(in_table()) >= count_max) {
        WEIR_TRY(state_->may_wait());
        const auto is_over = [&] { return state_->core().finished(); };
        state_->wait_until([&] { return (found = free_memory(table.id)) != nullptr || is_over(); });
    }
    if (found == nullptr) found = &memory_.emplace_back(Memory{.table = table.id});
    if (found->room_bytes < bytes) {
        found->room_bytes = 0;
        WEIR_ASSIGN(found->at, access::allocate(state_, count, value_bytes));
        found->room_bytes = bytes;
    }
    found->bytes = bytes;
    found->iteration = last();
    return found->at.get();
}

/// One that no call uses, not even one that waits to start.
Iterations::Memory* Iterations::free_memory(uint32_t table) noexcept {
    for (Memory& memory : memory_) {
        if (memory.table != table || memory.iteration == last()) continue;
        if (memory.room_bytes == 0 ||
            !state_->core().is_referenced({memory.at.get(), memory.room_bytes}))
            return &memory;
    }
    return nullptr;
}

std::vector<TaskId> Iterations::dependencies(uint64_t iteration) {
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return {kUnknownTask};
    }
    state_->core().settle_tasks();
    return order_->dependencies(iteration);
}

Status Iterations::check_may_use(const std::shared_ptr<ClientState>& owner,
                                 const char* what) const {
    if (last() == 0)
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} before any iteration has begun", what));
    if (owner == state_) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("{} in a table of another client than these iterations", what));
}

/// Which iteration of the table a push names; none: it is a push of its own.
Result<std::optional<uint64_t>> Iterations::number_of_push(const TableSchema& table,
                                                           std::optional<uint64_t> next) {
    if (began_with_.is_eventual()) return std::optional<uint64_t>();
    if (began_with_.tau() > table.max_delay) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("a bound of {} iterations is beyond its max_delay of {}: create it with "
                        "a greater TableOptions::max_delay (at most {}), or choose a smaller "
                        "bound",
                        began_with_.tau(), table.max_delay, TableSchema::kMaxDelayMax));
    }
    if (!next) {
        return Error(Errc::kInvalidArgument,
                     "this worker takes part in no iterations (JoinOptions::has_iterations); push "
                     "with Consistency::eventual()");
    }
    if (*next > iteration_in(table, *next)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("iteration {} has pushed to it before: a worker pushes once in "
                                 "each iteration",
                                 last()));
    }
    return next;
}

/// All that bounded delay does not leave open. begin() has waited for what this worker pushed; what
/// was pushed before it joined is only named here.
std::optional<uint64_t> Iterations::oldest_for_pull(const TableSchema& table,
                                                    std::optional<uint64_t> next) {
    if (!next) return std::nullopt;
    const uint64_t oldest = began_with_.finished_before(iteration_in(table, *next));
    return oldest == 0 ? std::nullopt : std::optional(oldest);
}

/// The number stays that of the first use, so that a second push, or a pull after the push, is
/// seen as that; but a push that could not start has given its number back.
uint64_t Iterations::iteration_in(const TableSchema& table, uint64_t next) {
    const auto known = std::ranges::find(in_tables_, table.id, &InTable::table);
    if (known == in_tables_.end())
        return in_tables_.emplace_back(InTable{table.id, next}).iteration;
    known->iteration = std::min(known->iteration, next);
    return known->iteration;
}

Task Iterations::failed(const Status& why, const TableSchema& table) const {
    Error named(why.code(), fmt::format("table '{}': {}", table.name, why.error().text()));
    return Task(state_, state_->core().failed_call(std::move(named)));
}

}  // namespace weir

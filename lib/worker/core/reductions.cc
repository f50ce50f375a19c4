// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/reductions.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "lib/store/rules/rule_threw.h"
#include "lib/worker/calls/operation.h"
#include "lib/worker/core/reply_errors.h"

namespace weir {
namespace {

PositionSet positions_of(const TableInfo& table, const std::optional<KeyRange>& keys) {
    if (!keys || !table.positions.is_dense()) return PositionSet::whole_ring();
    const uint64_t last = keys->end - 1;
    const PositionRange range{table.positions.position(keys->begin),
                              last + 1 == table.positions.key_count()
                                  ? ~uint64_t{0}
                                  : table.positions.position(last + 1) - 1};
    return PositionSet(std::span(&range, 1));
}

PositionSet both(const PositionSet& a, const PositionSet& b) {
    return a.without(a.without(b));
}

}  // namespace

Reductions::CallId Reductions::start(Question question, uint64_t deadline_ns,
                                     std::span<const TaskId> after) {
    question.table = &tables_.remember(*question.table);
    if (!after.empty() || tasks_.has_parent()) {
        CallTasks::Waiting waiting;
        waiting.after.assign(after.begin(), after.end());
        waiting.start = [this, question](CallId id, Call& call) -> Status {
            WEIR_ASSIGN(const uint64_t left_ns, control_.remaining_ns(call));
            return begin(id, call, question, left_ns);
        };
        return control_.add_task(deadline_ns, std::move(waiting), standing_.check_ready());
    }
    CallId id = 0;
    Call* const call = calls_.begin(id);
    if (call == nullptr) return 0;
    if (Status begun = begin(id, *call, question, deadline_ns); !begun) {
        calls_.never_started(id, *call);
        calls_.drop(id);
        return calls_.failed(std::move(begun));
    }
    return id;
}

/// The call stays open until its reduction ends, or it does by itself.
Status Reductions::begin(CallId id, Call& call, const Question& question, uint64_t deadline_ns) {
    WEIR_TRY(standing_.check_ready());
    WEIR_TRY(tables_.check_dropped(question.table->schema));
    CallResult result;
    WEIR_TRY(safely(question, [&]() -> Status {
        question.function->begin(question.call.numbers, result);
        return {};
    }));
    result.first_iteration = ~uint64_t{0};
    call.table = question.table->schema.id;
    call.is_push = false;
    ++call.open_requests;
    calls_.started(id, call, [](CallId) { return false; });
    sender_.send_off(call, deadline_ns == 0 ? CallOptions::kLongNs : deadline_ns);
    Reduction reduction{.call = id,
                        .question = question,
                        .has_deadline = deadline_ns != 0,
                        .left = positions_of(*question.table, question.keys),
                        .walks = {},
                        .result = std::move(result)};
    open_.push_back(std::move(reduction));
    return {};
}

/// What code of the program throws, as results begin and are put together, ends the call.
template <class Work>
Status Reductions::safely(const Question& question, const Work& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {
        return Error(Errc::kException,
                     fmt::format("function '{}' threw as results were put together: {}",
                                 question.function->name, text_of_exception()));
    }
}

size_t Reductions::poll() {
    size_t done = 0;
    for (size_t i = 0; i < open_.size();) {
        if (poll(open_[i], done)) {
            ++i;
            continue;
        }
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
        ++done;
    }
    return done;
}

/// False: it is over.
bool Reductions::poll(Reduction& reduction, size_t& done) {
    Call* call = calls_.find(reduction.call);
    const bool is_wanted = call != nullptr && !call->has_ended() && !call->is_unwatched();
    Status status;
    if (is_wanted) status = safely(reduction.question, [&] { return go_on(reduction, done); });
    if (is_wanted && status && (!reduction.walks.empty() || !reduction.left.ranges().empty()))
        return true;
    for (const Walk& walk : reduction.walks) {
        if (walk.asked != 0) calls_.drop(walk.asked);
    }
    call = calls_.find(reduction.call);  // others were begun
    if (call == nullptr) return false;
    if (is_wanted && status) {
        CallResult& result = reduction.result;
        result.first_iteration = std::min(result.first_iteration, result.last_iteration);
        if (reduction.question.result != nullptr) *reduction.question.result = std::move(result);
    }
    if (!is_wanted) status = Error(Errc::kCancelled, "nobody asked for its result any more");
    if (!status) call->note_error(std::move(status).error());
    calls_.request_ended(reduction.call, [](CallId) { return false; });
    return false;
}

Status Reductions::go_on(Reduction& reduction, size_t& done) {
    for (size_t i = 0; i < reduction.walks.size();) {
        Walk& walk = reduction.walks[i];
        if (!calls_.done(walk.asked)) {
            ++i;
            continue;
        }
        ++done;
        WEIR_TRY(take(reduction, walk));
        if (has_moved(walk)) give_up(reduction, walk);
        if (!walk.positions.ranges().empty()) {
            WEIR_TRY(ask(reduction, walk));
            ++i;
        } else {
            reduction.walks.erase(reduction.walks.begin() + static_cast<ptrdiff_t>(i));
        }
    }
    return begin_walks(reduction);
}

/// Whether its shard has other positions now: it would refuse what is asked next.
bool Reductions::has_moved(const Walk& walk) const {
    const ViewShard* const shard = peers_.view().shard(walk.shard);
    return shard == nullptr || shard->since > walk.epoch;
}

/// What it has found counts for nothing.
void Reductions::give_up(Reduction& reduction, Walk& walk) {
    reduction.left = reduction.left.with(std::exchange(walk.positions, PositionSet()));
}

/// The reply to what was asked last. A walk without positions is over.
Status Reductions::take(Reduction& reduction, Walk& walk) {
    Result<Control::Scanned> scanned = control_.take_scan(std::exchange(walk.asked, 0));
    if (scanned.code() == Errc::kStaleEpoch) {
        give_up(reduction, walk);
        return {};
    }
    if (!scanned) return explained(reduction, walk, scanned.error());
    walk.memory = std::move(scanned->memory);
    const Question& question = reduction.question;
    const std::optional<ScanReply> reply = ScanReply::decode(scanned->body);
    const auto malformed = [&] {
        return explained(reduction, walk, Error(Errc::kProtocol, "it sent a malformed result"));
    };
    if (!reply || reply->row_count > walk.memory.bytes()) return malformed();
    std::optional<FunctionResult> some = decode_result({walk.memory.data(), reply->row_count});
    if (!some) return malformed();
    CallResult found;
    static_cast<FunctionResult&>(found) = *std::move(some);
    found.first_iteration = found.last_iteration = reply->shown;
    if (!question.function->may_be_result(question.call.numbers, found)) return malformed();
    question.function->put_together(walk.found, found, question.call.numbers);
    walk.found.first_iteration = std::min(walk.found.first_iteration, found.first_iteration);
    walk.found.last_iteration = std::max(walk.found.last_iteration, found.last_iteration);
    walk.begins = false;
    walk.by_row = (reply->flags & ScanReply::kByRow) != 0;
    walk.cursor = reply->cursor;
    if ((reply->flags & ScanReply::kAtEnd) == 0) return {};
    CallResult& result = reduction.result;
    question.function->put_together(result, walk.found, question.call.numbers);
    result.first_iteration = std::min(result.first_iteration, walk.found.first_iteration);
    result.last_iteration = std::max(result.last_iteration, walk.found.last_iteration);
    walk.positions = PositionSet();
    return {};
}

/// What no walk has goes to one of the shard that has it.
Status Reductions::begin_walks(Reduction& reduction) {
    if (reduction.left.ranges().empty()) return {};
    const View& view = peers_.view();
    const Question& question = reduction.question;
    for (const ViewShard& shard : view.shards()) {
        const bool has_walk = std::ranges::any_of(
            reduction.walks, [&](const Walk& walk) { return walk.shard == shard.number; });
        if (has_walk) continue;
        const PositionSet owned = both(reduction.left, view.owned(shard.number));
        const size_t count = std::min(owned.ranges().size(), ScanMessage::kRangesMax);
        if (count == 0) continue;
        Walk walk;
        walk.shard = shard.number;
        walk.epoch = view.epoch();
        walk.positions = PositionSet(owned.ranges().first(count));
        question.function->begin(question.call.numbers, walk.found);
        walk.found.first_iteration = ~uint64_t{0};
        walk.memory = Block(memory_, question.function->result_bytes_max(question.call.numbers));
        if (!walk.memory) {
            return Error(
                Errc::kNoMemory,
                fmt::format(
                    "table '{}': no registered memory for what '{}' finds; the log of this process "
                    "names the limit that was reached",
                    question.table->schema.name, question.function->name));
        }
        reduction.left = reduction.left.without(walk.positions);
        WEIR_TRY(ask(reduction, walk));
        reduction.walks.push_back(std::move(walk));
    }
    if (!reduction.walks.empty() || reduction.left.ranges().empty()) return {};
    return Error(Errc::kPeerLost,
                 fmt::format("table '{}': a part of it is lost: no server has a copy of the keys "
                             "at position {:#x} of "
                             "the ring",
                             question.table->schema.name, reduction.left.ranges().front().first));
}

Status Reductions::ask(const Reduction& reduction, Walk& walk) {
    const Question& question = reduction.question;
    const TableSchema& schema = question.table->schema;
    ScanMessage message;
    message.epoch = walk.epoch;
    message.table = schema.id;
    message.width = schema.width;
    message.value_type = static_cast<uint8_t>(schema.value_type);
    message.begins = walk.begins;
    message.by_row = walk.by_row;
    message.cursor = walk.cursor;
    if (question.keys) {
        message.first_key = question.keys->begin;
        message.last_key = question.keys->end - 1;
    }
    message.call = question.call;
    message.positions.assign(walk.positions.ranges().begin(), walk.positions.ranges().end());
    const Call* const call = calls_.find(reduction.call);
    WEIR_CHECK(call != nullptr);
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns >= call->deadline_ns) {
        return Error(Errc::kDeadline,
                     fmt::format("table '{}': function '{}' had not read all rows at its deadline",
                                 schema.name, question.function->name));
    }
    const uint64_t left_ns = reduction.has_deadline ? call->deadline_ns - now_ns : 0;
    walk.asked = control_.scan(walk.shard, message, std::move(walk.memory), left_ns);
    if (walk.asked != 0) return {};
    return Error(Errc::kBusy, "too many calls are open; wait for some of them");
}

Error Reductions::explained(const Reduction& reduction, const Walk& walk, const Error& why) const {
    const std::string& who = peers_[walk.shard].name;
    const std::string& function = reduction.question.function->name;
    std::string text = why.text();
    if (why.code() == Errc::kUnavailable) text = ReplyErrors::unknown_function(who, function);
    if (why.code() == Errc::kNotFound)
        text = fmt::format("at {}: it, or a table that the function reads, was dropped by a worker",
                           who);
    if (why.code() == Errc::kOutOfRange)
        text = fmt::format("it has found a result of another size than it says, at {}", who);
    if (why.code() == Errc::kProtocol) text = fmt::format("{}: {}", who, text);
    return {why.code(), fmt::format("table '{}': function '{}': {}",
                                    reduction.question.table->schema.name, function, text)};
}

}  // namespace weir

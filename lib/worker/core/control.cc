// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/control.h"

#include <string>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/printable.h"
#include "lib/store/schema_codec.h"
#include "lib/worker/calls/operation.h"

namespace weir {

using wire::Kind;

namespace {

Status check_table_name(std::string_view name) {
    const bool is_short = !name.empty() && name.size() <= TableMessage::kNameBytesMax;
    if (is_short && is_printable_name(name)) return {};
    if (is_short) {
        return Error(Errc::kInvalidArgument,
                     "the name of a table has a control character; choose one of letters, digits "
                     "and signs");
    }
    return Error(Errc::kInvalidArgument,
                 fmt::format("the name of a table must have 1 to {} bytes, not {}",
                             TableMessage::kNameBytesMax, name.size()));
}

}  // namespace

Control::CallId Control::ask(Question question, uint64_t deadline_ns) {
    if (Status status = standing_.check_ready(); !status) return calls_.failed(std::move(status));
    CallId call_id = 0;
    if (!requests_.has_room(1)) return calls_.failed(Error(Errc::kBusy, kTooManyRequests));
    Call* const call = calls_.begin(call_id);
    if (call == nullptr) return 0;
    add_request(call_id, *call, std::move(question));
    calls_.started(call_id, *call, [this](CallId of) { return requests_.call_needs_caller(of); });
    sender_.send_off(*call, deadline_ns);
    return call_id;
}

void Control::add_request(CallId call_id, Call& call, Question question) {
    uint64_t id = 0;
    ClientRequest* const request =
        requests_.add(call_id, call, question.peer, id, [&](Content& content) {
            content.kind = question.kind;
            content.first = question.first;
            content.epoch = question.epoch;
            const auto body =
                std::make_shared<const std::vector<std::byte>>(std::move(question.body));
            content.values = *body;
            content.keeps = body;
            if (content.is_scan())
                content.out_row_bytes = static_cast<uint32_t>(question.memory.bytes());
        });
    WEIR_CHECK(request != nullptr);
    request->attempt.out_copy = std::move(question.memory);
    sender_.submit(id, *request, call);
}

Control::CallId Control::create_table(TableSchema schema) {
    Status wrong = check_table_name(schema.name);
    // Checked here too: a shard could not describe the mistake as well.
    if (wrong) wrong = name_code(schema, rules_);
    if (!wrong) return calls_.failed(std::move(wrong));
    return ask({.kind = Kind::kCreateTable,
                .body = TableMessage{0, schema.name, encode_schema(schema)}.encode()});
}

Control::CallId Control::ask_about_table(Kind kind, std::string_view table_name) {
    if (Status wrong = check_table_name(table_name); !wrong) return calls_.failed(std::move(wrong));
    return ask({.kind = kind, .body = TableMessage{0, std::string(table_name), {}}.encode()});
}

Status Control::check_barrier() const {
    if (!standing_.is_ready()) return {};
    for (const Peer& peer : peers_.shards()) {
        if (peer.state() != Peer::State::kLost) continue;
        const Error why(Errc::kPeerLost,
                        fmt::format("{} is gone: no barrier can be reached", peer.name));
        return peers_.with_cause(why, peer);
    }
    return {};
}

/// Who waits for other workers does so for as long as they compute, unless the caller has said how long.
Control::CallId Control::barrier(uint64_t deadline_ns, std::span<const TaskId> after) {
    if (deadline_ns == CallOptions::kOver) {
        return calls_.failed(Error(Errc::kDeadline,
                                   "the time for the barrier was over before the call began: this "
                                   "worker did not come to it"));
    }
    if (after.empty()) {
        if (Status status = check_barrier(); !status) return calls_.failed(std::move(status));
        return ask({.kind = Kind::kBarrier}, deadline_ns == 0 ? CallOptions::kLongNs : deadline_ns);
    }
    CallTasks::Waiting waiting;
    waiting.after.assign(after.begin(), after.end());
    waiting.start = [this](CallId id, Call& call) -> Status {
        WEIR_ASSIGN(const uint64_t left_ns, remaining_ns(call));
        WEIR_TRY(standing_.check_ready());
        WEIR_TRY(check_barrier());
        if (!requests_.has_room(1)) return Error(Errc::kBusy, kTooManyRequests);
        add_request(id, call, {.kind = Kind::kBarrier});
        calls_.started(id, call, [this](CallId of) { return requests_.call_needs_caller(of); });
        sender_.send_off(call, left_ns == 0 ? CallOptions::kLongNs : left_ns);
        return {};
    };
    return add_task(deadline_ns, std::move(waiting), standing_.check_ready());
}

Control::CallId Control::wait_for(uint64_t deadline_ns, std::span<const TaskId> after) {
    CallTasks::Waiting waiting;
    waiting.after.assign(after.begin(), after.end());
    waiting.start = [this](CallId id, Call& call) -> Status {
        calls_.started(id, call, [](CallId) { return false; });
        return {};
    };
    return add_task(deadline_ns, std::move(waiting), standing_.check_ready());
}

Control::CallId Control::add_task(uint64_t deadline_ns, CallTasks::Waiting waiting, Status wrong) {
    CallId id = 0;
    Call* const call = calls_.begin(id);
    if (call == nullptr) return 0;
    if (deadline_ns != 0) call->deadline_ns = clock_.now_ns() + deadline_ns;
    deadlines_.look_at(call->deadline_ns);
    tasks_.add(id, *call, std::move(waiting), std::move(wrong));
    return id;
}

Result<uint64_t> Control::remaining_ns(const Call& call) const {
    if (call.deadline_ns == Call::kNoDeadline) return 0;
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < call.deadline_ns) return call.deadline_ns - now_ns;
    return Error(Errc::kDeadline,
                 fmt::format("task {} of client {} could start only after its deadline, which "
                             "counts from when the call was made",
                             call.task, standing_.options().worker));
}

Control::CallId Control::leave(const Status& outcome, uint64_t deadline_ns) {
    if (!outcome) standing_.give_up();
    // Shards then answer our requests that wait for other workers, and stop waiting for our
    // parts.
    for (uint32_t i = 0; !outcome && standing_.is_ready() && i < peers_.shard_count(); ++i) {
        if (!peers_[i].is_open()) continue;
        calls_.drop(ask({.peer = i, .kind = Kind::kLeave}, deadline_ns));
    }
    LeaveMessage message{outcome.code(), outcome ? std::string() : outcome.error().message(), {}};
    message.withdrawn = requests_.open_iterations();
    return ask({.kind = Kind::kLeave, .body = message.encode()}, deadline_ns);
}

Control::CallId Control::checkpoint(uint64_t deadline_ns) {
    if (deadline_ns == CallOptions::kOver) {
        return calls_.failed(Error(Errc::kDeadline,
                                   "the time for the checkpoint was over before the call began: "
                                   "none was asked for"));
    }
    return ask({.kind = Kind::kCheckpoint}, deadline_ns);
}

Control::CallId Control::scan(uint32_t shard, const ScanMessage& message, Block memory,
                              uint64_t deadline_ns) {
    if (standing_.is_ready() && peers_.view().shard(shard) == nullptr)
        return calls_.failed(Error(Errc::kStaleEpoch, "the shard has left the job"));
    return ask({.peer = shard,
                .kind = Kind::kScan,
                .body = message.encode(),
                .epoch = static_cast<uint32_t>(message.epoch),
                .memory = std::move(memory)},
               deadline_ns);
}

void Control::withdraw_from_manager() {
    std::vector<uint64_t> ended;
    requests_.for_each([&](uint64_t id, ClientRequest& request) {
        const Kind kind = request.content().kind;
        const bool may_wait = kind == Kind::kBarrier || kind == Kind::kWork;
        if (!may_wait || request.state() != ClientRequest::State::kSent) return;
        const Call* const call = calls_.find(request.call);
        if (call != nullptr && !call->has_ended()) return;
        request.enter(ClientRequest::State::kWithdrawn);
        ended.push_back(id);
    });
    for (const uint64_t id : ended)
        calls_.drop(ask({.kind = Kind::kWithdraw, .first = id}));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a reply to the end of a request: delivers pulled values, sends a list in full if the
/// shard has forgotten it, and turns a shard's refusal into an error text that says what to do.

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/manager_names.h"
#include "lib/wire/fault.h"
#include "lib/worker/calls/transient.h"
#include "lib/worker/client_core.h"

namespace weir {

using wire::Kind;

void ClientCore::receive(transport::ConnectionId connection, std::span<const std::byte> message) {
    wire::Frame frame;
    const Peer& manager = peers_.back();
    if (wire::decode(message, frame) != Errc::kOk) {
        const std::string_view fault = wire::fault_of(message);
        if (connection == manager.connection && phase_ < Phase::kReady)
            fail(Error(Errc::kProtocol, fmt::format("the manager sent {}", fault)));
        return refuse(connection, fault);
    }
    if (to_manager_.owns(connection)) {
        const ManagerLink::Taken taken = to_manager_.take(frame);
        if (taken == ManagerLink::Taken::kOwn) return;
        if (taken == ManagerLink::Taken::kWrong) return refuse(connection, "a frame out of order");
    }
    const bool from_manager =
        connection == manager.connection && manager.state != Peer::State::kLost;
    switch (frame.header.kind) {
        case Kind::kReply: {
            Request* const request = requests_.find(frame.header.request);
            if (request == nullptr) return;
            if (peers_[request->peer].connection != connection) {
                if (is_given_up(connection)) return;  // an answer that was on its way
                break;
            }
            if (request->state == Request::State::kAnswered) return;  // a second answer
            return answered(frame.header.request, *request, frame);
        }
        case Kind::kView:
            if (from_manager) return receive_view(frame.values);
            break;
        case Kind::kAdmit:
            if (from_manager) return admitted(frame.values);
            break;
        case Kind::kLeave:
            if (from_manager)
                return shard_died(frame.header.first, decode_text(frame.values).value_or(""));
            break;
        case Kind::kShutdown:
            if (from_manager && frame.header.first == wire::kAsksToStop) is_stopping_ = true;
            if (from_manager && frame.header.status != Errc::kOk) {
                job_failed(Error(frame.header.status,
                                 decode_text(frame.values).value_or("the manager ended the job")));
            }
            return;
        default: break;
    }
    refuse(connection, "a frame that workers do not take, or from the wrong peer");
}

/// Whether no peer has this connection (any more).
bool ClientCore::is_given_up(transport::ConnectionId connection) const noexcept {
    return std::ranges::none_of(peers_,
                                [&](const Peer& peer) { return peer.connection == connection; });
}

void ClientCore::values_written(transport::ConnectionId connection, uint32_t immediate) {
    uint64_t id = 0;
    Request* const request = requests_.find_low(immediate, id);
    if (request == nullptr) return;
    const wire::FrameHeader& asked = request->header;
    if (peers_[request->peer].connection != connection || asked.kind != Kind::kPull ||
        (asked.flags & wire::kValuesRemote) == 0 || asked.iteration > 0) {
        return refuse(connection, "an immediate for a request that expects none from it");
    }
    if (Call* const call = calls_.find(request->call)) note_shown(*call, *request, 0);
    pulled(id, *request);
}

void ClientCore::refuse(transport::ConnectionId connection, std::string_view why) {
    log(LogLevel::kWarning, "{}: closing the connection to {}: it sent {}", name(),
        endpoint_->peer_name(connection), why);
    for (Peer& peer : peers_) {
        if (peer.connection == connection) peer.fault = Errc::kProtocol;
    }
    endpoint_->close(connection);  // its requests end when it is closed
}

void ClientCore::answered(uint64_t id, Request& request, const wire::Frame& frame) {
    const Errc status = frame.header.status;
    const Kind kind = request.header.kind;
    request.is_in_doubt = false;  // the hello of this connection has ended all older ones
    if ((wire::is_request(kind) || kind == Kind::kScan) && is_sent_again(id, request, status))
        return;
    const bool is_about_table = kind == Kind::kCreateTable || kind == Kind::kOpenTable;
    if (status == Errc::kPeerLost && !gave_up_ && !is_about_table) {
        request.state = Request::State::kAnswered;
        return held_failures_.hold(id, error_of(request, frame), clock_.now_ns());
    }
    Call* const call = calls_.find(request.call);
    if (status != Errc::kOk) {
        if (call != nullptr) call->note_error(error_of(request, frame));
    } else if (kind == Kind::kPull) {
        if (call != nullptr) note_shown(*call, request, frame.header.first);
        if ((request.header.flags & wire::kValuesInline) == 0) return pulled(id, request);
        if (frame.values.size() == request.into.size()) {
            deliver(request, frame.values);
        } else if (call != nullptr) {
            call->note_error(
                Error(Errc::kProtocol,
                      fmt::format("{} sent {} bytes of values, not {}", peers_[request.peer].name,
                                  frame.values.size(), request.into.size())));
        }
    } else if (kind == Kind::kDropTable) {
        note_dropped(frame);
    } else if (kind != Kind::kPush && call != nullptr) {
        call->body.assign(frame.values.begin(), frame.values.end());
    }
    if (status == Errc::kOk && request.piece != nullptr) {
        request.piece->succeeded((request.header.flags & wire::kKeysKnown) != 0);
    }
    const bool left = kind == Kind::kLeave && request.peer == manager();
    if (status == Errc::kOk && left && phase_ == Phase::kReady) {
        phase_ = Phase::kLeft;
        failure_ = Error(Errc::kUnavailable, "this client has left its job");
        tasks_.cancel_waiting(failure_.error());
    }
    end_request(id, request);
}

/// `shown`: the iteration that the values of a pull show; 0: none.
void ClientCore::note_shown(Call& call, const Request& request, uint64_t shown) {
    const uint64_t asked = request.header.iteration;  // 0: any will do
    call.shown = std::min(call.shown, shown);
    if (shown >= asked) return;
    call.note_error(Error(Errc::kProtocol,
                          fmt::format("{} sent values of iteration {}, not of {} or a later one",
                                      peers_[request.peer].name, shown, asked)));
}

/// Takes a push out of the order of its table; if the answer is transient, has the request sent
/// again.
bool ClientCore::is_sent_again(uint64_t id, Request& request, Errc answer) {
    const wire::FrameHeader& header = request.header;
    if (header.kind == Kind::kPush && (header.flags & wire::kAggregate) == 0) {
        peers_[request.peer].order(header.table).ended(request.send_number, answer == Errc::kOk);
    }
    const std::optional<Transient> why = transient(answer);
    if (!why) return false;
    switch (*why) {
        case Transient::kAgain: break;
        case Transient::kUnknownList:
            if (request.piece == nullptr) return false;  // it came with its keys
            request.piece->was_unknown();
            break;
        case Transient::kBusy: send_again(id, request, true); return true;
        case Transient::kStaleEpoch: request.state = Request::State::kStale; return true;
    }
    send_again(id, request, false);
    return true;
}

size_t ClientCore::end_held_failures() {
    const std::vector<HeldFailures::Failure> due = held_failures_.take_due(clock_.now_ns());
    for (const auto& [id, error] : due) {
        Request* const request = requests_.find(id);
        // closed() has taken care of the requests of a shard that was lost meanwhile.
        if (request == nullptr || request->state != Request::State::kAnswered) continue;
        if (Call* const call = calls_.find(request->call)) call->note_error(error);
        end_request(id, *request);
    }
    return due.size();
}

void ClientCore::pulled(uint64_t id, Request& request) {
    request.is_in_doubt = false;
    if (request.staged_values) deliver(request, request.into);
    if (request.piece != nullptr) {
        request.piece->succeeded((request.header.flags & wire::kKeysKnown) != 0);
    }
    end_request(id, request);
}

void ClientCore::deliver(Request& request, std::span<const std::byte> values) {
    const Call* const call = calls_.find(request.call);
    if (call == nullptr || call->has_ended()) return;  // too late: the caller has its memory back
    counters_.bytes_copied += values.size();
    if (request.order.empty()) {
        std::byte* const out =
            request.callers_out.empty() ? request.into.data() : request.callers_out.data();
        if (!values.empty()) std::memcpy(out, values.data(), values.size());
        return;
    }
    const size_t row_bytes = request.row_bytes;
    const std::byte* from = values.data();
    for (const uint32_t i : request.order) {
        std::memcpy(request.callers_out.data() + i * row_bytes, from, row_bytes);
        from += row_bytes;
    }
}

/// An iteration that failed at a shard fails for all workers. Each of them gets this error.
Error ClientCore::failed_iteration(const Request& request, const wire::Frame& frame) const {
    const wire::FrameHeader& header = frame.header;
    const std::string& shard = peers_[request.peer].name;
    const uint64_t iteration = request.header.iteration;
    const std::string worker = fmt::format("worker {}{}", header.first,
                                           header.first == options_.worker ? ", this one" : "");
    switch (header.status) {
        case Errc::kPeerLost:
            if (gave_up_ && header.first == options_.worker) {
                return {
                    Errc::kUnavailable,
                    fmt::format("this worker gave up before iteration {} was complete", iteration)};
            }
            return {header.status,
                    fmt::format("worker {} died or gave up before its part of iteration {} was in "
                                "(reported by {}){}",
                                header.first, iteration, shard,
                                start_again_text(options_.checkpoint_folder))};
        case Errc::kReassigned: return reassigned();
        case Errc::kNotFound:
            return {header.status,
                    fmt::format("iteration {} failed at {}: a worker has dropped the table",
                                iteration, shard)};
        case Errc::kNoMemory:
            return {header.status,
                    fmt::format("iteration {} failed at {}: it has no memory left for the part of "
                                "{}; use more servers, or see in its log which limit was reached",
                                iteration, shard, worker)};
        case Errc::kDifferentArguments:
            return {header.status,
                    fmt::format("iteration {} failed at {}: workers {} and {} pushed different "
                                "arguments of the rule; all workers push the same in an iteration",
                                iteration, shard, header.first >> 32,
                                static_cast<uint32_t>(header.first))};
        case Errc::kCancelled:
            return {
                header.status,
                fmt::format(
                    "iteration {} failed at {}: {} withdrew its part; see the error of that worker",
                    iteration, shard, worker)};
        default:
            return {header.status, fmt::format("iteration {} failed at {}: the part of {}: {}",
                                               iteration, shard, worker, to_string(header.status))};
    }
}

/// What is about a table names it; that a worker or server is lost is not.
Error ClientCore::error_of(const Request& request, const wire::Frame& frame) const {
    Error error = describe(request, frame);
    const bool is_of_table = wire::is_request(request.header.kind) &&
                             error.code() != Errc::kPeerLost && error.code() != Errc::kReassigned &&
                             !was_stopped(error.code());
    if (!is_of_table) return error;
    return {error.code(), fmt::format("{}: {}", table_text(request.header.table), error.text())};
}

Error ClientCore::describe(const Request& request, const wire::Frame& frame) const {
    const wire::FrameHeader& header = frame.header;
    const std::string& who = peers_[request.peer].name;
    if (request.header.kind == Kind::kCreateTable || request.header.kind == Kind::kOpenTable) {
        const std::string why = decode_text(frame.values).value_or("");
        if (!why.empty()) return Error(header.status, "the table cannot be made: " + why);
    }
    if (request.header.kind == Kind::kDropTable)
        return Error(header.status, decode_text(frame.values).value_or("it cannot be dropped"));
    if (request.header.kind == Kind::kBarrier) {
        const std::string why = decode_text(frame.values).value_or("");
        if (was_stopped(header.status)) return Error(header.status, why);
        return Error(header.status,
                     fmt::format("the barrier cannot be reached: {}",
                                 why.empty() ? std::string(to_string(header.status)) : why));
    }
    if (request.header.kind == Kind::kCheckpoint)
        return Error(header.status, "there is no new checkpoint: " +
                                        decode_text(frame.values).value_or("(no reason given)"));
    if (request.header.kind == Kind::kWork)
        return Error(header.status, decode_text(frame.values).value_or("there is no work"));
    if ((header.flags & wire::kIteration) != 0) return failed_iteration(request, frame);
    switch (header.status) {
        case Errc::kStaleEpoch:
            return Error(Errc::kStaleEpoch, fmt::format("{} is at epoch {}, this client at {}", who,
                                                        header.first, request.header.epoch));
        case Errc::kNotFound:
            return Error(Errc::kNotFound,
                         fmt::format("{} does not have it any more: a worker has dropped it", who));
        case Errc::kNoMemory:
            return Error(
                Errc::kNoMemory,
                fmt::format("{} has no memory left for more keys; use more servers, or see in its "
                            "log which limit was reached",
                            who));
        case Errc::kUnavailable:
            return Error(
                Errc::kUnavailable,
                fmt::format("{} may not access private memory of this process (it is in another "
                            "PID namespace, or /proc/sys/kernel/yama/ptrace_scope); use "
                            "Client::make_buffer for what "
                            "is pushed and pulled",
                            who));
        case Errc::kInvalidArgument:
            if (request.header.iteration == 0) break;
            return Error(header.status,
                         fmt::format("{} refused iteration {}: the last one that it has seen of "
                                     "this worker is {}",
                                     who, request.header.iteration, header.first));
        default: break;
    }
    return Error(header.status,
                 fmt::format("{} refused the request: {}", who, to_string(header.status)));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/reply_errors.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "lib/node/manager_names.h"
#include "lib/store/rules/collective.h"
#include "lib/wire/messages.h"
#include "lib/wire/work_share.h"

namespace weir {

using wire::Kind;

Error ReplyErrors::error_of(const ClientRequest& request, const wire::Frame& reply) const {
    Error error = describe(request, reply);
    const Content& content = request.content();
    const bool is_of_table = content.is_piece() && error.code() != Errc::kPeerLost &&
                             error.code() != Errc::kReassigned && !was_stopped(error.code());
    if (!is_of_table) return error;
    if (error.code() == Errc::kDifferentArguments && is_collective(request)) return error;
    return {error.code(), fmt::format("{}: {}", tables_.text(content.table), error.text())};
}

/// Whether it is part of an allreduce or broadcast, of whose table the user knows nothing.
bool ReplyErrors::is_collective(const ClientRequest& request) const {
    const TableSchema* const table = tables_.find(request.content().table);
    return table != nullptr && table->name.starts_with(rules::kWeirsOwn);
}

Error ReplyErrors::describe(const ClientRequest& request, const wire::Frame& reply) const {
    const Errc status = reply.header.status;
    const auto reason = [&](std::string_view otherwise) {
        return decode_text(reply.values).value_or(std::string(otherwise));
    };
    switch (request.content().kind) {
        case Kind::kCreateTable:
        case Kind::kOpenTable:
            if (const std::string why = reason(""); !why.empty())
                return {status, "the table cannot be made: " + why};
            break;
        case Kind::kDropTable: return {status, reason("it cannot be dropped")};
        case Kind::kBarrier: {
            const std::string why = reason("");
            if (was_stopped(status)) return {status, why};
            return {status, fmt::format("the barrier cannot be reached: {}",
                                        why.empty() ? std::string(to_string(status)) : why)};
        }
        case Kind::kCheckpoint:
            return {status, "there is no new checkpoint: " + reason("(no reason given)")};
        case Kind::kWork: return {status, reason("there is no work")};
        default: break;
    }
    const bool is_iteration = (reply.header.flags & wire::kIteration) != 0;
    return is_iteration ? failed_iteration(request, reply) : describe_piece(request, reply);
}

/// An iteration that failed at a shard fails for all workers. Each of them gets this error.
Error ReplyErrors::failed_iteration(const ClientRequest& request, const wire::Frame& reply) const {
    const wire::FrameHeader& header = reply.header;
    const std::string& shard = peers_[request.peer].name;
    const uint64_t iteration = request.content().iteration;
    const std::string worker =
        fmt::format("worker {}{}", header.first,
                    header.first == standing_.options().worker ? ", this one" : "");
    switch (header.status) {
        case Errc::kPeerLost:
            if (standing_.gave_up() && header.first == standing_.options().worker) {
                return {
                    Errc::kUnavailable,
                    fmt::format("this worker gave up before iteration {} was complete", iteration)};
            }
            return {
                header.status,
                fmt::format("worker {} died or gave up before {} (reported by {}){}", header.first,
                            is_collective(request)
                                ? "it called allreduce or broadcast as often as this one"
                                : fmt::format("its part of iteration {} was in", iteration),
                            shard, start_again_text(standing_.options().checkpoint_folder))};
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
        case Errc::kDifferentArguments: {
            const uint64_t one = header.first >> 32;
            const auto other = static_cast<uint32_t>(header.first);
            if (is_collective(request)) {
                return {header.status,
                        fmt::format("workers {} and {} called different operations, gave another "
                                    "number or type of values, or one of them a NaN or an "
                                    "infinity; all workers call the same ones in the same order",
                                    one, other)};
            }
            return {header.status,
                    fmt::format("iteration {} failed at {}: workers {} and {} pushed different "
                                "arguments of the rule; all workers push the same in an iteration",
                                iteration, shard, one, other)};
        }
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

std::string ReplyErrors::unknown_function(std::string_view who, std::string_view function) {
    return fmt::format(
        "{} has no function '{}' of this version; register it (`add_rules` of JobOptions and "
        "JoinOptions), or load it (`plugins`, WEIR_PLUGINS), in all processes that have servers",
        who, function);
}

Error ReplyErrors::refused_call(const FunctionEntry& function, std::string_view who, Errc status) {
    if (status == Errc::kUnavailable) return {status, unknown_function(who, function.name)};
    const std::string_view why =
        status == Errc::kNotFound
            ? "it, or a table that the function reads, was dropped by a worker"
        : status == Errc::kNoMemory
            ? "no memory is left for more keys; use more servers, or see in its log which "
              "limit was reached"
            : to_string(status);
    return {status, fmt::format("function '{}' at {}: {}", function.name, who, why)};
}

/// Also of the rest, that have no texts of their own.
Error ReplyErrors::describe_piece(const ClientRequest& request, const wire::Frame& reply) const {
    const wire::FrameHeader& header = reply.header;
    const std::string& who = peers_[request.peer].name;
    if (const Content& content = request.content(); content.calls())
        return refused_call(*content.extras->function, who, header.status);
    switch (header.status) {
        case Errc::kStaleEpoch:
            return Error(Errc::kStaleEpoch, fmt::format("{} is at epoch {}, this client at {}", who,
                                                        header.first, request.content().epoch));
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
            if (request.content().iteration == 0) break;
            return Error(header.status,
                         fmt::format("{} refused iteration {}: the last one that it has seen of "
                                     "this worker is {}",
                                     who, request.content().iteration, header.first));
        default: break;
    }
    return Error(header.status,
                 fmt::format("{} refused the request: {}", who, to_string(header.status)));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/running_job.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include "lib/apps/lr/client_exchange.h"
#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/job/operator_connection.h"
#include "lib/store/plugins/plugin.h"
#include "tools/weir/checkpoint_signal.h"
#include "tools/weir/command.h"
#include "tools/weir/jobs/key_values.h"
#include "tools/weir/jobs/status_report.h"
#include "tools/weir/jobs/status_watch.h"
#include "tools/weir/shared_flags.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLookMs = 200;  // between two looks at a server that leaves

/// Whether the answer to a question says that the job is over, or its manager is gone with it.
bool has_ended(Errc answer) {
    return answer == Errc::kUnavailable || answer == Errc::kTerminated ||
           answer == Errc::kInterrupted || answer == Errc::kPeerLost;
}

/// How a server ended that is in the view no more.
Status end_of(const JobStatus& status, uint32_t number) {
    const auto dead = std::ranges::find(status.dead, number, &JobStatus::DeadServer::number);
    if (dead == status.dead.end()) return {};
    return Error(Errc::kPeerLost,
                 fmt::format("server {} (rank {}) died, or the network to it is cut, before it had "
                             "left; nothing is lost with it, because others had taken over all "
                             "that it held",
                             number, dead->rank));
}

/// Waits until a server that leaves has ended.
Status wait_until_left(Operator& manager, uint32_t number) {
    for (;;) {
        const Result<JobStatus> status = manager.status();
        // The job has ended in order, and the server with it.
        if (!status && status.code() == Errc::kUnavailable) return {};
        if (!status) return status.error();
        if (status->share_lost > 0)
            return manager.leave(number);  // answered with what has happened
        const auto server = std::ranges::find(status->servers, number, &JobStatus::Server::number);
        if (server == status->servers.end()) return end_of(*status, number);
        if (!server->is_leaving) {
            return Error(Errc::kUnavailable,
                         fmt::format("server {} stays: the servers that were to take over what it "
                                     "holds are gone, or have no memory for it or copies of it "
                                     "already; let one join, and ask again",
                                     number));
        }
        (void)::poll(nullptr, 0, kLookMs);
    }
}

Status leave(const LeaveFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    WEIR_TRY(connection.manager->leave(flags.server));
    return wait_until_left(*connection.manager, flags.server);
}

/// Waits until the job is over. How it ended is not an error of this command. Returns whether it ended
/// within --grace.
Result<bool> stop(const StopFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    Operator& manager = *connection.manager;
    WEIR_TRY(manager.stop(Operator::Stop::kInOrder));
    const uint64_t end_ns = connection.clock.now_ns() + flags.grace_s * kSecond;
    bool is_told = false;
    bool is_asked_again = false;
    for (;;) {
        const Result<JobStatus> status = manager.status();
        // A manager that ends its job at once may not answer any more: whether it is gone shows in the next try.
        const bool may_be_over = is_told && status.code() == Errc::kDeadline;
        if (may_be_over && !std::exchange(is_asked_again, true)) continue;
        if (!status) {
            if (has_ended(status.code())) return !is_told;
            return status.error();
        }
        if (flags.grace_s != 0 && !is_told && connection.clock.now_ns() >= end_ns) {
            is_told = true;
            fmt::print(stderr,
                       "weir: the job has not ended within --grace: it ends now, with an error at "
                       "each rank\n");
            const Status told = manager.stop(Operator::Stop::kNow);
            if (!told && !has_ended(told.code()) && told.code() != Errc::kDeadline)
                return told.error();
        }
        (void)::poll(nullptr, 0, kLookMs);
    }
}

Result<uint64_t> checkpoint_now(const CheckpointNowFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    return connection.manager->checkpoint(flags.deadline_s * kSecond);
}

Result<JobStatus> status_of(const StatusFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    return connection.manager->status();
}

/// Of all keys, question by question.
Result<GetReply> values_of(const GetFlags& flags, std::span<const uint64_t> keys,
                           const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    GetReply all;
    while (all.states.size() < keys.size()) {
        const auto rest = keys.subspan(all.states.size());
        const auto some = rest.first(std::min(rest.size(), GetLimits::kKeysMax));
        WEIR_ASSIGN(const GetReply found,
                    connection.manager->get({flags.table, {some.begin(), some.end()}}));
        if (const size_t bytes = keys.size() * found.row_bytes(); bytes > kGetBytesMax) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} of table '{}' have {} KiB of values, and this command "
                                     "shows {} KiB at most: name fewer keys",
                                     counted(keys.size(), "key"), flags.table, bytes >> 10,
                                     kGetBytesMax >> 10));
        }
        all.type = found.type;
        all.width = found.width;
        if (all.why.empty()) all.why = found.why;
        all.states.insert(all.states.end(), found.states.begin(), found.states.end());
        all.values.insert(all.values.end(), found.values.begin(), found.values.end());
    }
    return all;
}

/// `code`: what it returns
std::string server_json(const ServerFlags& flags, const JobShape& shape, int code) {
    Json json{{"exit_code", code},
              {"left", code == kExitOk && stop_signal() != 0},
              {"shards", flags.join.shards},
              {"transports", shape.transports}};
    if (stop_signal() != 0) json["signal"] = signal_name(stop_signal());
    return json_text(json);
}

/// What the end of a server means for who has started it.
int end_of_server(const ServerFlags& flags, const Status& served) {
    if (served) return kExitOk;
    if (is_grace_over(flags.grace_s)) return ended_by_grace(served.error());
    const int signal = signal_of(served.error());
    if (signal == 0) return failure(served.error());
    fmt::print(stderr, "weir: {}\n",
               in_flags(served.error().text()));  // as the job's own ranks end
    return stop_exit_code(signal);
}

/// Prints the result of a command that has no text, if it is asked for.
int print_json(const std::string& json_file, const std::string& json) {
    if (json_file.empty()) return kExitOk;
    const Status told = print_result(json_file, "", json);
    return told ? int{kExitOk} : failure(told.error());
}

}  // namespace

int run_server(const ServerFlags& flags, Config& config) {
    remember_stop_signals("the job is asked to take over what this server holds");
    refuse_checkpoint_signals(kNoManagerHere);
    JoinOptions join = flags.join;
    join.add_rules = apps::add_exchange_rules;  // those of `weir lr`
    if (!flags.plugins.empty())
        config.set_flag("WEIR_PLUGINS", "--plugin", join_plugin_paths(flags.plugins));
    Result<std::unique_ptr<Job>> job = Job::join(join, config);
    if (!job) return failure(job.error());
    const auto must_end = [grace_s = flags.grace_s] { return is_grace_over(grace_s); };
    const Status served = (*job)->serve(stop_signal_has_settled, must_end);
    const int code = end_of_server(flags, served);
    const int printed = print_json(flags.json, server_json(flags, (*job)->shape(), code));
    return code != kExitOk ? code : printed;
}

int run_leave(const LeaveFlags& flags, Config& config) {
    const Status left = leave(flags, config);
    if (!left) return failure(left.error());
    return print_json(flags.json, json_text(Json{{"server", flags.server}, {"left", true}}));
}

int run_status(const StatusFlags& flags, Config& config) {
    if (flags.watches) return watch_status(flags, config);
    const Result<JobStatus> status = status_of(flags, config);
    if (!status) return failure(status.error());
    const Status told = print_result(flags.json, status_text(*status), status_json(*status));
    return told ? int{kExitOk} : failure(told.error());
}

int run_stop(const StopFlags& flags, Config& config) {
    const Result<bool> stopped = stop(flags, config);
    if (!stopped) return failure(stopped.error());
    return print_json(flags.json, json_text(Json{{"stopped", true}, {"within_grace", *stopped}}));
}

int run_checkpoint_now(const CheckpointNowFlags& flags, Config& config) {
    const Result<uint64_t> number = checkpoint_now(flags, config);
    if (!number) return failure(number.error());
    const Status told = print_result(flags.json, fmt::format("checkpoint {} is written\n", *number),
                                     fmt::format("{{\"checkpoint\": {}}}\n", *number));
    return told ? int{kExitOk} : failure(told.error());
}

int run_get(const GetFlags& flags, Config& config) {
    const Result<std::vector<uint64_t>> keys = parse_keys(flags.keys);
    if (!keys) return failure(keys.error());
    const Result<GetReply> found = values_of(flags, *keys, config);
    if (!found) return failure(found.error());
    const Status told = print_result(flags.json, values_text(flags.table, *keys, *found),
                                     values_json(flags.table, *keys, *found));
    if (!told) return failure(told.error());
    const size_t unknown = unknown_count(*found);
    if (unknown == 0) return kExitOk;
    return failure(
        Error(Errc::kUnavailable, fmt::format("{} of {} without an answer: {}", unknown,
                                              counted(keys->size(), "key"), found->why)));
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/running_job.h"

#include <algorithm>

#include <fmt/core.h>
#include <poll.h>

#include "lib/apps/lr/client_exchange.h"
#include "lib/job/operator_connection.h"
#include "tools/weir/checkpoint_signal.h"
#include "tools/weir/command.h"
#include "tools/weir/jobs/status_report.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

constexpr int kLookMs = 200;  // between two looks at a server that leaves

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

Result<JobStatus> status_of(const StatusFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.contact, config));
    return connection.manager->status();
}

}  // namespace

int run_server(const ServerFlags& flags, Config& config) {
    remember_stop_signals("the job is asked to take over what this server holds");
    refuse_checkpoint_signals(kNoManagerHere);
    JoinOptions join = flags.join;
    join.add_rules = apps::add_exchange_rules;  // those of `weir lr`
    Result<std::unique_ptr<Job>> job = Job::join(join, config);
    if (!job) return failure(job.error());
    const auto must_end = [grace_s = flags.grace_s] { return is_grace_over(grace_s); };
    const Status served = (*job)->serve(stop_signal_has_settled, must_end);
    if (served) return kExitOk;
    if (must_end()) return ended_by_grace(served.error());
    const int signal = signal_of(served.error());
    if (signal == 0) return failure(served.error());
    fmt::print(stderr, "weir: {}\n",
               in_flags(served.error().text()));  // as the job's own ranks end
    return stop_exit_code(signal);
}

int run_leave(const LeaveFlags& flags, Config& config) {
    const Status left = leave(flags, config);
    return left ? int{kExitOk} : failure(left.error());
}

int run_status(const StatusFlags& flags, Config& config) {
    const Result<JobStatus> status = status_of(flags, config);
    if (!status) return failure(status.error());
    fmt::print("{}", flags.json ? status_json(*status) : status_text(*status));
    return kExitOk;
}

}  // namespace weir::tools

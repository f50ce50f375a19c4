// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/apps/lr/client_exchange.h"
#include "lib/base/log.h"
#include "lib/data/input_file.h"
#include "lib/data/shortage.h"
#include "lib/job/operator_connection.h"
#include "tools/weir/checkpoint_signal.h"
#include "tools/weir/command.h"
#include "tools/weir/lr/lr_settings.h"
#include "tools/weir/lr/lr_worker.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {

std::vector<NamedPath> outputs_of(const LrFlags& flags) {
    return {{"--model", flags.model}, {"--json", flags.json}, {"--plot", flags.plot}};
}

namespace {

std::vector<NamedPath> inputs_of(const LrFlags& flags) {
    std::vector<NamedPath> inputs;
    for (const std::string& path : flags.run.train)
        inputs.push_back({"--train", path});
    for (const std::string& path : flags.online.stream)
        inputs.push_back({"--stream", path});
    for (const std::string& path : flags.run.test)
        inputs.push_back({"--test", path});
    inputs.push_back({"--init", flags.init});
    return inputs;
}

/// Refuses a plot name that ends in another format than .svg: a plot is always an SVG.
Status check_plot_name(const std::string& path) {
    std::string ending = std::filesystem::path(path).extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (path == "-" || ending.empty() || ending == ".svg") return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("--plot {}: a plot is written as SVG only; let the name end in .svg "
                             "(rsvg-convert or a browser converts it to other formats)",
                             path));
}

/// Makes standard input a file that all workers of this process can read. Fails if the job has
/// more processes, because the others cannot read it.
/// A stream is read by the only worker, where that is.
Status take_standard_input(const LrFlags& flags, const JobShape& shape) {
    if (flags.is_online()) return {};
    for (const NamedPath& input : inputs_of(flags)) {
        if (input.path != data::kStandardInput) continue;
        if (shape.size > 1)
            return Error(
                Errc::kInvalidArgument,
                fmt::format("{} -: the {} ranks of this job cannot all read the same standard "
                            "input; write the data to a file that all ranks can read",
                            input.flag, shape.size));
        return spool_standard_input();
    }
    return {};
}

/// Warns of flags that have no effect in this kind of job.
void name_idle_flags(const LrFlags& flags, const JobShape& shape) {
    const JobFlags& job = flags.job;
    if (shape.size == 1 && job.options.colocate)
        log(LogLevel::kWarning,
            "--colocate has no effect: this job has one process, which does "
            "everything anyway");
    if (shape.size == 1 && job.rendezvous.empty() && (!job.rank.empty() || !job.size.empty()))
        log(LogLevel::kWarning, "--rank and --size have no effect: this job has one process");
}

/// The outcomes of this process's workers. It keeps the first error, but prefers other errors to
/// kPeerLost, which is only a consequence of another worker's error.
class Outcomes {
public:
    /// Of a worker that was not begun.
    void add(Status outcome) {
        const std::lock_guard lock(mutex_);
        keep(std::move(outcome));
    }

    void add(Status outcome, const LrWorker& worker) {
        const std::lock_guard lock(mutex_);
        has_left_early_ |= worker.has_left_early();
        has_reported_ |= worker.has_reported();
        keep(std::move(outcome));
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

    /// Workers have, and nothing went wrong with others.
    [[nodiscard]] bool has_left_early() const { return has_left_early_ && !error_; }

    /// A worker says how the training ended.
    [[nodiscard]] bool has_reported() const { return has_reported_; }

private:
    void keep(Status outcome) {
        if (outcome) return;
        const bool echo = outcome.code() == Errc::kPeerLost;
        if (!error_ || (was_echo_ && !echo)) {
            error_ = std::move(outcome).error();
            was_echo_ = echo;
        }
    }

    std::mutex mutex_;
    std::optional<Error> error_;
    bool was_echo_ = false;
    bool has_left_early_ = false;
    bool has_reported_ = false;
};

/// Whether the process has the worker that prints and writes the results of the job, unless that leaves
/// before.
bool has_first_worker(const JobShape& shape) {
    return shape.local_workers > 0 && shape.first_worker == 0;
}

/// What the process says when it gets a signal. Usually all ranks get it: of those with workers only
/// one says what follows. A server or worker that leaves because only it got the signal says so later.
std::string_view says_at_signal(const LrFlags& flags, const JobShape& shape) {
    if (has_first_worker(shape) && flags.is_online())
        return "the training ends, and the results so far are written";
    const bool may_part = flags.job.options.on_worker_loss == OnWorkerLoss::kReassign;
    if (has_first_worker(shape) && may_part)
        return "if all ranks get it, a training that has begun ends after this pass, and the "
               "results "
               "so far are written; SIGTERM to this rank alone makes it leave";
    if (has_first_worker(shape))
        return "a training that has begun ends after this pass, and the results so far are written";
    if (shape.rank == 0 && shape.local_workers == 0 && flags.job.options.managers == 1)
        return "rank 0 has the manager, and serves until the workers have ended";
    return "";
}

/// Installs the handlers of SIGINT and SIGTERM.
void handle_stop_signals(const LrFlags& flags, const JobShape& shape) {
    if (shape.local_workers > 0) limit_grace(flags.grace_s);
    remember_stop_signals(says_at_signal(flags, shape));
}

/// Prints the error that ends the job and returns the exit code. If a signal ended the job, all
/// ranks return the exit code of that signal, and one of them says so.
int ended_by(const Error& error, const JobShape& shape, const Outcomes& outcomes) {
    const int signal = signal_of(error);
    if (signal == 0) return failure(error);
    const bool is_first = has_first_worker(shape) && !outcomes.has_left_early();
    if (outcomes.has_reported() || is_first)
        fmt::print(stderr, "weir: {}\n", in_flags(error.text()));
    return stop_exit_code(signal);
}

/// Checks the flags that can be checked before there is a job.
Status prepare(LrFlags& flags) {
    flags.run.names = kFlagNames;
    if (flags.solver) {
        static_cast<apps::RunOptions&>(flags.online) = flags.run;
        flags.online.solver = *flags.solver;
        flags.online.l1 = flags.run.solver.l1;
    }
    if (flags.run.solver.kind == apps::BatchKind::kLbfgs) {
        flags.run.solver.loss = flags.online.loss;
        flags.run.solver.classes = flags.online.classes;
        flags.run.solver.l2 = flags.online.l2;
    }
    WEIR_TRY(check_paths(inputs_of(flags), outputs_of(flags)));
    return check_plot_name(flags.plot);
}

/// What the job trains, as it says itself. Files that are not here are found before it lets anybody
/// in.
Status ask_job(LrFlags& flags, const Config& config) {
    OperatorConnection connection;
    WEIR_TRY(connection.open(flags.join, config));
    WEIR_ASSIGN(const JobStatus status, connection.manager->status());
    WEIR_TRY(take_settings(status.work, flags));
    if (!flags.run.cache.folder.empty() && flags.run.solver.kind != apps::BatchKind::kDelayed) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--cache: the job trains with {}, and only --solver delayed reads "
                                 "examples from disk; join without --cache and --memory",
                                 flags.solver_name()));
    }
    for (const NamedPath& input : inputs_of(flags)) {
        if (input.path.empty() || data::open_input(input.path)) continue;
        return Error(Errc::kNotFound,
                     fmt::format("{}: a file of the job ({}) that cannot be read here; name it as "
                                 "this host knows it, with {}",
                                 input.path, input.flag,
                                 flags.is_online() ? "--stream" : "--train or --test"),
                     errno);
    }
    return {};
}

/// Makes SIGUSR1 harmless to ranks that cannot write a checkpoint at it: it may be sent to all.
void answer_checkpoint_signals(const LrFlags& flags, const JobShape& shape) {
    if (flags.joins() || !shape.has_manager) return refuse_checkpoint_signals(kNoManagerHere);
    if (!flags.job.options.checkpoint_folder.empty()) return;
    refuse_checkpoint_signals(
        "the job has no folder for checkpoints (--checkpoint DIR), and writes none");
}

/// Who gives a folder may expect that checkpoints come by themselves.
void say_when_checkpoints_come(const LrFlags& flags, const JobShape& shape) {
    const JobOptions& options = flags.job.options;
    const bool comes_by_itself =
        options.checkpoint_every.count() != 0 || options.checkpoint_every_iterations != 0;
    if (flags.joins() || shape.rank != 0 || options.checkpoint_folder.empty() || comes_by_itself)
        return;
    log(LogLevel::kInfo,
        "checkpoints are written only by `weir checkpoint now`, at SIGUSR1 to rank 0 (of several "
        "managers, to the rank of any), and when `weir stop` or a signal ends the training; for "
        "more give --checkpoint-every, such as 10m");
}

Result<std::unique_ptr<Job>> start(LrFlags& flags, Config& config) {
    JobOptions& options = flags.job.options;
    options.add_rules = apps::add_exchange_rules;
    remember_checkpoint_signals();
    if (flags.joins()) {
        return Job::join(
            {.contact = flags.join, .workers = options.workers, .add_rules = options.add_rules},
            config);
    }
    WEIR_TRY(flags.job.apply_to(config));
    options.is_being_stopped = [] { return stop_signal() != 0; };
    if (!options.checkpoint_folder.empty()) {
        // At the first signal to stop, too: the pass may take longer than there is time.
        options.wants_checkpoint = [was_stopped = false]() mutable {
            const bool stops = stop_signal() != 0 && !std::exchange(was_stopped, true);
            return take_checkpoint_signal() || stops;
        };
    }
    return Job::start(options, config);
}

/// Of the job as it began; a process that joins has the ranks and workers after those.
JobShape shape_of(const LrFlags& flags, const Job& job) {
    JobShape shape = job.shape();
    if (!flags.joins()) return shape;
    shape.rank = shape.size = flags.began.ranks;
    shape.server_count = flags.began.servers;
    shape.first_worker = shape.worker_count = flags.began.workers;
    return shape;
}

/// What all workers of the process need, beside the job.
Status make_ready(LrFlags& flags, const JobShape& shape) {
    if (!flags.joins()) WEIR_TRY(take_standard_input(flags, shape));
    if (flags.init.empty()) return {};
    WEIR_ASSIGN(flags.run.solver.init, apps::read_model(flags.init));
    const apps::LrOptions& solver = flags.run.solver;
    if (solver.init.loss != solver.loss) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("--init {}: a model of the {} loss, which is no start for a {} one",
                        flags.init, name_of(solver.init.loss), name_of(solver.loss)));
    }
    if (solver.init.classes.text() != solver.classes.text()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--init {}: a model of the classes {}, not of {}", flags.init,
                                 solver.init.classes.text(), solver.classes.text()));
    }
    return {};
}

/// Errors: of workers without an outcome
Status run_workers(Job& job, const LrFlags& flags, const JobShape& shape, const Status& ready,
                   Outcomes& outcomes) {
    const std::string description = flags.joins() ? std::string() : describe_training(flags, shape);
    return job.run_workers([&](Client& client) -> Status {
        return data::or_shortage([&]() -> Status {
            LrWorker worker(job, client, flags, shape, description);
            if (!ready) {
                outcomes.add(worker.give_up(ready.error()));
                return {};
            }
            handle_stop_signals(flags, shape);
            Status outcome = worker.run();
            outcomes.add(std::move(outcome), worker);
            return {};
        });
    });
}

/// Rank 0 serves to the end if it has the only manager; a rank with workers ends with them.
Status serve(Job& job, const JobShape& shape, const LrFlags& flags, const Outcomes& outcomes) {
    const auto must_end = [grace_s = flags.grace_s] { return is_grace_over(grace_s); };
    if (outcomes.has_left_early()) {
        lift_grace();  // the server says what it has not handed over
        return job.serve([] { return true; }, must_end);
    }
    if (shape.local_workers > 0) return job.serve();
    const bool has_only_manager = shape.rank == 0 && flags.job.options.managers == 1;
    if (has_only_manager) return job.serve({}, must_end);
    return job.serve(stop_signal_has_settled, must_end);
}

}  // namespace

int run_lr(LrFlags& flags, Config& config) {
    if (flags.joins()) {
        if (const Status told = ask_job(flags, config); !told) return failure(told.error());
    }
    if (const Status status = prepare(flags); !status) return failure(status.error());
    Result<std::unique_ptr<Job>> started = data::or_shortage([&] { return start(flags, config); });
    if (!started) return failure(started.error());
    Job& job = **started;
    const JobShape shape = shape_of(flags, job);
    answer_checkpoint_signals(flags, shape);
    say_when_checkpoints_come(flags, shape);
    Outcomes outcomes;
    const Status ran = data::or_shortage([&]() -> Status {
        if (shape.rank == 0) name_idle_flags(flags, shape);
        if (shape.local_workers == 0) {
            handle_stop_signals(flags, shape);
            return {};
        }
        const Status ready = make_ready(flags, shape);
        if (Status failed = run_workers(job, flags, shape, ready, outcomes); !failed)
            outcomes.add(ready ? std::move(failed) : ready);
        return {};
    });
    if (!ran) return failure(ran.error());
    const Status served = serve(job, shape, flags, outcomes);
    if (outcomes.error()) return ended_by(*outcomes.error(), shape, outcomes);
    if (!served && is_grace_over(flags.grace_s)) return ended_by_grace(served.error());
    if (!served && shape.is_server) return ended_by(served.error(), shape, outcomes);
    return kExitOk;
}

}  // namespace weir::tools

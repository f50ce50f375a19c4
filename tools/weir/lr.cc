// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/apps/client_exchange.h"
#include "lib/base/log.h"
#include "lib/data/input_file.h"
#include "lib/data/shortage.h"
#include "tools/weir/checkpoint_signal.h"
#include "tools/weir/command.h"
#include "tools/weir/lr_report.h"
#include "tools/weir/paths.h"
#include "tools/weir/progress.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

std::vector<NamedPath> inputs_of(const LrFlags& flags) {
    std::vector<NamedPath> inputs;
    for (const std::string& path : flags.run.train)
        inputs.push_back({"--train", path});
    for (const std::string& path : flags.run.test)
        inputs.push_back({"--test", path});
    inputs.push_back({"--init", flags.init});
    return inputs;
}

/// The output files. Only the worker that writes them checks, before the training, that they can
/// be written: other workers may have other folders.
std::vector<NamedPath> outputs_of(const LrFlags& flags) {
    return {{"--model", flags.model}, {"--json", flags.json}, {"--plot", flags.plot}};
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
Status take_standard_input(const LrFlags& flags, const JobShape& shape) {
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
    void add(Status outcome) {
        if (outcome) return;
        const std::lock_guard lock(mutex_);
        const bool echo = outcome.code() == Errc::kPeerLost;
        if (!error_ || (was_echo_ && !echo)) {
            error_ = std::move(outcome).error();
            was_echo_ = echo;
        }
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

private:
    std::mutex mutex_;
    std::optional<Error> error_;
    bool was_echo_ = false;
};

/// `speaks`: this worker was the first one at the start.
Result<apps::LrRun> train(Client& client, const LrFlags& flags, bool speaks,
                          apps::LrRounds& rounds) {
    Progress progress;
    apps::LrRunOptions options = flags.run;
    options.names = kFlagNames;
    options.solver.stop = stop_signal;
    options.takes_work = flags.job.options.on_worker_loss == OnWorkerLoss::kReassign;
    if (speaks || options.takes_work) {
        options.solver.progress = [&](const apps::LrProgress& p) {
            const std::string gap = p.gap <= kTellingGap ? ", gap " + percent(p.gap) : "";
            progress.show(fmt::format("pass {:4}  {:7.2f} s  objective {:.6g}, {} non-zeros{}",
                                      p.pass, p.seconds, p.objective, p.nonzero_count, gap));
        };
    }
    Result<apps::LrRun> run = data::or_shortage([&]() -> Result<apps::LrRun> {
        if (speaks) WEIR_TRY(check_outputs(outputs_of(flags)));
        return apps::run_lr(client, options, rounds);
    });
    progress.end();
    return run;
}

/// The outcome of a run that has a result, the same for all workers: ok, the error of the test
/// files, or a signal.
Status outcome_of(const apps::LrRun& run) {
    const int signal = run.result.stop_reason;
    if (signal == 0) return run.tested;
    if (run.result.end != apps::LrEnd::kStopped)
        return stopped_by(signal,
                          "the test files were being read; the results of the training "
                          "are written");
    return stopped_by(signal, fmt::format("the training ended after pass {}; the results so far "
                                          "are written",
                                          run.result.pass_count));
}

/// The outcome of the worker that writes the results. An error of writing replaces a signal, whose
/// message says that the results are written, and is added to an error of the test files.
Status with_written(const apps::LrRun& run, Status outcome, Status written) {
    if (written) return outcome;
    if (run.tested) return written;
    const Error& error = written.error();
    return Error(error.code(), fmt::format("{}; and {}", run.tested.error().text(), error.text()),
                 error.os_error());
}

/// Whether the process has the worker that prints and writes the results of the job.
bool has_first_worker(const JobShape& shape) {
    return shape.local_workers > 0 && shape.first_worker == 0;
}

/// Installs the handlers of SIGINT and SIGTERM. Usually all ranks get the signal; only one prints a
/// line. A server that leaves because only it got the signal says so later (Job::serve).
void handle_stop_signals(const JobShape& shape, uint32_t grace_s) {
    if (shape.local_workers > 0) limit_grace(grace_s);
    remember_stop_signals(has_first_worker(shape) ? "a training that has begun ends after this "
                                                    "pass, and the results so far are written"
                                                  : "");
}

/// The worker has no result.
Status give_up(Client& client, const Error& error) {
    Status failed = error;
    if (error.code() == Errc::kCancelled && stop_signal() != 0)
        failed =
            stopped_by(stop_signal(), "the training files were being read; nothing is written");
    (void)client.leave(failed);
    return failed;
}

/// A training that a signal has ended can go on from where it ended.
void save_for_later(Client& client, const LrFlags& flags) {
    if (flags.job.options.checkpoint_folder.empty()) return;
    const Result<uint64_t> saved = client.checkpoint();
    if (saved) return;
    log(LogLevel::kWarning, "no checkpoint of where the training ended: {}",
        saved.error().message());
}

/// The whole work of one worker. The first worker writes the results before it leaves. Until then no
/// worker that has results leaves with an error: a launcher may kill all ranks once one fails.
Status work(Job& job, uint32_t i, const LrFlags& flags) {
    WEIR_ASSIGN(Client client, job.make_client(i));
    handle_stop_signals(job.shape(), flags.grace_s);
    const bool takes_work = flags.job.options.on_worker_loss == OnWorkerLoss::kReassign;
    apps::LrRounds rounds;
    while (true) {
        const Result<apps::LrRun> run =
            train(client, flags, client.worker() == 0 && rounds.history.empty(), rounds);
        if (run.code() == Errc::kReassigned) {
            log(LogLevel::kInfo, "{}", run.error().text());
            continue;
        }
        if (!run) return give_up(client, run.error());
        Status written;
        if (run->is_first)
            written = data::or_shortage([&] { return report(flags, *run, job.shape()); });
        const bool all_is_well = outcome_of(*run).has_value();
        if (run->is_first && !all_is_well && signal_of(outcome_of(*run).error()) != 0)
            save_for_later(client, flags);
        const Status outcome = with_written(*run, outcome_of(*run), std::move(written));
        // Writing a model can take long. If the one that writes it dies, another one does.
        if (!all_is_well || takes_work) {
            const Status met = client.barrier(kLongDeadline);
            if (met.code() == Errc::kReassigned) continue;
        }
        // An error of writing concerns this rank only: the other ranks end as the training did.
        const Status left = client.leave(outcome_of(*run));
        return outcome ? left : outcome;
    }
}

/// Prints the error that ends the job and returns the exit code. If a signal ended the job, all
/// ranks return the exit code of that signal, and one of them says so.
int ended_by(const Error& error, const JobShape& shape) {
    const int signal = signal_of(error);
    if (signal == 0) return failure(error);
    if (has_first_worker(shape)) fmt::print(stderr, "weir: {}\n", error.text());
    return stop_exit_code(signal);
}

/// Checks the flags that can be checked before there is a job.
Status prepare(LrFlags& flags) {
    WEIR_TRY(check_paths(inputs_of(flags), outputs_of(flags)));
    return check_plot_name(flags.plot);
}

}  // namespace

int run_lr(LrFlags& flags, Config& config) {
    if (const Status status = prepare(flags); !status) return failure(status.error());
    flags.job.apply_to(config);
    flags.job.options.add_rules = apps::add_exchange_rules;
    flags.job.options.is_being_stopped = [] { return stop_signal() != 0; };
    if (!flags.job.options.checkpoint_folder.empty()) {
        remember_checkpoint_signals();
        // At the first signal to stop, too: the pass may take longer than there is time.
        flags.job.options.wants_checkpoint = [was_stopped = false]() mutable {
            const bool stops = stop_signal() != 0 && !std::exchange(was_stopped, true);
            return take_checkpoint_signal() || stops;
        };
    }
    Result<std::unique_ptr<Job>> started =
        data::or_shortage([&] { return Job::start(flags.job.options, config); });
    if (!started) return failure(started.error());
    Job& job = **started;
    const JobShape& shape = job.shape();
    Outcomes outcomes;
    const Status ran = data::or_shortage([&]() -> Status {
        if (shape.rank == 0) name_idle_flags(flags, shape);
        if (shape.local_workers == 0) {
            handle_stop_signals(shape, flags.grace_s);
            return {};
        }
        Status ready = take_standard_input(flags, shape);
        if (ready && !flags.init.empty()) {
            Result<apps::Model> init = apps::read_model(flags.init);
            if (init) flags.run.solver.init = std::move(*init);
            if (!init) ready = Error(init.error());
        }
        job.run_workers([&](uint32_t i) {
            if (ready) return outcomes.add(work(job, i, flags));
            Result<Client> client = job.make_client(i);  // to tell the other ranks by leave()
            if (client) (void)client->leave(ready);
            outcomes.add(ready);
        });
        return {};
    });
    if (!ran) return failure(ran.error());
    // Rank 0 serves to the end if it has the only manager; a rank with workers ends with them.
    const bool has_only_manager = shape.rank == 0 && flags.job.options.managers == 1;
    const bool may_leave = !has_only_manager && shape.local_workers == 0;
    const Status served = may_leave ? job.serve(stop_signal_has_settled) : job.serve();
    if (outcomes.error()) return ended_by(*outcomes.error(), shape);
    if (!served && shape.is_server) return ended_by(served.error(), shape);
    return kExitOk;
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_worker.h"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/data/shortage.h"
#include "tools/weir/command.h"
#include "tools/weir/lr/lr_report.h"
#include "tools/weir/paths.h"
#include "tools/weir/progress.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

/// For the manager to begin with a checkpoint, whose end is not waited for.
constexpr std::chrono::seconds kAskingForCheckpoint(1);

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

}  // namespace

LrWorker::LrWorker(Job& job, Client& client, const LrFlags& flags, const JobShape& shape,
                   std::string description)
    : client_(client),
      flags_(flags),
      shape_(shape),
      description_(std::move(description)),
      parting_(job, client_, takes_work()) {}

Status LrWorker::run() {
    while (true) {
        Result<apps::LrRun> run = train();
        if (parting_.has_given_back()) return leave_early();
        if (run.code() == Errc::kReassigned) {
            log(LogLevel::kInfo,
                "workers have come or gone: those that are there now read their parts of the "
                "training files anew, and go on from the last weights");
            continue;
        }
        if (rounds_.are_over && ended_) {  // another worker has written the results
            const Status left = client_.leave(*ended_);
            return *ended_ ? left : *ended_;
        }
        if (!run) return give_up(run.error());
        if (const std::optional<Status> end = finish(*run)) return *end;
    }
}

Result<apps::LrRun> LrWorker::train() {
    // The first one at the start. If another one speaks later, the files are checked already.
    const bool speaks = client_.worker() == 0 && rounds_.history.empty();
    Progress progress;
    apps::LrRunOptions options = flags_.run;
    options.names = kFlagNames;
    options.solver.stop = [&] { return parting_.decide(); };
    options.stops_reading = [&] { return parting_.stops_reading(); };
    options.reads_on = [&](bool is_first) { note_reading_on(is_first); };
    options.takes_work = takes_work();
    options.description = description_;
    if (speaks || options.takes_work) {
        options.solver.progress = [&](const apps::LrProgress& p) {
            const std::string gap = p.gap <= kTellingGap ? ", gap " + percent(p.gap) : "";
            const std::string filtered =
                p.filtered_share > 0 ? ", " + share_text(p.filtered_share) + " filtered" : "";
            progress.show(fmt::format("pass {:4}  {:7.2f} s  objective {:.6g}, {} non-zeros{}{}",
                                      p.pass, p.seconds, p.objective, p.nonzero_count, filtered,
                                      gap));
        };
    }
    Result<apps::LrRun> run = data::or_shortage([&]() -> Result<apps::LrRun> {
        if (speaks) WEIR_TRY(check_outputs(outputs_of(flags_)));
        return apps::run_lr(client_, options, rounds_);
    });
    progress.end();
    return run;
}

/// Reading and the pass after it may take longer than there is time. A checkpoint keeps what earlier rounds
/// have trained; it is written while this worker reads.
void LrWorker::note_reading_on(bool is_first) {
    if (!is_first || std::exchange(reads_on_, true)) return;
    log(LogLevel::kInfo,
        "{} came while the training files were being read: the results need them, so they are read "
        "to their end, and the training ends after one more pass over them",
        signal_name(stop_signal()));
    const bool is_in_checkpoint = rounds_.round <= 1;  // that from which the job goes on
    if (is_in_checkpoint || flags_.job.options.checkpoint_folder.empty()) return;
    const Result<uint64_t> asked = client_.checkpoint(kAskingForCheckpoint);
    if (asked || asked.code() == Errc::kDeadline) return;
    log(LogLevel::kWarning, "no checkpoint of what was trained before: {}",
        asked.error().message());
}

/// The first worker writes the results before it leaves. Until then no worker that has results leaves
/// with an error: a launcher may kill all ranks once one fails. Nothing: all train once more.
std::optional<Status> LrWorker::finish(apps::LrRun& run) {
    Status written;
    has_reported_ = run.is_first;
    if (run.is_first) written = data::or_shortage([&] { return report(flags_, run, shape_); });
    const Status outcome = outcome_of(run);
    const bool was_stopped = !outcome && signal_of(outcome.error()) != 0;
    if (run.is_first && was_stopped) {
        save_for_later();
        if (written) report_later_events(run);
    }
    if ((!outcome || takes_work()) && !meet_the_others(run)) {
        ended_ = outcome;
        return std::nullopt;
    }
    // An error of writing concerns this rank only: the other ranks end as the training did.
    const Status left = client_.leave(outcome);
    const Status whole = with_written(run, outcome, std::move(written));
    return whole ? left : whole;
}

/// Writing a model can take long. If the one that writes it dies, another one does: false. Once it is
/// written, who dies or joins changes nothing.
bool LrWorker::meet_the_others(const apps::LrRun& run) {
    if (takes_work() && run.is_first) {
        if (const Status done = client_.finish_work(); !done)
            log(LogLevel::kDebug, "others may train once more: {}", done.error().text());
    }
    return client_.barrier().code() != Errc::kReassigned;
}

/// A training that a signal has ended can go on from where it ended.
void LrWorker::save_for_later() {
    if (flags_.job.options.checkpoint_folder.empty()) return;
    const Result<uint64_t> saved = client_.checkpoint();
    if (saved) return;
    log(LogLevel::kWarning, "no checkpoint of where the training ended: {}",
        saved.error().message());
}

/// The results are written before the last checkpoint, for which there may be no time. If there was, they
/// are to show it.
void LrWorker::report_later_events(apps::LrRun& run) {
    rounds_.events.collect(client_, true);
    std::vector<apps::LrEvent> events = rounds_.events.placed();
    if (events.size() == run.events.size()) return;
    run.events = std::move(events);
    const Status written = data::or_shortage([&] { return report_events(flags_, run, shape_); });
    if (written) return;
    log(LogLevel::kWarning, "the results do not show what happened after the training: {}",
        written.error().text());
}

Status LrWorker::leave_early() {
    WEIR_TRY(client_.leave());
    fmt::print(stderr,
               "weir: SIGTERM came to this rank alone: worker {} has left, and the others train on "
               "with its part of the data\n",
               client_.worker());
    return {};
}

/// What one that has joined cannot do, such as reading a file, does not end the job of the others.
Status LrWorker::give_up(const Error& why) {
    Status failed = why;
    if (why.code() == Errc::kCancelled && stop_signal() != 0)
        failed =
            stopped_by(stop_signal(), "the training files were being read; nothing is written");
    const bool is_missed = !flags_.joins() || !(rounds_.are_over || client_.give_back_work());
    (void)client_.leave(is_missed ? failed : Status());
    return failed;
}

}  // namespace weir::tools

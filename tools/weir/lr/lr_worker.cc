// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_worker.h"

#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/data/shortage.h"
#include "tools/weir/command.h"
#include "tools/weir/paths.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

/// For the manager to begin with a checkpoint, whose end is not waited for.
constexpr std::chrono::seconds kAskingForCheckpoint(1);

/// The outcome of the worker that writes the results. An error of writing replaces a signal, whose
/// message says that the results are written, and is added to an error of the test files.
Status with_written(Status outcome, Status written) {
    if (written) return outcome;
    if (outcome || signal_of(outcome.error()) != 0) return written;
    const Error& error = written.error();
    return Error(error.code(), fmt::format("{}; and {}", outcome.error().text(), error.text()),
                 error.os_error());
}

}  // namespace

LrWorker::LrWorker(Job& job, Client& client, const LrFlags& flags, const JobShape& shape,
                   std::string description)
    : client_(client),
      flags_(flags),
      shape_(shape),
      description_(std::move(description)),
      parting_(job, client_, takes_work()),
      training_(make_training(client_, flags_, shape_)) {}

Status LrWorker::run() {
    while (true) {
        const Status trained = train();
        if (parting_.has_given_back()) return leave_early();
        if (trained.code() == Errc::kReassigned) {
            log(LogLevel::kInfo, "workers have come or gone: {}", training_->says_anew());
            continue;
        }
        if (training_->is_over() && ended_) {  // another worker has written the results
            const Status left = client_.leave(*ended_);
            return *ended_ ? left : *ended_;
        }
        if (!trained) return give_up(trained.error());
        if (const std::optional<Status> end = finish()) return *end;
    }
}

Status LrWorker::train() {
    // The first one at the start. If another one speaks later, the files are checked already.
    const bool speaks = client_.worker() == 0 && !training_->has_trained();
    TrainingHooks hooks;
    hooks.stop = [&] { return parting_.decide(); };
    hooks.stops_reading = [&] { return parting_.stops_reading(); };
    hooks.reads_on = [&](bool is_first) { note_reading_on(is_first); };
    hooks.takes_work = takes_work();
    hooks.description = description_;
    hooks.speaks = speaks || takes_work();
    return data::or_shortage([&]() -> Status {
        if (speaks) WEIR_TRY(check_outputs(outputs_of(flags_)));
        return training_->train(hooks);
    });
}

/// Reading and the pass after it may take longer than there is time. A checkpoint keeps what earlier rounds
/// have trained; it is written while this worker reads.
void LrWorker::note_reading_on(bool is_first) {
    if (!is_first || std::exchange(reads_on_, true)) return;
    log(LogLevel::kInfo,
        "{} came while the training files were being read: the results need them, so they are read "
        "to their end, and the training ends after one more pass over them",
        signal_name(stop_signal()));
    const bool is_in_checkpoint = training_->round() <= 1;  // that from which the job goes on
    if (is_in_checkpoint || flags_.job.options.checkpoint_folder.empty()) return;
    const Result<uint64_t> asked = client_.checkpoint(kAskingForCheckpoint);
    if (asked || asked.code() == Errc::kDeadline) return;
    log(LogLevel::kWarning, "no checkpoint of what was trained before: {}",
        asked.error().message());
}

/// The first worker writes the results before it leaves. Until then no worker that has results leaves
/// with an error: a launcher may kill all ranks once one fails. Nothing: all train once more.
std::optional<Status> LrWorker::finish() {
    Status written;
    has_reported_ = training_->is_first();
    if (training_->is_first()) written = data::or_shortage([&] { return training_->report(); });
    const Status outcome = training_->outcome();
    const bool was_stopped = !outcome && signal_of(outcome.error()) != 0;
    if (training_->is_first() && (was_stopped || training_->is_to_be_continued())) {
        save_for_later();
        if (written) report_later_events();
    }
    if ((!outcome || takes_work()) && !meet_the_others()) {
        ended_ = outcome;
        return std::nullopt;
    }
    // An error of writing concerns this rank only: the other ranks end as the training did.
    const Status left = client_.leave(outcome);
    const Status whole = with_written(outcome, std::move(written));
    return whole ? left : whole;
}

/// Writing a model can take long. If the one that writes it dies, another one does: false. Once it is
/// written, who dies or joins changes nothing.
bool LrWorker::meet_the_others() {
    if (takes_work() && training_->is_first()) {
        if (const Status done = client_.finish_work(); !done)
            log(LogLevel::kDebug, "others may train once more: {}", done.error().text());
    }
    return client_.barrier().code() != Errc::kReassigned;
}

/// A later job can go on from where the training has ended.
void LrWorker::save_for_later() {
    if (flags_.job.options.checkpoint_folder.empty()) return;
    const Result<uint64_t> saved = client_.checkpoint();
    if (saved) return;
    log(LogLevel::kWarning, "no checkpoint of where the training ended: {}",
        saved.error().message());
}

/// The results are written before the last checkpoint, for which there may be no time. If there was, they
/// are to show it.
void LrWorker::report_later_events() {
    const Status written = data::or_shortage([&] { return training_->report_later_events(); });
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
    const bool is_missed = !flags_.joins() || !(training_->is_over() || client_.give_back_work());
    (void)client_.leave(is_missed ? failed : Status());
    return failed;
}

}  // namespace weir::tools

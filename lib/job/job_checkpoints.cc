// SPDX-License-Identifier: Apache-2.0
#include "lib/job/job_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/checkpoint/folder.h"
#include "lib/job/job_variables.h"
#include "lib/job/unique_number.h"
#include "lib/wire/checkpoint_message.h"

namespace weir {
namespace {

using checkpoint::Disk;

/// Where threads share a processor, those that answer workers do not wait for the disk's.
void give_way_to_others() {
    constexpr int kNice = 5;
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()),
                        kNice);  // else it runs as it is
}

Error wrong(std::string why) {
    return {Errc::kInvalidArgument, std::move(why)};
}

/// Whether a file can be written there: else that would be noticed only when the first checkpoint is due.
Status probe(Disk& disk, const std::string& folder) {
    constexpr size_t kBytes = 4096;
    const std::string name = fmt::format("weir.probe.{:016x}", make_unique_number());
    Status done = checkpoint::write_file(disk, folder, name, std::vector<std::byte>(kBytes));
    if (done) done = disk.remove(checkpoint::path_of(folder, name));
    if (done) return {};
    return Error(done.code(),
                 fmt::format("no checkpoint can be written to {}: {}", folder, done.error().text()),
                 done.error().os_error());
}

Status check_folder(Disk& disk, const std::string& given, std::string& folder) {
    WEIR_ASSIGN(folder, absolute_folder(given));
    WEIR_TRY(disk.list(folder));
    return probe(disk, folder);
}

/// The folder to go on from.
Result<std::string> folder_to_resume(const JobOptions& options, const std::string& own) {
    if (options.resume != kResumeAuto) return absolute_folder(options.resume);
    if (options.resume_number != 0)
        return wrong(
            "`resume` auto chooses the checkpoint itself; to choose one (`resume_number`), name "
            "the folder: `resume` DIR");
    if (own.empty())
        return wrong(
            "to go on from the job's own checkpoints (`resume` auto), give it the folder "
            "that it writes them to (`checkpoint_folder` DIR)");
    return own;
}

}  // namespace

Result<std::string> absolute_folder(const std::string& folder) {
    std::error_code error;
    std::string path = std::filesystem::absolute(folder, error).lexically_normal().string();
    if (path.size() > 1 && path.back() == '/') path.pop_back();
    if (error || path.size() > CheckpointOrder::kFolderBytesMax) {
        return wrong(fmt::format("{}: the name of the folder is longer than {} bytes", folder,
                                 CheckpointOrder::kFolderBytesMax));
    }
    return path;
}

Result<JobCheckpoints> plan_checkpoints(const JobOptions& options, Disk& disk) {
    JobCheckpoints plan;
    CheckpointOptions& to = plan.options;
    to.every_ns = static_cast<uint64_t>(std::max<int64_t>(0, options.checkpoint_every.count()));
    to.every_iterations = options.checkpoint_every_iterations;
    to.is_asked_for = options.wants_checkpoint;
    if (!options.checkpoint_folder.empty()) {
        const Status usable = check_folder(disk, options.checkpoint_folder, to.folder);
        if (!usable) return of_option("checkpoint_folder", usable.error());
    } else if (to.every_ns != 0 || to.every_iterations != 0) {
        return wrong(
            fmt::format("`{}`: there is no folder for checkpoints; give "
                        "`checkpoint_folder` DIR, too",
                        to.every_ns != 0 ? "checkpoint_every" : "checkpoint_every_iterations"));
    }
    if (options.resume.empty()) {
        if (options.resume_number == 0) return plan;
        return wrong(
            "the checkpoint to go on from has a number (`resume_number`), but "
            "no folder: give `resume` DIR, too");
    }
    WEIR_ASSIGN(to.resumed_folder, folder_to_resume(options, to.folder));
    const auto listed = disk.list(to.resumed_folder);
    if (!listed) return of_option("resume", listed.error());
    to.keeps_newer = options.resume_number != 0;
    return plan;
}

DiskThread::DiskThread(std::string process, std::shared_ptr<Disk> disk, Patience patience)
    : process_(std::move(process)),
      patience_(patience),
      queue_(std::make_shared<checkpoint::DiskQueue>(std::move(disk))),
      thread_([queue = queue_] {
          (void)::pthread_setname_np(::pthread_self(), "weir-disk");
          give_way_to_others();
          queue->run();
      }) {}

DiskThread::~DiskThread() {
    queue_->close();
    const auto hangs = [&] {
        return std::chrono::nanoseconds(queue_->stalled_ns()) >= patience_.stalled;
    };
    const std::chrono::nanoseconds none{};
    for (bool has_told = false; !queue_->is_over_within(hangs() ? none : patience_.silent);) {
        if (hangs()) {
            log(LogLevel::kWarning,
                "{} ends without {}: that, or the network to it, hangs, and has "
                "finished nothing for {} s; a checkpoint that is not complete counts for nothing",
                process_, queue_->disk_name(), queue_->stalled_ns() / kSecond);
            queue_->abandon();
            thread_.detach();
            return;
        }
        if (std::exchange(has_told, true)) continue;
        log(LogLevel::kWarning,
            "{} ends when {} has finished what it was given for checkpoints, or has finished "
            "nothing "
            "for {} s",
            process_, queue_->disk_name(),
            std::chrono::duration_cast<std::chrono::seconds>(patience_.stalled).count());
    }
    thread_.join();
}

}  // namespace weir

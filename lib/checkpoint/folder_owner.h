// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FolderOwner: a folder of checkpoints belongs to one job while that lives. A file in it, weir.owner, names
/// the job's processes, and is touched by them again and again as a sign of life. That works on
/// network file systems, too: the file is made by link(), and its age is measured by the clock of
/// whoever keeps the files.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/result.h"

namespace weir::checkpoint {

inline constexpr std::string_view kOwnerName = "weir.owner";

/// A process that keeps a folder.
struct OwnerProcess {
    std::string boot;      ///< of its kernel, and its PID namespace
    uint64_t pid = 0;      ///< there
    uint64_t started = 0;  ///< so many clock ticks after the boot: no later process has both
    std::string host;      ///< its name, for people

    [[nodiscard]] static OwnerProcess here();
    /// In one line, without spaces at its ends; for other ranks, too.
    [[nodiscard]] std::string encode() const;
    [[nodiscard]] static Result<OwnerProcess> decode(std::string_view line);
};

/// Times of the signs of life.
struct OwnerTimes {
    std::chrono::milliseconds between = std::chrono::seconds(2);
    /// Without a sign for so long, the owner is gone.
    std::chrono::milliseconds gone = std::chrono::seconds(15);
};

/// This process's part in keeping a folder. The destructor ends that; it waits for a disk that hangs for
/// three seconds. The file stays, unless give_up() was called before.
///
/// Thread: one, but for check()
class FolderOwner {
public:
    /// Takes the folder for the job, or takes it over from an owner that is gone: at once if all of its
    /// processes were on this host and have ended; else when there is no sign of life of it. Waits for
    /// that, or for a sign, for `at_most`.
    ///
    /// job:    a random number that other jobs do not have
    /// Errors: kRefused naming the owner; kIo, kNotFound: the folder cannot be written
    [[nodiscard]] static Result<std::unique_ptr<FolderOwner>> take(const std::string& folder,
                                                                   uint64_t job,
                                                                   std::chrono::nanoseconds at_most,
                                                                   const OwnerTimes& times = {});

    /// Another process of the job has taken it: this one gives signs of life, too.
    FolderOwner(std::string folder, uint64_t job, const OwnerTimes& times = {});

    ~FolderOwner();
    FolderOwner(const FolderOwner&) = delete;
    FolderOwner& operator=(const FolderOwner&) = delete;

    [[nodiscard]] uint64_t job() const noexcept { return job_; }

    /// The processes that keep it: of which it is not enough that one ends.
    /// Errors: those of check(); kIo
    [[nodiscard]] Status set_processes(const std::vector<OwnerProcess>& processes);

    /// Whether the folder still belongs to the job: not if another one has taken it over because there
    /// was no sign of life for long, as of a process that was stopped.
    /// Errors: kRefused naming the owner; kIo
    /// Thread: any
    [[nodiscard]] Status check() const;

    /// The job is over: the destructor removes the file, so that the next job need not wait.
    void give_up();

private:
    struct Signs;

    std::string folder_;
    uint64_t job_;
    OwnerTimes times_;
    std::shared_ptr<Signs>
        signs_;  ///< shared with the thread, which a disk that hangs may outlast this
    std::thread thread_;
};

/// Who keeps the folder, as people are told: "process 12 on host a of a job that began ...". Empty: nobody
/// that lives. Does not wait. Errors: kIo
[[nodiscard]] Result<std::string> owner_of(const std::string& folder, const OwnerTimes& times = {});

}  // namespace weir::checkpoint

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a process does for the checkpoints of its job: it checks the options and folders at the start,
/// and has a thread for the disk.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/job/job.h"
#include "lib/manager/checkpoints.h"

namespace weir {

struct JobCheckpoints {
    CheckpointOptions options;                   ///< without the disk
    std::optional<checkpoint::Manifest> resume;  ///< what the job goes on from, once it is chosen
};

/// As others find it, who have other working folders.
/// Errors: kInvalidArgument if that is too long
[[nodiscard]] Result<std::string> absolute_folder(const std::string& folder);

/// Looks at the options and at the folders; resume_choice.h chooses what the job goes on from. Servers
/// call it, not processes that only have workers: they may not see the folders.
/// Errors: kInvalidArgument for options that do not go together; kNotFound for a folder that is not
///         there; kIo for one that cannot be written
[[nodiscard]] Result<JobCheckpoints> plan_checkpoints(const JobOptions& options,
                                                      checkpoint::Disk& disk);

/// A queue, and the thread that works on it. The destructor waits until all that was added is done. It
/// says so if that takes long, and leaves the thread behind if the disk hangs: a checkpoint that is not
/// complete counts for nothing, whatever there is of it.
class DiskThread {
public:
    /// How long the destructor waits.
    struct Patience {
        std::chrono::nanoseconds silent = std::chrono::seconds(3);  ///< without a word
        std::chrono::nanoseconds stalled{checkpoint::DiskQueue::kHangNs};
    };

    /// `process`: its name, for people.
    explicit DiskThread(std::string process)
        : DiskThread(std::move(process), std::make_shared<checkpoint::RealDisk>(), Patience()) {}

    DiskThread(std::string process, std::shared_ptr<checkpoint::Disk> disk, Patience patience);

    ~DiskThread();

    DiskThread(const DiskThread&) = delete;
    DiskThread& operator=(const DiskThread&) = delete;

    [[nodiscard]] const std::shared_ptr<checkpoint::DiskQueue>& queue() const noexcept {
        return queue_;
    }

private:
    std::string process_;
    Patience patience_;
    std::shared_ptr<checkpoint::DiskQueue> queue_;
    std::thread thread_;
};

}  // namespace weir

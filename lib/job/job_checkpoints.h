// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a process does for the checkpoints of its job: it checks the options and folders at the start,
/// and has a thread for the disk.

#include <memory>
#include <optional>

#include "lib/base/result.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/job/job.h"
#include "lib/node/checkpoints.h"
#include "lib/node/runtime.h"

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
///         there
[[nodiscard]] Result<JobCheckpoints> plan_checkpoints(const JobOptions& options,
                                                      checkpoint::Disk& disk);

/// A queue, and the thread that works on it. The destructor waits until all that was added is done.
class DiskThread {
public:
    DiskThread();

    ~DiskThread() { queue_->close(); }

    DiskThread(const DiskThread&) = delete;
    DiskThread& operator=(const DiskThread&) = delete;

    [[nodiscard]] const std::shared_ptr<checkpoint::DiskQueue>& queue() const noexcept {
        return queue_;
    }

private:
    std::shared_ptr<checkpoint::DiskQueue> queue_;
    Runtime runtime_;  // last: its thread uses the queue
};

}  // namespace weir

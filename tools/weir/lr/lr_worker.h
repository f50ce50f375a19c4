// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LrWorker: the whole work of one worker of `weir lr`, from when it is in the job until it leaves.

#include <memory>
#include <optional>
#include <string>

#include "lib/job/job.h"
#include "tools/weir/lr/lr.h"
#include "tools/weir/lr/lr_parting.h"
#include "tools/weir/lr/training.h"

namespace weir::tools {

/// Thread: one
class LrWorker {
public:
    /// `shape`: of the job, for reports. `description`: for Client::take_work()
    LrWorker(Job& job, Client& client, const LrFlags& flags, const JobShape& shape,
             std::string description);

    LrWorker(const LrWorker&) = delete;
    LrWorker& operator=(const LrWorker&) = delete;
    ~LrWorker() = default;

    /// Trains; the first worker writes the results. Leaves the job.
    Status run();

    /// Leaves the job without having trained, because of `why`, which it returns.
    Status give_up(const Error& why);

    /// SIGTERM came to this rank alone, and the others have what this worker had.
    [[nodiscard]] bool has_left_early() const noexcept { return parting_.has_given_back(); }

    /// It says how the training ended: it has written the results of the job, or is the last worker that
    /// a signal has ended.
    [[nodiscard]] bool has_reported() const noexcept { return has_reported_ || parting_.is_last(); }

private:
    [[nodiscard]] bool takes_work() const noexcept {
        return flags_.job.options.on_worker_loss == OnWorkerLoss::kReassign;
    }

    [[nodiscard]] Status train();
    [[nodiscard]] std::optional<Status> finish();
    [[nodiscard]] bool meet_the_others();
    Status leave_early();
    void note_reading_on(bool is_first);
    void save_for_later();
    void report_later_events();

    Client& client_;
    const LrFlags& flags_;
    JobShape shape_;
    std::string description_;
    Parting parting_;
    std::unique_ptr<Training> training_;
    bool has_reported_ = false;
    bool reads_on_ = false;
    std::optional<Status> ended_;  ///< the outcome of a training that is to be done once more
};

}  // namespace weir::tools

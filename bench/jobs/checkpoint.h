// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench checkpoint`: pushes while checkpoints are written, and how fast these are.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// How one worker has another worker of its process write, checkpoints for instance, while it pushes.
///
/// Thread: any
class CheckpointOrders {
public:
    /// The seconds that the writing took; and a checkpoint's number.
    struct Done {
        double seconds = 0;
        uint64_t number = 0;
    };

    using Work = std::function<Result<Done>(Client&)>;

    // For the worker that pushes:

    void order(Work work);
    void end();
    /// Once the work is done.
    [[nodiscard]] std::optional<Result<Done>> take_done();
    [[nodiscard]] Result<Done> wait_done();

    /// The whole work of the other worker.
    void serve(Client& client);

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    Work ordered_;  ///< null: nothing
    bool is_over_ = false;
    std::optional<Result<Done>> done_;
};

/// The process has two workers, the only ones of the job; both call it.
[[nodiscard]] Status bench_checkpoint(Client& client, const BenchFlags& flags,
                                      const JobShape& shape, CheckpointOrders& orders);

}  // namespace weir::bench

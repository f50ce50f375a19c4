// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// run_online: one worker's whole part in training a linear model online, on examples that are read once.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/apps/loss.h"
#include "lib/apps/model.h"
#include "lib/apps/online/progressive.h"
#include "lib/apps/run_options.h"
#include "lib/train/training_events.h"
#include "lib/train/training_traffic.h"
#include "lib/weir.h"

namespace weir::apps {

enum class OnlineSolver : uint8_t { kFtrl, kAdagrad, kAdam };

/// "ftrl", "adagrad", "adam".
[[nodiscard]] std::string_view name_of(OnlineSolver solver) noexcept;
[[nodiscard]] std::optional<OnlineSolver> solver_named(std::string_view name) noexcept;

/// Of those of the options that concern what is trained, all workers have the same.
struct OnlineOptions : RunOptions {
    std::vector<std::string>
        stream;  ///< files, read once in their order; `-`: standard input, for one worker
    OnlineSolver solver = OnlineSolver::kFtrl;
    Loss loss = Loss::kLogistic;
    data::ClassLabels classes;  ///< of a softmax
    double alpha = 0;           ///< learning rate; 0: as rate() says
    double beta = 1;            ///< of kFtrl, as are the next two
    double l1 = 1;
    double l2 = 0;
    uint32_t batch = 64;  ///< lines of a mini-batch, at most: the first ones are shorter
    std::function<void(const OnlineProgress&)>
        progress;  ///< called at the first worker; may be empty
    /// Called now and then; may be empty. A result other than 0 at any worker ends the training for all. An error
    /// ends it for this worker alone, which must not be waited for then.
    std::function<Result<int>()> stop;

    [[nodiscard]] double rate() const noexcept;

    [[nodiscard]] LossFunction function() const noexcept { return {loss, classes.count()}; }
};

/// What a worker keeps from one round of work to the next.
struct OnlineRounds {
    using Time = std::chrono::steady_clock::time_point;

    uint64_t round = 0;     ///< the last one in which this worker had a share; 0: none
    bool are_over = false;  ///< the work was done before this worker could take a share
    std::optional<Time> begun;
    OnlineProgress resumed;               ///< what others, or an earlier job, had learned by then
    std::vector<OnlineProgress> history;  ///< thinned out when it gets long
    std::vector<double> restarts;         ///< when rounds ended, in seconds as in `history`
    uint64_t bad_lines = 0;               ///< that this worker has left out
    std::string first_bad_line;
    TrainingEvents events;
};

/// The same for all workers, except the members that are marked as this worker's.
struct OnlineRun {
    bool is_first = false;  ///< this worker is the first one: it has the model
    OnlineProgress total;
    int stop_reason = 0;  ///< the greatest result of the workers' OnlineOptions::stop
    OnlineProgress
        resumed;  ///< of `total`, what was learned before this worker began: by an earlier job
    std::vector<OnlineProgress> history;  ///< as this worker has seen it
    std::vector<double> restarts;
    std::vector<TrainingEvent> events;  ///< this worker's
    Model model;
    uint64_t feature_count = 0;  ///< that have been seen; of the first worker
    std::string first_bad_line;  ///< this worker's
    std::vector<std::string> warnings;
    TrainingTraffic traffic;
};

/// Every worker of the job calls it with the same options, then leaves the job.
///
/// Weights are in the table `SOLVER.LOSS.weights`. How far each piece of the stream has been learned is in another one: so
/// whoever takes a piece over, or goes on from a checkpoint, begins behind that. What a worker that dies has
/// learned in the last quarter of a second may be learned twice, and is counted once.
///
/// Errors: kReassigned: call it again, with the same `rounds`; kNotFound with OnlineRounds::are_over;
///     kInvalidArgument if the workers' options differ, or if standard input has several workers; that of
///     OnlineOptions::stop; those of the files and the cluster; kNotFinite if the training diverges
[[nodiscard]] Result<OnlineRun> run_online(Client& client, const OnlineOptions& options,
                                           OnlineRounds& rounds);

}  // namespace weir::apps

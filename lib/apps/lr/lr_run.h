// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// run_lr: one worker's whole part in training sparse logistic regression. It reads the files,
/// trains, tests, and collects the counters.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/apps/lr/lr_types.h"
#include "lib/apps/lr/unseen_features.h"
#include "lib/apps/metrics.h"
#include "lib/apps/model.h"
#include "lib/apps/run_options.h"
#include "lib/data/cache/column_cache.h"
#include "lib/data/libsvm_stream.h"
#include "lib/train/training_events.h"
#include "lib/train/training_traffic.h"
#include "lib/weir.h"

namespace weir::apps {

struct LrRunOptions : RunOptions {
    std::vector<std::string> train;
    std::vector<std::string> test;  ///< empty: no test
    LrOptions solver;
    uint32_t threads = 1;  ///< reading threads of each worker
    /// Of BatchKind::kDelayed: examples lie in this folder, and at most memory_bytes of them in
    /// memory (data::ColumnCache). No folder: in memory.
    data::CacheOptions cache;
    /// May be empty. The training is to end, and the training files are read to their end all the same: only
    /// then there are results of what was trained before. True: this worker is the first one.
    std::function<void(bool)> reads_on;
};

/// What a worker keeps from one round of work to the next; see LrRunOptions::takes_work.
struct LrRounds {
    uint64_t round = 0;    ///< the last one in which this worker had a share; 0: none
    uint64_t trained = 0;  ///< the last round that changed weights, as far as it knows; 0: none
    std::vector<LrProgress> history;  ///< of all rounds before this one
    /// When they ended, in seconds as in `history`; 0: before a pass.
    std::vector<double> restarts;
    TrainingEvents events;      ///< as far as this worker knows
    bool are_over = false;      ///< the work was done before this worker could take a share
    std::string tables = "lr";  ///< what the names of its tables begin with
    /// The checkpoint that the job goes on from, once it is known.
    std::optional<ResumedFrom> resumed = {};
    uint64_t kept_from = 1;  ///< the first round whose tables may be there, as far as it knows
    bool has_dropped_saved = false;  ///< the tables of the checkpoint are there no more
};

/// Bad lines of a set of files that all workers together left out.
struct BadLines {
    uint64_t count = 0;
    std::string first;  ///< the message for one of them, with its place
};

/// The same for all workers, except the members that are marked as this worker's.
struct LrRun {
    bool is_first = false;  ///< this worker is the first one: it has the model
    LrResult result;
    std::vector<double> restarts;       ///< as in LrRounds
    std::vector<TrainingEvent> events;  ///< this worker's
    Model model;                        ///< without test files only the first worker has it
    data::ReadReport read;              ///< this worker's
    uint64_t data_bytes = 0;            ///< this worker's matrix, keys and labels
    BadLines bad_lines;                 ///< of the training files
    BadLines bad_test_lines;
    Metrics train;
    std::optional<Metrics> test;        ///< empty if there was no test
    UnseenFeatures unseen;              ///< of the test files
    Status tested;                      ///< why the test failed; the same for all workers
    std::vector<std::string> warnings;  ///< about the data, for the user; one sentence each
    TrainingTraffic traffic;
};

/// Every worker of the job calls it with the same options, then leaves the job. LrOptions::progress
/// is called by the first worker alone.
/// Errors: kReassigned: call it again, with the same `rounds`; kNotFound with LrRounds::are_over;
///     kInvalidArgument if the workers' options differ; kCancelled if reading the training files was
///     ended by LrRunOptions::stops_reading, and nothing was trained before; that of LrOptions::stop; those of the training files, the
///     solver and the cluster. An error of the test files, or a stop while they are read, does
///     not undo the training: it is in LrRun::tested
[[nodiscard]] Result<LrRun> run_lr(Client& client, const LrRunOptions& options, LrRounds& rounds);

}  // namespace weir::apps

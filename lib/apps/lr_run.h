// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One worker's whole part in training sparse logistic regression: read, train, test, count.

#include <optional>
#include <string>
#include <vector>

#include "lib/apps/lr_types.h"
#include "lib/apps/metrics.h"
#include "lib/apps/model.h"
#include "lib/apps/unseen_features.h"
#include "lib/data/libsvm_stream.h"
#include "lib/weir.h"

namespace weir::apps {

struct LrRunOptions {
    std::vector<std::string> train;
    std::vector<std::string> test;  ///< none: no test
    LrOptions solver;
    uint64_t skip_bad = 0;  ///< bad lines to leave out, per worker
    data::LabelMap labels;
    uint32_t threads = 1;  ///< that read, per worker
};

/// Lines that were left out of a set of files, by all workers.
struct BadLines {
    uint64_t count = 0;
    std::string first;  ///< what is wrong with one of them, and where it is
};

/// The same for all workers, but for what is marked.
struct LrRun {
    LrResult result;
    Model model;              ///< without test files: of the first worker only
    data::ReadReport read;    ///< this worker's
    uint64_t data_bytes = 0;  ///< this worker's: matrix, keys and labels
    BadLines bad_lines;       ///< of the training files
    BadLines bad_test_lines;
    Metrics train;
    std::optional<Metrics> test;  ///< none: not tested
    UnseenFeatures unseen;        ///< of the test files
    Status tested;                ///< what kept the test files from being read; the same for all
    std::vector<std::string> warnings;  ///< what a person should know of the data, a sentence each
    uint64_t bytes_sent = 0;            ///< between workers and servers, both ways
    uint64_t bytes_copied = 0;          ///< by all workers and servers
    uint64_t registered_bytes = 0;      ///< for all workers and servers
};

/// Every worker of the job calls it with the same options, then leaves the job.
/// Errors: kInvalidArgument if the workers' options differ; those of the training files, the
///     solver and the cluster. kCancelled if LrOptions::stop wanted an end while training files
///     were read. An error of the test files, or a wanted end while they were read, does not undo
///     the training: it is in LrRun::tested
[[nodiscard]] Result<LrRun> run_lr(Client& client, const LrRunOptions& options);

}  // namespace weir::apps

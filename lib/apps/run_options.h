// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RunOptions: what all trainings of `weir lr` are told of their files and of the job.

#include <cstdint>
#include <functional>
#include <string>

#include "lib/data/labels.h"
#include "lib/filter/filters.h"

namespace weir::apps {

struct RunOptions {
    uint64_t skip_bad = 0;  ///< how many bad lines each worker may leave out
    data::LabelMap labels;
    data::OptionNames names;  ///< what messages call skip_bad and labels
    /// Asked while files are read; may be empty. True: reading ends, and `stop` of the training says what becomes
    /// of it. Thread: any
    std::function<bool()> stops_reading;
    /// The job has OnWorkerLoss::kReassign: workers take their parts of the files as Client::take_work() gives them out.
    bool takes_work = false;
    std::string description;  ///< of the work, for Client::take_work()
    Filters filters;          ///< that pushes and pulls go through
};

}  // namespace weir::apps

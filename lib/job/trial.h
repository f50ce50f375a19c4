// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What would stop a job in this process: the first steps of Job::start(), without other ranks.

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/job/job.h"
#include "lib/job/job_checkpoints.h"
#include "lib/job/roles.h"
#include "transport/net/secret.h"

namespace weir {

/// What ends Job::start().
struct Obstacle {
    enum class Step : uint8_t {
        kOptions,
        kPlugins,
        kMeeting,
        kRoles,
        kContactFile,
        kFolders,
        kResume
    };
    Step step;
    Error why;
};

struct JobTrial {
    JobOptions options;
    uint32_t size = 1;  ///< ranks; where nobody says how many: the fewest that `options` need
    std::vector<Roles> parts;  ///< of this rank; where nobody says which: of the first and the last
    JobCheckpoints checkpoints;
    std::vector<Obstacle> obstacles;
    std::string folder_owner;  ///< the job that writes checkpoints to the folder; empty: none
};

/// Looks at all but the devices. It writes and removes a file in the folder for checkpoints.
[[nodiscard]] JobTrial try_start(const JobOptions& options, const Config& config);

/// Opens what each of `parts` opens: transports, an endpoint and the pools. Returns the names of the
/// transports. Leaves WEIR_PREFAULT out: a trial beside other programs does not take their memory.
/// Errors: what ends Job::start() there
[[nodiscard]] Result<std::string> try_devices(const JobTrial& trial, const Config& config,
                                              const transport::Secret& secret);

}  // namespace weir

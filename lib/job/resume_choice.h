// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a job goes on from: rank 0 chooses the checkpoint, and the other servers take the same one. They do
/// not look for it themselves, because a folder may show its files later on one host than on another.

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/checkpoint/chunk_check.h"
#include "lib/checkpoint/disk.h"
#include "lib/job/job.h"
#include "lib/job/job_checkpoints.h"

namespace weir {

/// Chooses the checkpoint. For rank 0. With --resume auto it reads the chunks until `end`:
/// one with damaged bytes is left out, because a job that is started again and again would end with each.
/// Errors: those of checkpoint::choose_checkpoint() and choose_newest_whole()
[[nodiscard]] Status choose_resumed(const JobOptions& options, checkpoint::Disk& disk,
                                    const checkpoint::CheckEnd& end, JobCheckpoints& plan);

/// What rank 0 has chosen, for the other ranks.
[[nodiscard]] std::string text_of_choice(const JobOptions& options, const JobCheckpoints& plan);

/// When a rank ends its search for a checkpoint that rank 0 sees.
struct SearchEnd {
    const Clock& clock;
    uint64_t at_ns = 0;
};

/// Takes the checkpoint that rank 0 has chosen, and waits for its manifest if the folder does not show it
/// yet. For the other servers.
/// Errors: kInvalidArgument if this rank was started otherwise, or sees another checkpoint of the same
///         number; kProtocol; those of read_manifest()
[[nodiscard]] Status take_choice(std::string_view choice, const JobOptions& options,
                                 checkpoint::Disk& disk, const SearchEnd& end,
                                 JobCheckpoints& plan);

}  // namespace weir

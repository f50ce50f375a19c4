// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// share_of_all: who does which pieces of the work in a job that does not deal it out anew.

#include <cstdint>

#include "lib/wire/work_share.h"
#include "lib/worker/client.h"

namespace weir {

/// Of so many pieces those of this worker, side by side, as Client::take_work() would deal them out at first. For jobs
/// that lose no worker: its round is 0.
[[nodiscard]] WorkShare share_of_all(const Client& client, uint32_t piece_count);

}  // namespace weir

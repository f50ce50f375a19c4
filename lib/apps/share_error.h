// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// share_error: what went wrong at one worker, said to all of them.

#include "lib/apps/block_exchange.h"

namespace weir::apps {

/// `outcome` becomes the error of the first worker that has one; it stays ok if nobody has. A
/// collective. Errors: the exchange's; kProtocol if what a worker sent is no error
[[nodiscard]] Status share_error(BlockExchange& exchange, Status& outcome);

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// agree_on_error: all workers get the error of one worker.

#include "lib/apps/lr/block_exchange.h"

namespace weir::apps {

/// Sets `outcome` on all workers to the error of the first worker (by index) that has one. It
/// stays ok if no worker has an error. A collective.
/// Errors: the exchange's; kProtocol if the words that the workers sent are not an encoded error
[[nodiscard]] Status agree_on_error(BlockExchange& exchange, Status& outcome);

}  // namespace weir::apps

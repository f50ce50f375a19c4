// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// agree_on_error: all workers learn what went wrong at one of them.

#include "lib/apps/block_exchange.h"

namespace weir::apps {

/// `outcome` becomes the error of the first worker that has one; it stays ok if nobody has. A
/// collective. Errors: the exchange's; kProtocol if what a worker sent is no error
[[nodiscard]] Status agree_on_error(BlockExchange& exchange, Status& outcome);

}  // namespace weir::apps

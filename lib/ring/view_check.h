// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules that every view obeys.

#include "lib/base/result.h"
#include "lib/ring/view_data.h"

namespace weir {

/// Whether the data are a view: lists in order and within ViewLimits; numbers below the next ones;
/// the segments cover the ring; every shard, server and worker that is named is listed; no two
/// copies of a segment on one server; no epoch beyond the view's.
///
/// Errors: Errc::kInvalidArgument naming the first thing that is wrong
[[nodiscard]] Status check_view(const ViewData& view);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The rules that every view obeys, and those from one view to the next.

#include "lib/base/result.h"
#include "lib/ring/view_data.h"

namespace weir {

/// Whether the data are a view: lists in order and within ViewLimits; numbers below the next ones;
/// the segments cover the ring; every shard, server and worker that is named is listed; no two
/// copies of a segment on one server; no epoch beyond the view's.
///
/// Errors: Errc::kInvalidArgument naming the first thing that is wrong
[[nodiscard]] Status check_view(const ViewData& view);

/// Whether `after` may follow `before`, both of them views: the epoch goes up; numbers are not
/// used twice; segments are cut and never joined, and not cut while they have a learner; each
/// shard's `since` is right; a shard becomes primary only if it was a learner or backup of the
/// segment under the same primary; no server both loses a primary role and gets one.
///
/// Errors: Errc::kInvalidArgument naming the first thing that is wrong
[[nodiscard]] Status check_view_step(const ViewData& before, const ViewData& after);

}  // namespace weir

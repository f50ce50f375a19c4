// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// plot_filters: the results of `weir bench filters` as SVG text.

#include <span>
#include <string>

#include "bench/jobs/filters/filter_report.h"

namespace weir::bench {

/// A panel for each kind of call and of change, with a bar for each list of filters: the speedup, on a
/// logarithmic axis around 1.
[[nodiscard]] std::string plot_filters(std::span<const FilterRow> rows, const std::string& title);

}  // namespace weir::bench

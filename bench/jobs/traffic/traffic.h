// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench traffic`: what the training of `weir lr` sends, with one filter more each time.

#include <string>
#include <vector>

#include "bench/jobs/traffic/traffic_report.h"
#include "bench/jobs/work.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one reports.
[[nodiscard]] Status bench_traffic(Client& client, const BenchFlags& flags, const JobShape& shape);

/// The same of these files. `report`: gets the rows; null: of another worker than the first
[[nodiscard]] Status measure_traffic(Client& client, const BenchFlags& flags,
                                     const std::vector<std::string>& files, TrafficReport* report);

}  // namespace weir::bench

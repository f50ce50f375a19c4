// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir doctor`: what would stop a job on this host, and what to do about it.

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "tools/weir/doctor/finding.h"
#include "tools/weir/info/info_report.h"

namespace weir::tools {

struct DoctorFlags {
    std::string other;   ///< HOST:PORT where another one listens; empty: this host alone
    std::string listen;  ///< [HOST:]PORT where this one does; empty: it does not
    uint32_t wait_s = 600;
    std::string json;  ///< as --json says
};

[[nodiscard]] std::vector<Finding> find_faults(const InfoReport& report, const Config& config);

/// Returns kExitFailure if there is a problem.
int run_doctor(const DoctorFlags& flags, const Config& config);

}  // namespace weir::tools

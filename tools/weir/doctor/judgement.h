// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How good it is what two `weir doctor` have learned of each other.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/weir/doctor/finding.h"

namespace weir::tools {

/// "0.1" of "0.1.2": versions that have it in common work together (lib/versions.md).
[[nodiscard]] std::string_view minor_version(std::string_view version);
/// None if they are the same.
[[nodiscard]] std::vector<Finding> judge_versions(std::string_view here, std::string_view there);

[[nodiscard]] std::string rate_text(double bytes_per_s);

/// A rate beside the one that nothing exceeds.
struct Limit {
    double bytes_per_s = 0;
    std::string what;  ///< "of a plain TCP stream"
};

/// Good from 0.4 of the limit on; below, something is in the way.
[[nodiscard]] Finding judge_rate(const std::string& subject, double bytes_per_s, const Limit& limit,
                                 const std::string& advice);

struct LinkRate {
    double bytes_per_s = 0;
    std::string text;  ///< of the driver: "100 Gb/sec (4X EDR)"
};

/// Of the first active port of the RDMA device that `device` names, or of the first one with such a port.
/// folder: /sys/class/infiniband, where drivers say it. 0: they do not
[[nodiscard]] LinkRate link_rate(const std::filesystem::path& folder, std::string_view device);

/// A transfer over verbs beside what its link can do; where that is not known, beside a TCP stream.
[[nodiscard]] Finding judge_verbs(double bytes_per_s, double stream_bytes_per_s,
                                  const LinkRate& link);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags by which a job writes checkpoints and goes on from one.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/weir/job_flags.h"

namespace CLI {
class App;
}

namespace weir::tools {

/// How often something happens: after some time, or after some iterations.
struct Interval {
    std::chrono::nanoseconds time{};  ///< 0: not by time
    uint64_t iterations = 0;          ///< 0: not by them
    friend bool operator==(const Interval&, const Interval&) = default;
};

/// A number of seconds, minutes or hours (30s, 10m, 2h), or a number of iterations (5000). Nothing if
/// it is neither, or zero.
[[nodiscard]] std::optional<Interval> parse_interval(std::string_view text) noexcept;

void add_checkpoint_flags(CLI::App& command, JobFlags& job);

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// EndRule: when passes over examples in memory have come near enough to the optimum.

#include <cstdint>

#include "lib/apps/lr/lr_types.h"
#include "lib/base/result.h"

namespace weir::apps {

/// Errors: kInvalidArgument for options out of their range
[[nodiscard]] Status check_options(const LrOptions& options);

/// The functions with a result ask it of the pass that has just ended: pass_count and objective are those after it, and
/// the history ends with the pass before.
///
/// Pure and deterministic. Thread: one
class EndRule {
public:
    EndRule() = default;

    /// `pass_ns`: about how long a pass takes.
    EndRule(double tolerance, double pass_ns) noexcept;

    /// A lower bound of the optimum that was measured after the pass; 0: none.
    void take_bound(const LrResult& result, double bound) noexcept;

    /// It is measured after so many passes.
    void measure_gap_from(uint32_t pass) noexcept { next_gap_pass_ = pass; }

    /// From the best lower bound so far, relative; infinity while there is none.
    [[nodiscard]] double gap(double objective) const noexcept;

    /// Whether measuring the gap may end the training.
    [[nodiscard]] bool gap_is_due(const LrResult& result) const noexcept;

    /// Whether the gap is unknown, or near enough to the tolerance for a pass over all features before its
    /// time. Else it is measured after the next such pass.
    [[nodiscard]] bool gap_is_hopeful(const LrResult& result) const noexcept;

    [[nodiscard]] bool progress_has_ended(const LrResult& result) const noexcept;

private:
    double tolerance_ = 0;
    double pass_count_min_ = 0;  ///< passes before "no progress" may end the training
    double bound_ = 0;           ///< the best one
    uint32_t next_gap_pass_ = 5;
};

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleParameters: the numbers that an update rule takes.

#include <array>

namespace weir {

/// The numeric parameters of a rule, the same as long as a table lives. Each rule says which is which.
struct RuleParameters {
    std::array<double, 8> value{};
    friend bool operator==(const RuleParameters&, const RuleParameters&) = default;
};

}  // namespace weir

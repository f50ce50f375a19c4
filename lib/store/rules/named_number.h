// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NamedNumber: a number, and what it is for.

#include <string_view>

namespace weir {

/// An argument of a rule.
struct NamedNumber {
    std::string_view name;
    double value = 0;
};

}  // namespace weir

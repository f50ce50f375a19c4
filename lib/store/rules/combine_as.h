// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CombineAs: how the servers combine what several workers push in an iteration, where a rule chooses it.

#include "lib/key/combine.h"
#include "lib/key/value_type.h"

namespace weir {

/// Chosen by the arguments of the iteration, for rows that hold values of a type that they choose, too.
/// Not kMean.
struct CombineAs {
    Combine combine = Combine::kSum;
    ValueType type = ValueType::kUInt64;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Several devices as one: a process that talks over shared memory to its neighbours and over verbs
/// to everybody else has one endpoint per thread all the same.

#include <memory>
#include <vector>

#include "transport/transport.h"

namespace weir::transport {

/// At most so many devices can be combined.
inline constexpr size_t kMultiChildrenMax = 8;

/// Combines devices, the preferred ones first. An endpoint's address is its children's, joined by
/// ';'; connect() takes the first child that can reach the part which begins with its name.
/// capabilities() is what all children can do, capabilities_of() what the connection's child can.
/// One device is returned as it is. Errors: kInvalidArgument if there are none or too many
[[nodiscard]] Result<std::unique_ptr<Device>> combine(
    std::vector<std::unique_ptr<Device>> children);

}  // namespace weir::transport

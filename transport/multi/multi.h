// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Combines several devices into one: a process that reaches its neighbours over shared memory
/// and other hosts over verbs still has one endpoint per thread.

#include <memory>
#include <vector>

#include "transport/transport.h"

namespace weir::transport {

/// The most devices that can be combined.
inline constexpr size_t kMultiChildrenMax = 8;

/// Combines devices, the preferred ones first. An endpoint's address is its children's, joined by
/// ';'. connect() takes the first child that can reach the part that begins with its name. If that
/// fails before the connection is made, and not because the peer refuses, it tries the next.
/// capabilities() is what all children can do, capabilities_of() what the connection's child can.
/// A single device is returned as it is.
/// Errors:  kInvalidArgument if there are none or too many
[[nodiscard]] Result<std::unique_ptr<Device>> combine(
    std::vector<std::unique_ptr<Device>> children);

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What people are told of a message that decode() refuses.

#include <cstddef>
#include <span>
#include <string_view>

namespace weir::wire {

/// What was sent, as in "it sent a malformed frame"; other versions of Weir are named as such.
[[nodiscard]] std::string_view fault_of(std::span<const std::byte> message) noexcept;

}  // namespace weir::wire

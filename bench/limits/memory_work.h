// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limits of pushes and pulls: the best that one core can do with plain arrays, in compiled
/// loops without tables, checks or messages.

#include <cstddef>
#include <cstdint>

namespace weir::limits {

/// table[i] += deltas[i]
void add_buffer(float* table, const float* deltas, size_t count) noexcept;

/// memcpy
void copy_buffer(std::byte* to, const std::byte* from, size_t bytes) noexcept;

/// values[slots[i]] += deltas[i], prefetched.
void add_through_slots(float* values, const uint32_t* slots, const float* deltas,
                       size_t count) noexcept;

/// out[i] = values[slots[i]], prefetched.
void read_through_slots(const float* values, const uint32_t* slots, float* out,
                        size_t count) noexcept;

}  // namespace weir::limits

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What codecs are measured against: bare loops with nothing of ours, that know what the codecs must
/// find out, check nothing, and have room behind their output.

#include <cstddef>
#include <cstdint>

namespace weir::bench {

/// A bit of `bitmap` for each float that is not zero, and these packed. Returns how many.
size_t bare_pack(const float* values, size_t count, uint64_t* bitmap, float* packed);
/// The floats whose bits are set, packed. Returns how many.
size_t bare_choose(const float* values, size_t count, const uint64_t* bitmap, float* packed);
/// The reverse of both.
void bare_expand(const uint64_t* bitmap, const float* packed, size_t count, float* values);
/// The indices of the bits that are set. Returns how many.
size_t bare_list(const uint64_t* bitmap, size_t count, uint32_t* indices);

/// Floats that are integers below 2^16.
void bare_narrow(const float* values, size_t count, uint16_t* narrow);
void bare_widen(const uint16_t* narrow, size_t count, float* values);

/// Differences below 2^16 of ascending keys.
void bare_differences(const uint64_t* keys, size_t count, uint16_t* differences);
void bare_sums(const uint16_t* differences, size_t count, uint64_t* keys);

/// A product of two matrices.
inline constexpr size_t kBareRank = 8;
void bare_multiply(const float* left, const float* right, size_t rows, size_t width,
                   float* product);

}  // namespace weir::bench

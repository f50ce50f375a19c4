// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/memory_work.h"

#include <cstring>

#include "lib/base/kernel.h"

namespace weir::limits {
namespace {

constexpr size_t kSlotsAhead = 32;  // the best of 8, 16, 32, 64, 128 on Sapphire Rapids

}  // namespace

WEIR_KERNEL void add_buffer(float* table, const float* deltas, size_t count) noexcept {
    float* __restrict to = table;
    const float* __restrict from = deltas;
    for (size_t i = 0; i < count; ++i)
        to[i] += from[i];
}

void copy_buffer(std::byte* to, const std::byte* from, size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
}

WEIR_KERNEL void add_through_slots(float* values, const uint32_t* slots, const float* deltas,
                                   size_t count) noexcept {
    size_t i = 0;
    for (; i + kSlotsAhead < count; ++i) {
        __builtin_prefetch(&values[slots[i + kSlotsAhead]], 1);
        values[slots[i]] += deltas[i];
    }
    for (; i < count; ++i)
        values[slots[i]] += deltas[i];
}

WEIR_KERNEL void read_through_slots(const float* values, const uint32_t* slots, float* out,
                                    size_t count) noexcept {
    size_t i = 0;
    for (; i + kSlotsAhead < count; ++i) {
        __builtin_prefetch(&values[slots[i + kSlotsAhead]]);
        out[i] = values[slots[i]];
    }
    for (; i < count; ++i)
        out[i] = values[slots[i]];
}

}  // namespace weir::limits

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/round.h"

#include "lib/base/kernel.h"
#include "lib/base/random.h"
#include "lib/filter/select/block_round.h"

namespace weir {
namespace {

/// Has `exact` become the rests.
WEIR_KERNEL void subtract(float* __restrict exact, const float* __restrict sent,
                          size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        exact[i] -= sent[i];
}

}  // namespace

Status Round::check(const RowKind& rows) const {
    if (rows.type != ValueType::kFloat32)
        return Error(
            Errc::kTypeMismatch,
            "round: only for tables that are pushed to in float32: others have no such forms");
    if (options_.adds_rests && rows.combine != Combine::kSum)
        return Error(
            Errc::kInvalidArgument,
            "round: the rests of rounding are only for tables whose rule sums what workers push");
    return {};
}

void Round::hold_rests(const PushedRows& push, HeldBack& held, const Selection& selection) {
    subtract(reinterpret_cast<float*>(merged_.values.data()),
             reinterpret_cast<const float*>(selection.values.data()),
             selection.values.size() / sizeof(float));
    reset_bits(unheld_, push.keys.size());
    held.settle(push.keys, merged_.slots, merged_.values, unheld_);
}

Status Round::select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                     Selection& selection) {
    const size_t value_count = push.keys.size() * rows.width;
    if (options_.adds_rests) held.merge(push.keys, push.values, merged_);
    const std::byte* const values =
        options_.adds_rests ? merged_.values.data() : push.values.data();
    reset_bits(selection.kept, push.keys.size(), true);
    selection.kept_count = push.keys.size();
    selection.values.resize(value_count * sizeof(float));
    const std::span exact(reinterpret_cast<const float*>(values), value_count);
    const std::span rounded(reinterpret_cast<float*>(selection.values.data()), value_count);
    if (!round_values(options_.form, exact, mix64(options_.seed) + mix64(++calls_), rounded))
        return Error(Errc::kOutOfRange,
                     "round: a pushed value is too great to be rounded: float16 goes up to 65504, "
                     "the others up to 2^126; choose another form, or push smaller values");
    if (options_.adds_rests) hold_rests(push, held, selection);
    return {};
}

}  // namespace weir

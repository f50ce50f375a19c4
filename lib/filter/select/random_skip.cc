// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/random_skip.h"

#include <algorithm>
#include <cmath>

#include "lib/base/random.h"
#include "lib/key/finite.h"

namespace weir {
namespace {

template <class T>
void scale(std::vector<std::byte>& values, double factor) noexcept {
    T* const typed = reinterpret_cast<T*>(values.data());
    for (size_t i = 0; i < values.size() / sizeof(T); ++i)
        typed[i] = static_cast<T>(static_cast<double>(typed[i]) * factor);
}

}  // namespace

RandomSkip::RandomSkip(double q, uint64_t seed)
    : is_valid_(q > 0 && q <= 1), below_(1), seed_(seed) {
    if (is_valid_) below_ = std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(q * 0x1p32)));
}

Status RandomSkip::check(const RowKind& rows) const {
    if (!is_valid_)
        return Error(Errc::kInvalidArgument, "random skip: q must be above 0 and at most 1");
    if (rows.combine != Combine::kSum)
        return Error(Errc::kInvalidArgument,
                     "random skip: only for tables whose rule sums what workers push");
    if (!is_floating(rows.type))
        return Error(Errc::kTypeMismatch,
                     "random skip: only for tables of floats: integers cannot be divided by q");
    return {};
}

Status RandomSkip::select(const RowKind& rows, const PushedRows& push, HeldBack& /*held*/,
                          Selection& selection) {
    const size_t count = push.keys.size();
    Random draws(mix64(seed_ + mix64(++calls_)));
    reset_bits(selection.kept, count);
    for (size_t i = 0; i < count; ++i)
        selection.kept[i / 8] |= static_cast<std::byte>(unsigned{draws() >> 32 < below_} << i % 8);
    selection.keep_of(push.values, rows.row_bytes());
    if (below_ == uint64_t{1} << 32) return {};
    const double factor = 0x1p32 / static_cast<double>(below_);
    rows.type == ValueType::kFloat32 ? scale<float>(selection.values, factor)
                                     : scale<double>(selection.values, factor);
    if (!all_finite(rows.type, selection.values.data(), selection.kept_count * rows.width))
        return Error(Errc::kNotFinite, "random skip: a pushed value divided by q is infinite");
    return {};
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/tail.h"

#include <utility>

namespace weir {

Result<Tail> Tail::make(const Options& options) {
    WEIR_ASSIGN(CountSketch sketch,
                CountSketch::make(options.width, options.depth, options.first_kept, options.seed));
    return Tail(options.first_kept, std::move(sketch));
}

Status Tail::check(const RowKind& /*rows*/) const {
    return {};
}

Status Tail::select(const RowKind& rows, const PushedRows& push, HeldBack& /*held*/,
                    Selection& selection) {
    constexpr size_t kAhead = 8;
    const size_t count = push.keys.size();
    reset_bits(selection.kept, count);
    for (size_t i = 0; i < count; ++i) {
        if (i + kAhead < count) sketch_.prefetch(push.keys[i + kAhead]);
        if (sketch_.add(push.keys[i]) >= first_kept_) set_bit(selection.kept, i);
    }
    selection.keep_of(push.values, rows.row_bytes());
    return {};
}

}  // namespace weir

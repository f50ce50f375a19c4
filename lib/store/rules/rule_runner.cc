// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_runner.h"

#include <algorithm>
#include <numeric>

#include "lib/store/row_copy.h"

namespace weir {

void RuleRunner::run(const RowTarget& target, uint32_t first_row, size_t row_count,
                     const std::byte* pushed) const {
    const bool flat = is_flat(target);
    while (row_count > 0) {
        size_t some = 0;
        if (flat) {
            some = std::min<size_t>(row_count, target.values.run(first_row));
            if (state_values_ != 0) some = std::min<size_t>(some, target.state.run(first_row));
            kernels_.run(target.values.at(first_row),
                         state_values_ != 0 ? target.state.at(first_row) : nullptr, pushed,
                         some * target.width, parameters_);
        } else {
            constexpr size_t kChunk = 256;
            uint32_t rows[kChunk];
            some = std::min(row_count, kChunk);
            std::iota(rows, rows + some, first_row);
            kernels_.rows(target, std::span(rows, some), pushed, parameters_);
        }
        first_row += static_cast<uint32_t>(some);
        row_count -= some;
        pushed += some * pushed_row_bytes(target);
    }
}

void RuleRunner::rows(const RowTarget& target, std::span<const uint32_t> rows,
                      const std::byte* pushed) const {
    constexpr size_t kChunk = 4096;     // rows until the next search for a run
    constexpr size_t kRunRowsMin = 32;  // a shorter run is not worth the call
    const bool flat = is_flat(target);
    while (!rows.empty()) {
        size_t some = 0;
        const bool maybe_run = flat && rows.size() >= kRunRowsMin &&
                               rows[kRunRowsMin - 1] == rows[0] + kRunRowsMin - 1;
        if (maybe_run) some = consecutive_rows(rows);
        if (some >= kRunRowsMin) {
            run(target, rows[0], some, pushed);
        } else {
            some = std::min(rows.size(), kChunk);
            kernels_.rows(target, rows.first(some), pushed, parameters_);
        }
        rows = rows.subspan(some);
        pushed += some * pushed_row_bytes(target);
    }
}

}  // namespace weir

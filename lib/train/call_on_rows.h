// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// call_on_rows(), prune(): functions on all rows of a table whose keys nobody knows.

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/train/sweep_plan.h"
#include "lib/worker/table.h"

namespace weir {

/// Keys of rows, as scans give them, in lists for calls.
class ListedKeys {
public:
    static constexpr size_t kListKeys = size_t{1} << 16;

    /// Calls use(keys) for lists of all that for_each(key) gives: `use` returns a Status.
    template <Value T, class Chosen, class Use>
    [[nodiscard]] static Status of(Scan<T>& scan, const Chosen& is_chosen, const Use& use) {
        std::vector<uint64_t> keys;
        const auto flush = [&]() -> Status {
            if (keys.empty()) return {};
            SweepPlan::make_list(keys);
            Status used = use(keys);
            keys.clear();
            return used;
        };
        while (scan.next()) {
            const std::span<const uint64_t> some = scan.keys();
            for (size_t i = 0; i < some.size(); ++i) {
                if (is_chosen(scan, i)) keys.push_back(some[i]);
            }
            if (keys.size() >= kListKeys) WEIR_TRY(flush());
        }
        WEIR_TRY(scan.status());
        return flush();
    }
};

/// Calls a function that changes on all rows that `keys_of` has, such as those of the table that it reads: list by
/// list, as a scan finds them, in a sparse table; at once in a dense one. Rows that come meanwhile may be left out. It
/// is no one instant: pushes go on in between. FunctionOptions::deadline is that of each list.
///
/// Errors: as Scan::status() and Table::call(); lists before the one with an error have been changed
/// Thread: the client's; blocks
template <Value T>
[[nodiscard]] Status call_on_rows(Table<T>& table, std::string_view function, Table<T>& keys_of,
                                  FunctionOptions options = {}) {
    if (table.schema().layout == Layout::kDense) return table.call(function, options).wait();
    Scan<T> scan = keys_of.scan({.has_values = false, .after = std::move(options.after)});
    options.after.clear();
    return ListedKeys::of(
        scan, [](const Scan<T>&, size_t) { return true; },
        [&](const std::vector<uint64_t>& keys) {
            return table.call(function, keys, options).wait();
        });
}

/// The rows of the table itself.
template <Value T>
[[nodiscard]] Status call_on_rows(Table<T>& table, std::string_view function,
                                  const FunctionOptions& options = {}) {
    return call_on_rows(table, function, table, options);
}

/// Erases the rows of an erasable table whose values are all smaller in size than `below`: a scan finds them, and
/// servers judge again when they erase a list, so that a row which was pushed meanwhile stays if it has become large.
/// Returns how many were found.
///
/// Errors: as Scan::status() and Table::prune()
/// Thread: the client's; blocks
template <Value T>
[[nodiscard]] Result<uint64_t> prune(Table<T>& table, double below) {
    uint64_t found = 0;
    Scan<T> scan = table.scan();
    const size_t width = table.width();
    const auto is_small = [&](const Scan<T>& at, size_t row) {
        for (const T value : at.values().subspan(row * width, width)) {
            if (!(std::abs(static_cast<double>(value)) < below)) return false;
        }
        ++found;
        return true;
    };
    WEIR_TRY(ListedKeys::of(scan, is_small, [&](const std::vector<uint64_t>& keys) {
        return table.prune(keys, below).wait();
    }));
    return found;
}

}  // namespace weir

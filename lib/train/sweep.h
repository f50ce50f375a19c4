// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// sweep(): keeps a table that always gets new keys within limits.

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/train/sweep_plan.h"
#include "lib/worker/table.h"

namespace weir {

/// What a sweep has done.
struct Swept {
    uint64_t rows_counted = 0;
    uint64_t rows_chosen = 0;  ///< they have expired, unless they were pushed meanwhile
    uint32_t cut = 0;          ///< all of them had a lower stamp
};

/// Reads the stamps of an erasable table twice, and lets rows expire that are too old, or too many. Workers may
/// push meanwhile: a row that is pushed with a stamp of at least Swept::cut after it was chosen stays. One
/// worker sweeps at a time; servers never do by themselves.
///
/// Errors: as Scan::status() and Table::expire(); kInvalidArgument if the floor is above the cap
/// Thread: the client's; blocks
template <Value T>
[[nodiscard]] Result<Swept> sweep(Table<T>& table, const SweepLimits& limits) {
    constexpr size_t kListKeys = size_t{1} << 16;
    WEIR_ASSIGN(SweepPlan plan, SweepPlan::make(limits, sizeof(uint64_t) + table.row_bytes()));
    const ScanOptions only_stamps{.has_stamps = true, .has_values = false};
    {
        Scan<T> scan = table.scan(only_stamps);
        while (scan.next())
            plan.count(scan.stamps());
        WEIR_TRY(scan.status());
    }
    plan.decide();
    Swept swept{plan.rows_counted(), plan.left(), plan.cut()};
    if (plan.left() == 0) return swept;
    std::vector<uint64_t> keys;
    const auto expire = [&]() -> Status {
        if (keys.empty()) return {};
        SweepPlan::make_list(keys);
        Status expired = table.expire(keys, plan.cut()).wait();
        keys.clear();
        return expired;
    };
    Scan<T> scan = table.scan(only_stamps);
    while (plan.left() > 0 && scan.next()) {
        const std::span<const uint64_t> some = scan.keys();
        for (size_t i = 0; i < some.size(); ++i) {
            if (plan.choose(scan.stamps()[i])) keys.push_back(some[i]);
        }
        if (keys.size() >= kListKeys) WEIR_TRY(expire());
    }
    WEIR_TRY(scan.status());
    swept.rows_chosen -= plan.left();
    WEIR_TRY(expire());
    return swept;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SweepPlan: which rows of a table are to expire, by their stamps.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// What a sweep leaves in a table. Rows go in the order of their stamps, the lowest first; of equal ones any.
struct SweepLimits {
    uint32_t before = 0;    ///< rows with a lower stamp go; 0: none for its age
    uint64_t rows_min = 0;  ///< the floor: so many stay whatever their stamps
    uint64_t bytes_max =
        0;  ///< the cap, of rows with their keys, as Table::row_bytes() says; 0: none
};

/// First it counts the stamps of all rows, then it says of each row whether that goes. Between the two no
/// more rows are chosen than were too many when they were counted, whatever came meanwhile.
///
/// Thread: one
class SweepPlan {
public:
    /// `row_bytes`: of one row, with its key.
    /// Errors: Errc::kInvalidArgument if the floor is above the cap
    [[nodiscard]] static Result<SweepPlan> make(const SweepLimits& limits, uint64_t row_bytes);

    SweepPlan(SweepPlan&& other) noexcept;
    SweepPlan(const SweepPlan&) = delete;
    SweepPlan& operator=(SweepPlan&&) = delete;
    SweepPlan& operator=(const SweepPlan&) = delete;
    ~SweepPlan();

    /// Makes a list of keys that were chosen: ascending, each once.
    static void make_list(std::vector<uint64_t>& keys);

    void count(std::span<const uint32_t> stamps);
    /// All have been counted.
    void decide();

    [[nodiscard]] uint64_t rows_counted() const noexcept { return rows_; }

    /// How many are still to be chosen.
    [[nodiscard]] uint64_t left() const noexcept { return left_; }

    /// Rows with a lower stamp may be chosen; 0: none.
    [[nodiscard]] uint32_t cut() const noexcept { return cut_; }

    /// Whether a row with this stamp is chosen: then it is counted.
    [[nodiscard]] bool choose(uint32_t stamp) noexcept;

private:
    SweepPlan(const SweepLimits& limits, uint64_t rows_max) noexcept;

    SweepLimits limits_;
    uint64_t rows_max_;
    std::map<uint32_t, uint64_t> rows_of_;  ///< by stamp
    uint64_t rows_ = 0;
    uint32_t cut_ = 0;
    uint64_t left_ = 0;          ///< to be chosen
    uint64_t left_of_last_ = 0;  ///< those of them with the highest stamp, cut_ - 1
};

}  // namespace weir

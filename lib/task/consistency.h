// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Consistency: which earlier iterations must be finished before an iteration begins. Staleness:
/// how old the values were that pulls showed.

#include <cstdint>

namespace weir {

/// Iterations count from 1. With a bound tau, iteration t begins once all of {1 .. t - tau - 1}
/// are finished.
///
/// Source:  Li et al., OSDI 2014, section 3.4
class Consistency {
public:
    /// An iteration begins when all before it are finished. The same as bounded(0).
    [[nodiscard]] static constexpr Consistency sequential() noexcept { return bounded(0); }

    [[nodiscard]] static constexpr Consistency bounded(uint64_t tau) noexcept {
        return Consistency(tau, false);
    }

    /// An iteration begins at any time.
    [[nodiscard]] static constexpr Consistency eventual() noexcept { return {kNoBound, true}; }

    [[nodiscard]] constexpr bool is_eventual() const noexcept { return is_eventual_; }

    /// The bound; 2^64 - 1 if it is eventual.
    [[nodiscard]] constexpr uint64_t tau() const noexcept { return tau_; }

    /// This iteration and all before it must be finished before `iteration` begins; 0: none. It is
    /// also the oldest iteration that a pull of `iteration` may show.
    [[nodiscard]] constexpr uint64_t finished_before(uint64_t iteration) const noexcept {
        return is_eventual_ || iteration <= tau_ ? 0 : iteration - tau_ - 1;
    }

    /// How many iterations may be open at the same time, tau + 1; 2^64 - 1 if there is no bound
    /// below that.
    [[nodiscard]] constexpr uint64_t open_max() const noexcept {
        return tau_ == kNoBound ? kNoBound : tau_ + 1;
    }

    friend constexpr bool operator==(Consistency, Consistency) noexcept = default;

private:
    static constexpr uint64_t kNoBound = ~uint64_t{0};

    constexpr Consistency(uint64_t tau, bool is_eventual) noexcept
        : tau_(tau), is_eventual_(is_eventual) {}

    uint64_t tau_;
    bool is_eventual_;
};

/// Counts the staleness of pulls. Thread: one.
class Staleness {
public:
    /// How many of the iterations before `iteration` are not in values that show `shown`; 0 if
    /// they show later ones.
    [[nodiscard]] static constexpr uint64_t of(uint64_t iteration, uint64_t shown) noexcept {
        return iteration <= shown ? 0 : iteration - shown - 1;
    }

    /// A pull of `iteration` showed iteration `shown`.
    constexpr void count(uint64_t iteration, uint64_t shown) noexcept {
        const uint64_t one = of(iteration, shown);
        ++pulls_;
        sum_ += one;
        max_ = one > max_ ? one : max_;
    }

    /// Adds the pulls that another worker counted.
    constexpr void add(const Staleness& other) noexcept {
        pulls_ += other.pulls_;
        sum_ += other.sum_;
        max_ = other.max_ > max_ ? other.max_ : max_;
    }

    [[nodiscard]] constexpr uint64_t pulls() const noexcept { return pulls_; }

    /// 0 if there were no pulls.
    [[nodiscard]] constexpr double mean() const noexcept {
        return pulls_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(pulls_);
    }

    [[nodiscard]] constexpr uint64_t max() const noexcept { return max_; }

private:
    uint64_t pulls_ = 0;
    __extension__ unsigned __int128 sum_ = 0;  // cannot overflow: below 2^64 pulls, each below 2^64
    uint64_t max_ = 0;
};

}  // namespace weir

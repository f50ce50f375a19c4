// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KktFilter: the features that a pass over lists of features keeps, if those at rest are left out.

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

/// Features side by side: from begin up to, but not including, end.
struct FeatureRange {
    uint64_t begin = 0;
    uint64_t end = 0;

    [[nodiscard]] uint64_t size() const noexcept { return end - begin; }

    friend bool operator==(const FeatureRange&, const FeatureRange&) = default;
};

/// For a loss with an L1 penalty lambda. A feature is at rest while its weight is 0 and its gradient is
/// safely within lambda (the condition of Karush, Kuhn and Tucker, with a margin): the step of a pass would
/// leave it at 0. It need not be pushed and pulled until it is looked at again.
///
/// All workers that have a feature must keep it or leave it out together. If one of them left it out alone, the
/// server would step by the gradient and the curvature of the others, and a step by too little curvature is
/// too long. So a worker never judges by its own part of the gradient. The server judges by the sum, and says
/// so in the pulled weight (is_at_rest() in lib/base/prox.h): the choice depends on nothing else, and workers
/// that have pulled the same iterations choose alike. Nothing is sent for it.
///
/// Pure and deterministic. Thread: one
/// Source: Li et al., OSDI 2014, section 5.1, and NIPS 2014, section 4.1
class KktFilter {
public:
    KktFilter() = default;

    /// List i has the features from list_begin[i] up to, but not including, list_begin[i + 1]. Keeps all.
    ///
    /// Shape:  keys.size() == list_begin.back(), by feature
    /// Borrow: both, as long as the filter is used
    KktFilter(std::span<const uint64_t> list_begin, std::span<const uint64_t> keys);

    void keep_all();
    /// Leaves out the features that are at rest.
    /// Shape:  by feature
    void leave_out_resting(std::span<const double> weights);

    [[nodiscard]] bool keeps_all() const noexcept { return keeps_all_; }

    /// What is kept of a list: ranges of features, and their keys in the same order. Valid until the next choice.
    [[nodiscard]] std::span<const FeatureRange> ranges(uint64_t list) const noexcept;
    [[nodiscard]] std::span<const uint64_t> keys(uint64_t list) const noexcept;

    /// How many features are kept of the lists before `list`.
    [[nodiscard]] uint64_t kept_before(uint64_t list) const noexcept { return kept_begin_[list]; }

    /// Calls visit(feature) for each that is left out, ascending.
    template <class Visit>
    void for_each_left_out(Visit visit) const {
        uint64_t next = 0;
        for (const FeatureRange& kept : ranges_) {
            for (; next < kept.begin; ++next)
                visit(next);
            next = kept.end;
        }
        for (; next < all_keys_.size(); ++next)
            visit(next);
    }

private:
    std::span<const uint64_t> list_begin_;
    std::span<const uint64_t> all_keys_;
    bool keeps_all_ = true;
    std::vector<FeatureRange> ranges_;   ///< of all lists; none is in two lists
    std::vector<uint64_t> range_begin_;  ///< by list: its first of ranges_; one more at the end
    std::vector<uint64_t> kept_begin_;   ///< by list: features kept before it; one more at the end
    std::vector<uint64_t> kept_keys_;    ///< unless all are kept
};

}  // namespace weir

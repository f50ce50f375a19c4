// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeatureOwners: which features of a worker others have, too, so that sums over workers count each once.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/apps/lr/block_exchange.h"
#include "lib/apps/model.h"
#include "lib/base/result.h"

namespace weir::apps {

/// All workers make the same calls of the functions with an exchange, in the same order: each is a collective.
/// Thread: the worker's own
class FeatureOwners {
public:
    FeatureOwners() = default;

    /// List i of this worker's features has those from list_begin[i] up to, but not including, list_begin[i + 1]. All
    /// workers have as many lists, and a feature is in the same one everywhere.
    ///
    /// Shape:  keys sorted, unique within a list; scratch: from make_buffer(), as long as the longest list
    /// Borrow: keys and list_begin, as long as the object is used
    /// Errors: those of the exchange, as in all functions here
    [[nodiscard]] static Result<FeatureOwners> find(BlockExchange& exchange,
                                                    std::span<const uint64_t> keys,
                                                    std::span<const uint64_t> list_begin,
                                                    std::span<double> scratch);

    /// Different features of all workers.
    [[nodiscard]] uint64_t feature_count() const noexcept { return feature_count_; }

    /// 1 / (number of workers that have the feature). Each of them counts this part of what belongs to the
    /// feature, so that sums over workers count it once.
    [[nodiscard]] double counted_part(uint64_t feature) const noexcept {
        return is_alone_ ? 1.0 : 1.0 / owner_count_[feature];
    }

    /// No worker before this one has the feature.
    [[nodiscard]] bool is_mine(uint64_t feature) const noexcept {
        return is_alone_ || is_mine_[feature];
    }

    /// Replaces the values of a list's features by their sums over the workers that have them.
    ///
    /// Shape:  values by feature of the list; scratch as in find()
    [[nodiscard]] Status sum_by_feature(BlockExchange& exchange, uint64_t list,
                                        std::span<double> values, std::span<double> scratch) const;

    /// The weights that are not 0, of all workers' features. One worker sends each to the servers; every worker
    /// that wants the model receives it once.
    ///
    /// Shape:  weights: `width` of each feature
    /// wanted: false: this worker only contributes, and gets an empty model
    [[nodiscard]] Result<Model> gather(BlockExchange& exchange, std::span<const double> weights,
                                       size_t width, bool wanted) const;

private:
    /// Of a list, the features that another worker has, too, and their keys.
    struct Shared {
        std::vector<uint64_t> features;
        std::vector<uint64_t> keys;
    };

    [[nodiscard]] Shared shared(uint64_t list) const;
    [[nodiscard]] Status count(BlockExchange& exchange, std::span<double> scratch);
    [[nodiscard]] Status find_first(BlockExchange& exchange, std::span<double> scratch);
    [[nodiscard]] Status keep_own_part(BlockExchange& exchange,
                                       std::vector<uint64_t>& features) const;

    std::span<const uint64_t> keys_;
    std::span<const uint64_t> list_begin_;
    bool is_alone_ = true;  ///< there is one worker; else what follows, by feature
    std::vector<uint32_t> owner_count_;
    std::vector<bool> is_mine_;
    uint64_t feature_count_ = 0;
};

}  // namespace weir::apps

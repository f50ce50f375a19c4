// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/feature_owners.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lib/apps/allgather.h"
#include "lib/base/random.h"

namespace weir::apps {

Result<FeatureOwners> FeatureOwners::find(BlockExchange& exchange, std::span<const uint64_t> keys,
                                          std::span<const uint64_t> list_begin,
                                          std::span<double> scratch) {
    FeatureOwners owners;
    owners.keys_ = keys;
    owners.list_begin_ = list_begin;
    owners.feature_count_ = keys.size();
    owners.is_alone_ = exchange.worker_count() == 1;
    if (owners.is_alone_) return owners;
    WEIR_TRY(owners.count(exchange, scratch));
    WEIR_TRY(owners.find_first(exchange, scratch));
    return owners;
}

Status FeatureOwners::count(BlockExchange& exchange, std::span<double> scratch) {
    owner_count_.resize(keys_.size());
    double mine = 0;
    for (uint64_t list = 0; list + 1 < list_begin_.size(); ++list) {
        const uint64_t begin = list_begin_[list];
        const std::span<double> ones = scratch.first(list_begin_[list + 1] - begin);
        std::fill(ones.begin(), ones.end(), 1.0);
        WEIR_TRY(exchange.sum_by_key(keys_.subspan(begin, ones.size()), ones));
        for (uint64_t k = 0; k < ones.size(); ++k) {
            owner_count_[begin + k] = static_cast<uint32_t>(ones[k]);
            mine += 1 / ones[k];
        }
    }
    WEIR_TRY(exchange.sum({&mine, 1}));
    feature_count_ = static_cast<uint64_t>(std::llround(mine));
    return {};
}

Status FeatureOwners::find_first(BlockExchange& exchange, std::span<double> scratch) {
    is_mine_.assign(keys_.size(), true);
    const double own = -static_cast<double>(exchange.worker_index());
    for (uint64_t list = 0; list + 1 < list_begin_.size(); ++list) {
        const Shared of = shared(list);
        const std::span<double> first = scratch.first(of.keys.size());
        std::fill(first.begin(), first.end(), own);
        WEIR_TRY(exchange.max_by_key(of.keys, first));
        for (uint64_t i = 0; i < first.size(); ++i)
            is_mine_[of.features[i]] = first[i] == own;
    }
    return {};
}

FeatureOwners::Shared FeatureOwners::shared(uint64_t list) const {
    Shared of;
    for (uint64_t feature = list_begin_[list]; feature < list_begin_[list + 1]; ++feature) {
        if (owner_count_[feature] < 2) continue;
        of.features.push_back(feature);
        of.keys.push_back(keys_[feature]);
    }
    return of;
}

Status FeatureOwners::sum_by_feature(BlockExchange& exchange, uint64_t list,
                                     std::span<double> values, std::span<double> scratch) const {
    if (is_alone_) return {};
    const Shared of = shared(list);
    const uint64_t begin = list_begin_[list];
    const std::span<double> sums = scratch.first(of.keys.size());
    for (uint64_t i = 0; i < sums.size(); ++i)
        sums[i] = values[of.features[i] - begin];
    WEIR_TRY(exchange.sum_by_key(of.keys, sums));
    for (uint64_t i = 0; i < sums.size(); ++i)
        values[of.features[i] - begin] = sums[i];
    return {};
}

Result<Model> FeatureOwners::gather(BlockExchange& exchange, std::span<const double> weights,
                                    size_t width, bool wanted) const {
    const auto weights_of = [&](uint64_t feature) {
        return weights.subspan(feature * width, width);
    };
    std::vector<uint64_t> features;  // with a weight that is not 0, sorted by key
    for (uint64_t feature = 0; feature < keys_.size(); ++feature) {
        if (std::ranges::any_of(weights_of(feature), [](double w) { return w != 0; }))
            features.push_back(feature);
    }
    std::ranges::sort(features, {}, [&](uint64_t feature) { return keys_[feature]; });
    WEIR_TRY(keep_own_part(exchange, features));
    std::vector<uint64_t> mine;
    for (const uint64_t feature : features) {
        mine.push_back(keys_[feature]);
        for (const double weight : weights_of(feature))
            mine.push_back(std::bit_cast<uint64_t>(weight));
    }
    WEIR_ASSIGN(const std::vector<uint64_t> all, allgather(exchange, mine, wanted));
    std::vector<uint64_t> places(all.size() / (1 + width));
    std::iota(places.begin(), places.end(), 0U);
    const auto key_at = [&](uint64_t place) { return all[place * (1 + width)]; };
    std::sort(places.begin(), places.end(),
              [&](uint64_t a, uint64_t b) { return key_at(a) < key_at(b); });
    // Two workers may have drawn the same number for a key, and both have sent it.
    const auto is_same = [&](uint64_t a, uint64_t b) { return key_at(a) == key_at(b); };
    places.erase(std::unique(places.begin(), places.end(), is_same), places.end());
    Model model;
    for (const uint64_t place : places) {
        model.keys.push_back(key_at(place));
        for (size_t i = 1; i <= width; ++i)
            model.weights.push_back(std::bit_cast<double>(all[place * (1 + width) + i]));
    }
    return model;
}

/// Keeps those of the features, sorted by key, that this worker reports, so that the workers report
/// about as many features each. A feature of one worker is that worker's. A feature of all workers
/// belongs to one of them by a hash of the key. Only for the others the workers ask each other:
/// each that has the feature draws a pseudo-random number from the key and its index, and the
/// greatest number reports it.
Status FeatureOwners::keep_own_part(BlockExchange& exchange,
                                    std::vector<uint64_t>& features) const {
    const uint32_t worker_count = exchange.worker_count();
    if (worker_count == 1) return {};
    const uint64_t worker = mix64(exchange.worker_index() + uint64_t{1});
    std::vector<uint64_t> keys;
    std::vector<double> drawn;
    for (const uint64_t feature : features) {
        const uint32_t owners = owner_count_[feature];
        if (owners == 1 || owners == worker_count) continue;
        keys.push_back(keys_[feature]);
        drawn.push_back(static_cast<double>(mix64(keys.back() ^ worker) >> 11));
    }
    std::vector<double> greatest = drawn;
    if (worker_count > 2) WEIR_TRY(exchange.max_by_key(keys, greatest));
    uint64_t asked = 0;
    std::erase_if(features, [&](uint64_t feature) {
        const uint32_t owners = owner_count_[feature];
        if (owners == 1) return false;
        if (owners == worker_count)
            return mix64(keys_[feature]) % worker_count != exchange.worker_index();
        const uint64_t i = asked++;
        return greatest[i] != drawn[i];
    });
    return {};
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/unseen_features.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/random.h"

namespace weir::apps {
namespace {

/// The values that workers push for a key. Their sum holds both counts of workers.
constexpr double kInTraining = 1;
constexpr double kInTest = 0x1p26;  // no job has so many workers

/// About how many keys a worker sums at a time.
constexpr uint64_t kPartKeyCount = 32768;

struct Feature {
    uint64_t key = 0;
    double value = 0;  // kInTraining, kInTest or their sum
};

/// Features in parts by a hash of the key, the same parts for every worker. Part i is
/// [begin[i], begin[i + 1]).
struct Parts {
    std::vector<Feature> features;
    std::vector<uint64_t> begin;
};

Parts cut(std::span<const uint64_t> train_keys, std::span<const uint64_t> test_keys,
          uint64_t part_count) {
    const auto part_of = [&](uint64_t key) { return mix64(key) % part_count; };
    std::vector<uint64_t> end(part_count + 1, 0);
    for (const std::span<const uint64_t> keys : {train_keys, test_keys}) {
        for (const uint64_t key : keys)
            ++end[part_of(key) + 1];
    }
    std::partial_sum(end.begin(), end.end(), end.begin());
    Parts parts;
    parts.begin = end;
    parts.features.resize(train_keys.size() + test_keys.size());
    for (const uint64_t key : train_keys)
        parts.features[end[part_of(key)]++] = {key, kInTraining};
    for (const uint64_t key : test_keys)
        parts.features[end[part_of(key)]++] = {key, kInTest};
    return parts;
}

/// Sorts the features by key and adds up the values of those with the same key.
void join_repeats(std::span<const Feature> part, std::vector<Feature>& joined) {
    joined.assign(part.begin(), part.end());
    std::sort(joined.begin(), joined.end(),
              [](const Feature& a, const Feature& b) { return a.key < b.key; });
    uint64_t kept = 0;
    for (const Feature& feature : joined) {
        if (kept > 0 && joined[kept - 1].key == feature.key) {
            joined[kept - 1].value += feature.value;
        } else {
            joined[kept++] = feature;
        }
    }
    joined.resize(kept);
}

}  // namespace

Result<UnseenFeatures> count_unseen(BlockExchange& exchange, std::span<const uint64_t> train_keys,
                                    std::span<const uint64_t> test_keys) {
    double key_count_max = static_cast<double>(train_keys.size() + test_keys.size());
    WEIR_TRY(exchange.max({&key_count_max, 1}));
    const uint64_t part_count = 1 + static_cast<uint64_t>(key_count_max) / kPartKeyCount;
    const Parts parts = cut(train_keys, test_keys, part_count);
    uint64_t longest = 0;
    for (uint64_t part = 0; part < part_count; ++part)
        longest = std::max(longest, parts.begin[part + 1] - parts.begin[part]);
    WEIR_ASSIGN(const std::span<double> buffer,
                exchange.make_buffer(std::max<uint64_t>(longest, 1)));
    std::vector<Feature> features;
    std::vector<uint64_t> keys;
    double counts[2] = {0, 0};  // all, unseen
    for (uint64_t part = 0; part < part_count; ++part) {
        const uint64_t begin = parts.begin[part];
        join_repeats(std::span(parts.features).subspan(begin, parts.begin[part + 1] - begin),
                     features);
        keys.clear();
        const std::span<double> sums = buffer.first(features.size());
        for (uint64_t i = 0; i < features.size(); ++i) {
            keys.push_back(features[i].key);
            sums[i] = features[i].value;
        }
        if (exchange.worker_count() > 1) WEIR_TRY(exchange.sum_by_key(keys, sums));
        for (uint64_t i = 0; i < features.size(); ++i) {
            if (features[i].value < kInTest) continue;
            const double tester_count = std::floor(sums[i] / kInTest);
            counts[0] += 1 / tester_count;
            if (sums[i] == tester_count * kInTest) counts[1] += 1 / tester_count;
        }
    }
    WEIR_TRY(exchange.sum(counts));
    return UnseenFeatures{static_cast<uint64_t>(std::llround(counts[0])),
                          static_cast<uint64_t>(std::llround(counts[1]))};
}

}  // namespace weir::apps

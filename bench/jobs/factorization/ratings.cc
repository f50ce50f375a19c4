// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/factorization/ratings.h"

#include <algorithm>
#include <cmath>

#include "lib/base/kernel.h"
#include "lib/base/random.h"

namespace weir::bench {

namespace {

inline float error_of(const float* user, const float* item, float rating) noexcept {
    float product = 0;
    for (uint32_t f = 0; f < kRank; ++f)
        product += user[f] * item[f];
    return product - rating;
}

/// Of `draws` of as many, each with the same chance, how many differ.
double different(double draws, double of) noexcept {
    return of * (1 - std::pow(1 - 1 / of, draws));
}

}  // namespace

Ratings::Ratings(uint64_t seed, size_t batch_count) {
    Random random(seed);
    const auto taste = [](uint64_t i, double step) {
        return 1 + 0.5 * std::sin(step * static_cast<double>(i));
    };
    for (size_t i = 0; i < batch_count * kBatch; ++i) {
        users.push_back(random.below(kUsers));
        items.push_back(random.below(kItems));
        ratings.push_back(
            static_cast<float>(taste(users.back(), 0.37) * taste(items.back(), 0.91)));
    }
}

WEIR_KERNEL double set_gradients(std::span<const float> ratings, const BatchRows& users,
                                 size_t user_count, const BatchRows& items,
                                 size_t item_count) noexcept {
    std::fill_n(users.gradients, user_count * kRank, 0.0F);
    std::fill_n(items.gradients, item_count * kRank, 0.0F);
    double squares = 0;
    for (size_t i = 0; i < ratings.size(); ++i) {
        const size_t u = size_t{users.places[i]} * kRank;
        const size_t v = size_t{items.places[i]} * kRank;
        const float* const user = users.rows + u;
        const float* const item = items.rows + v;
        const float error = error_of(user, item, ratings[i]);
        float* const of_user = users.gradients + u;
        float* const of_item = items.gradients + v;
        for (uint32_t f = 0; f < kRank; ++f) {
            of_user[f] += error * item[f];
            of_item[f] += error * user[f];
        }
        squares += static_cast<double>(error) * static_cast<double>(error);
    }
    return squares;
}

WEIR_KERNEL void take_steps(std::span<const uint64_t> keys, const float* gradients,
                            float* rows) noexcept {
    for (const uint64_t key : keys) {
        float* const row = rows + key * kRank;
        for (uint32_t f = 0; f < kRank; ++f)
            row[f] -= kFactorRate * gradients[f];
        gradients += kRank;
    }
}

WEIR_KERNEL void take_samples(std::span<const uint64_t> users, std::span<const uint64_t> items,
                              std::span<const float> ratings, float* user_rows,
                              float* item_rows) noexcept {
    for (size_t i = 0; i < ratings.size(); ++i) {
        float* const user = user_rows + users[i] * kRank;
        float* const item = item_rows + items[i] * kRank;
        const float step = kFactorRate * error_of(user, item, ratings[i]);
        for (uint32_t f = 0; f < kRank; ++f) {
            const float before = user[f];
            user[f] -= step * item[f];
            item[f] -= step * before;
        }
    }
}

double rows_per_sample(double samples) noexcept {
    return (different(samples, kUsers) + different(samples, kItems)) / samples;
}

}  // namespace weir::bench

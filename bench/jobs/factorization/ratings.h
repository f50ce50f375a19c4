// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Ratings: the samples of a factorisation, and what a gradient of some of them is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::bench {

inline constexpr uint64_t kUsers = 5000;
inline constexpr uint64_t kItems = 2000;
inline constexpr uint32_t kRank = 16;
inline constexpr size_t kBatch = 1000;  ///< samples
inline constexpr float kFactorRate = 0.02F;

/// One worker's: users and items in any order, with a rating that a factorisation can learn.
struct Ratings {
    Ratings(uint64_t seed, size_t batch_count);

    [[nodiscard]] size_t batch_count() const noexcept { return ratings.size() / kBatch; }

    template <class T>
    [[nodiscard]] static std::span<const T> batch(const std::vector<T>& of, size_t i) noexcept {
        return std::span(of).subspan(i % (of.size() / kBatch) * kBatch, kBatch);
    }

    std::vector<uint64_t> users;
    std::vector<uint64_t> items;
    std::vector<float> ratings;
};

/// Rows of a batch: `places` says which one is a sample's.
struct BatchRows {
    const float* rows = nullptr;
    std::span<const uint32_t> places;
    float* gradients = nullptr;  ///< of each row
};

/// Sets the gradients of `user_count` and `item_count` rows. Returns the sum of the squared errors.
double set_gradients(std::span<const float> ratings, const BatchRows& users, size_t user_count,
                     const BatchRows& items, size_t item_count) noexcept;

/// Adds up rows - rate * gradients in place, row by row.
void take_steps(std::span<const uint64_t> keys, const float* gradients, float* rows) noexcept;

/// One sample after the other, each with a step of its own: what a program without batches does.
void take_samples(std::span<const uint64_t> users, std::span<const uint64_t> items,
                  std::span<const float> ratings, float* user_rows, float* item_rows) noexcept;

/// How many rows a sample changes on average, of `samples` whose gradients are summed first.
[[nodiscard]] double rows_per_sample(double samples) noexcept;

}  // namespace weir::bench

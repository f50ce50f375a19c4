// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LbfgsDirection: the recursion of L-BFGS over scalar products alone, so that no vector leaves the servers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::apps {

/// The direction is a sum of the basis vectors b_0 .. b_2m: the gradient, m differences of weights s and m differences
/// of gradients y. Their products with each other suffice for its factors; each iteration brings those of three new
/// vectors: of the gradient, and of s and y in one slot.
///
/// Source: Chen, Wang, Zhou: Large-scale L-BFGS using MapReduce, NIPS 2014, algorithm 3
/// Thread: any, one at a time
class LbfgsDirection {
public:
    /// So that a call can bring a factor for each of the basis vectors.
    static constexpr uint32_t kPairsMax = 30;

    /// Basis vectors of a history of so many pairs.
    [[nodiscard]] static constexpr uint32_t basis_count(uint32_t pairs) noexcept {
        return 2 * pairs + 1;
    }

    /// `pairs_max`: 1 to kPairsMax
    explicit LbfgsDirection(uint32_t pairs_max);

    [[nodiscard]] uint32_t basis_count() const noexcept { return basis_count(pairs_max_); }

    /// Where the next pair goes: slots 0 .. pairs_max - 1.
    [[nodiscard]] uint32_t slot() const noexcept { return slot_; }

    /// The gradient is another one; there is no new pair.
    ///
    /// Shape:  products.size() == basis_count(): of the gradient with each basis vector
    void set_gradient(std::span<const double> products);

    /// slot() has another pair, which counts if the loss bends along it, and the gradient is another one.
    ///
    /// Shape:  products.size() == 3 * basis_count(): of the gradient, of s and of y with each basis vector
    void add_pair(std::span<const double> products);

    /// The pairs count no more.
    void forget() noexcept { slots_.clear(); }

    [[nodiscard]] bool has_pairs() const noexcept { return !slots_.empty(); }

    [[nodiscard]] double gradient_square() const noexcept { return product(0, 0); }

    /// The factors of the basis vectors in -H g, where H approximates the inverse of the second derivatives. Without
    /// pairs, -g.
    [[nodiscard]] std::vector<double> factors() const;

private:
    [[nodiscard]] uint32_t s_of(uint32_t slot) const noexcept { return 1 + slot; }

    [[nodiscard]] uint32_t y_of(uint32_t slot) const noexcept { return 1 + pairs_max_ + slot; }

    [[nodiscard]] double& product(uint32_t a, uint32_t b) noexcept {
        return products_[a * basis_count() + b];
    }

    [[nodiscard]] double product(uint32_t a, uint32_t b) const noexcept {
        return products_[a * basis_count() + b];
    }

    void set_products(uint32_t of, std::span<const double> products);
    /// Of basis vector `of` with the sum that has these factors.
    [[nodiscard]] double product_with(uint32_t of, std::span<const double> factors) const;

    uint32_t pairs_max_;
    uint32_t slot_ = 0;
    std::vector<uint32_t> slots_;   ///< of the pairs that count, the oldest first
    std::vector<double> products_;  ///< of all basis vectors with all
};

}  // namespace weir::apps

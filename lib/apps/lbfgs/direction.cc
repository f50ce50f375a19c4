// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lbfgs/direction.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace weir::apps {

LbfgsDirection::LbfgsDirection(uint32_t pairs_max) : pairs_max_(pairs_max) {
    WEIR_CHECK(pairs_max >= 1 && pairs_max <= kPairsMax);
    products_.assign(size_t{basis_count()} * basis_count(), 0);
}

void LbfgsDirection::set_products(uint32_t of, std::span<const double> products) {
    WEIR_CHECK(products.size() == basis_count());
    for (uint32_t b = 0; b < basis_count(); ++b)
        product(of, b) = product(b, of) = products[b];
}

void LbfgsDirection::set_gradient(std::span<const double> products) {
    set_products(0, products);
}

void LbfgsDirection::add_pair(std::span<const double> products) {
    // Where rounding makes up the product of s and y, a pair says nothing.
    constexpr double kLeastCosine = 1e-10;

    const uint32_t s = s_of(slot_);
    const uint32_t y = y_of(slot_);
    const size_t count = basis_count();
    WEIR_CHECK(products.size() == 3 * count);
    set_products(0, products.first(count));
    set_products(s, products.subspan(count, count));
    set_products(y, products.subspan(2 * count, count));
    std::erase(slots_, slot_);  // the pair that was there is gone
    if (!(product(s, y) > kLeastCosine * std::sqrt(product(s, s) * product(y, y)))) return;
    slots_.push_back(slot_);
    slot_ = (slot_ + 1) % pairs_max_;
}

double LbfgsDirection::product_with(uint32_t of, std::span<const double> factors) const {
    double sum = 0;
    for (uint32_t b = 0; b < basis_count(); ++b)
        sum += factors[b] * product(of, b);
    return sum;
}

std::vector<double> LbfgsDirection::factors() const {
    std::vector<double> factors(basis_count(), 0);
    factors[0] = -1;
    if (slots_.empty()) return factors;
    std::vector<double> alphas(slots_.size());
    for (size_t i = slots_.size(); i-- > 0;) {
        const uint32_t s = s_of(slots_[i]);
        const uint32_t y = y_of(slots_[i]);
        alphas[i] = product_with(s, factors) / product(s, y);
        factors[y] -= alphas[i];
    }
    const uint32_t newest_y = y_of(slots_.back());
    const double scale = product(s_of(slots_.back()), newest_y) / product(newest_y, newest_y);
    for (double& factor : factors)
        factor *= scale;
    for (size_t i = 0; i < slots_.size(); ++i) {
        const uint32_t s = s_of(slots_[i]);
        const uint32_t y = y_of(slots_[i]);
        factors[s] += alphas[i] - product_with(y, factors) / product(s, y);
    }
    return factors;
}

}  // namespace weir::apps

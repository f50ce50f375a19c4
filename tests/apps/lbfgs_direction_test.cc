// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <deque>
#include <numeric>

#include <doctest/doctest.h>

#include "lib/apps/lbfgs/direction.h"
#include "lib/apps/lbfgs/functions.h"
#include "lib/base/random.h"

namespace weir::apps {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add(Vector& to, double factor, const Vector& of) {
    for (size_t i = 0; i < to.size(); ++i)
        to[i] += factor * of[i];
}

struct Pair {
    Vector s, y;
};

/// -H g, as textbooks have it: Nocedal, Wright: Numerical optimization, algorithm 7.4.
Vector textbook(const std::deque<Pair>& pairs, Vector q) {
    Vector alphas;
    for (size_t i = pairs.size(); i-- > 0;) {
        const auto& [s, y] = pairs[i];
        alphas.push_back(dot(s, q) / dot(s, y));
        add(q, -alphas.back(), y);
    }
    if (!pairs.empty()) {
        const auto& [s, y] = pairs.back();
        for (double& value : q)
            value *= dot(s, y) / dot(y, y);
    }
    for (const auto& [s, y] : pairs) {
        add(q, alphas.back() - dot(y, q) / dot(s, y), s);
        alphas.pop_back();
    }
    for (double& value : q)
        value = -value;
    return q;
}

/// A history as servers keep it.
struct History {
    explicit History(uint32_t pairs)
        : direction(pairs), basis(direction.basis_count(), Vector(kSize)) {}

    void put(const Vector& gradient, const Pair& pair) {
        const uint32_t slot = direction.slot();
        const uint32_t places[] = {0, 1 + slot, 1 + direction.basis_count() / 2 + slot};
        basis[places[0]] = gradient;
        basis[places[1]] = pair.s;
        basis[places[2]] = pair.y;
        std::vector<double> products;
        for (const uint32_t place : places) {
            for (const Vector& other : basis)
                products.push_back(dot(basis[place], other));
        }
        direction.add_pair(products);
    }

    [[nodiscard]] Vector result() const {
        Vector sum(kSize);
        const std::vector<double> factors = direction.factors();
        for (size_t b = 0; b < basis.size(); ++b)
            add(sum, factors[b], basis[b]);
        return sum;
    }

    static constexpr size_t kSize = 40;
    LbfgsDirection direction;
    std::vector<Vector> basis;
};

Vector drawn(Random& random) {
    Vector values(History::kSize);
    for (double& value : values)
        value = random.uniform() - 0.5;
    return values;
}

/// y = A s with a positive diagonal.
Pair drawn_pair(Random& random) {
    Pair pair{drawn(random), {}};
    for (size_t i = 0; i < pair.s.size(); ++i)
        pair.y.push_back(pair.s[i] * (0.1 + static_cast<double>(i)));
    return pair;
}

void check_same(const Vector& is, const Vector& wanted) {
    double greatest = 0;
    for (size_t i = 0; i < is.size(); ++i)
        greatest = std::max(greatest, std::abs(is[i] - wanted[i]));
    CHECK(greatest < 1e-10 * std::sqrt(dot(wanted, wanted)));
}

}  // namespace

TEST_SUITE("lbfgs direction") {
    TEST_CASE("it is that of the recursion over vectors, before and after the history is full") {
        for (const uint32_t pairs_max : {1U, 3U, LbfgsDirection::kPairsMax}) {
            Random random(pairs_max);
            History history(pairs_max);
            std::deque<Pair> pairs;
            for (uint32_t i = 0; i < 2 * pairs_max + 3; ++i) {
                pairs.push_back(drawn_pair(random));
                if (pairs.size() > pairs_max) pairs.pop_front();
                const Vector gradient = drawn(random);
                history.put(gradient, pairs.back());
                check_same(history.result(), textbook(pairs, gradient));
            }
        }
    }

    TEST_CASE("without pairs it is the steepest descent") {
        LbfgsDirection direction(4);
        CHECK_FALSE(direction.has_pairs());
        direction.set_gradient(std::vector<double>{9, 0, 0, 0, 0, 0, 0, 0, 0});
        CHECK(direction.gradient_square() == 9);
        std::vector<double> wanted(direction.basis_count());
        wanted[0] = -1;
        CHECK(direction.factors() == wanted);
    }

    TEST_CASE("a pair along which nothing bends is left out, and the one in its slot is gone") {
        Random random(7);
        History history(2);
        std::deque<Pair> pairs;
        for (int i = 0; i < 2; ++i) {
            pairs.push_back(drawn_pair(random));
            history.put(drawn(random), pairs.back());
        }
        Pair flat = drawn_pair(random);
        for (double& value : flat.y)
            value = -value;
        const Vector gradient = drawn(random);
        history.put(gradient, flat);
        pairs.pop_front();
        check_same(history.result(), textbook(pairs, gradient));
        pairs.push_back(drawn_pair(random));
        const Vector next = drawn(random);
        history.put(next, pairs.back());
        check_same(history.result(), textbook(pairs, next));
        history.direction.forget();
        CHECK_FALSE(history.direction.has_pairs());
    }

    TEST_CASE(
        "the pseudo-gradient is the derivative in the direction in which the objective falls") {
        using lbfgs::pseudo_gradient;
        CHECK(pseudo_gradient(3, 2, 0) == 3);
        CHECK(pseudo_gradient(3, 0, 0) == 3);
        CHECK(pseudo_gradient(3, 2, 1) == 4);
        CHECK(pseudo_gradient(3, -2, 1) == 2);
        CHECK(pseudo_gradient(3, 0, 1) == 2);
        CHECK(pseudo_gradient(-3, 0, 1) == -2);
        CHECK(pseudo_gradient(0.5, 0, 1) == 0);
        CHECK(pseudo_gradient(-1, 0, 1) == 0);
    }

    TEST_CASE("a step of OWL-QN falls, and stays in its orthant") {
        using lbfgs::step_of;
        CHECK(step_of(2, -3, 4, 0, 0.5) == -1.5);
        CHECK(step_of(2, -3, 4, 1, 0.5) == -1.5);
        CHECK(step_of(2, -5, 4, 1, 0.5) == -2);  // it stops at 0
        CHECK(step_of(-2, 5, -4, 1, 1) == 2);
        CHECK(step_of(2, 3, 4, 1, 1) == 0);  // it would rise
        CHECK(step_of(0, 3, -4, 1, 1) == 3);
        CHECK(step_of(0, 3, 0, 1, 1) == 0);
        CHECK(step_of(0, -3, 4, 1, 1) == -3);
    }
}

}  // namespace weir::apps

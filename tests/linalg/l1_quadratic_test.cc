// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/l1_quadratic.h"

#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/linalg/gram.h"

namespace {

using namespace weir;
using namespace weir::linalg;

/// H = X'X for a random X with `rank` rows; `offset` is added to all of its entries.
struct Problem {
    Problem(uint64_t seed, uint64_t size, uint64_t rank, double offset)
        : count(size), h(size * size, 0), triangle(triangle_size(size), 0) {
        Random random(seed);
        std::vector<double> x(rank * count);
        for (double& value : x)
            value = random.uniform() - 0.5 + offset;
        for (uint64_t a = 0; a < count; ++a) {
            for (uint64_t b = 0; b < count; ++b) {
                for (uint64_t i = 0; i < rank; ++i)
                    h[a * count + b] += x[i * count + a] * x[i * count + b];
                if (b >= a) triangle[triangle_row(a, count) + b - a] = h[a * count + b];
            }
            weights.push_back(random.below(3) == 0 ? 0 : random.uniform() - 0.5);
        }
        // The gradient lies in the range of H, so that a minimum exists also without a penalty.
        gradient.assign(count, 0);
        for (uint64_t i = 0; i < rank; ++i) {
            const double factor = random.uniform() - 0.5;
            for (uint64_t j = 0; j < count; ++j)
                gradient[j] += factor * x[i * count + j];
        }
    }

    [[nodiscard]] L1Quadratic model() const { return {triangle, gradient, weights, l1}; }

    /// The slope of the quadratic part at d.
    [[nodiscard]] double slope(uint64_t j, const std::vector<double>& d) const {
        double sum = gradient[j];
        for (uint64_t k = 0; k < count; ++k)
            sum += h[j * count + k] * d[k];
        return sum;
    }

    uint64_t count;
    std::vector<double> h;
    std::vector<double> triangle;
    std::vector<double> gradient;
    std::vector<double> weights;
    double l1 = 0;
};

/// At a minimum the slope is -l1 for weights above 0, l1 for weights below 0, and between them for
/// weights that are 0.
void check_minimum(const Problem& problem, const std::vector<double>& d, double slack) {
    for (uint64_t j = 0; j < problem.count; ++j) {
        const double slope = problem.slope(j, d);
        const double weight = problem.weights[j] + d[j];
        CAPTURE(weight);
        if (weight == 0) {
            CHECK(std::abs(slope) <= problem.l1 + slack);
        } else {
            CHECK(std::abs(slope + std::copysign(problem.l1, weight)) <= slack);
        }
    }
}

}  // namespace

TEST_SUITE("l1 quadratic") {
    TEST_CASE("the result has the slopes of a minimum, and zeros where they belong") {
        for (uint64_t seed = 0; seed < 20; ++seed) {
            Problem problem(seed, 1 + seed * 2, 60, 0);
            problem.l1 = 0.3;
            const std::vector<double> d = minimise(problem.model(), 1e-12);
            check_minimum(problem, d, 1e-4);
        }
    }

    TEST_CASE("columns with a large constant in common have a minimum, too") {
        for (const double offset : {1e1, 1e2, 1e3}) {
            Problem problem(3, 20, 100, offset);
            problem.l1 = 0.5;
            check_minimum(problem, minimise(problem.model(), 1e-9), 1e-2);
        }
    }

    TEST_CASE("fewer rows than columns, as many equal ones, still have a minimum") {
        Problem problem(4, 30, 10, 0);
        problem.l1 = 0.1;
        check_minimum(problem, minimise(problem.model(), 1e-12), 1e-4);
    }

    TEST_CASE("a penalty above all slopes leaves exact zeros") {
        Problem problem(5, 12, 40, 0);
        problem.l1 = 1e4;
        const std::vector<double> d = minimise(problem.model(), 1e-9);
        for (uint64_t j = 0; j < problem.count; ++j)
            CHECK(problem.weights[j] + d[j] == 0);
    }

    TEST_CASE("without a penalty it is the solution of the linear system") {
        Problem problem(6, 15, 50, 0);
        check_minimum(problem, minimise(problem.model(), 1e-12), 1e-4);
    }

    TEST_CASE("a variable without curvature stays, and a model without variables has a result") {
        const std::vector<double> curvature = {0, 0, 2};
        const std::vector<double> gradient = {1, -1};
        const std::vector<double> weights = {3, 0};
        const std::vector<double> d = minimise({curvature, gradient, weights, 0.5}, 1e-12);
        CHECK(d[0] == 0);
        CHECK(d[1] == doctest::Approx(0.25));
        CHECK(minimise({}, 1e-9).empty());
    }
}

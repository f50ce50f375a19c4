// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/logistic.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "lib/linalg/vector_math.h"

TEST_SUITE("logistic") {
    using namespace weir::linalg;

    TEST_CASE("exp and log1p on their ranges agree with the library's") {
        for (double x = -699; x <= 0; x += 0.0371) {
            CHECK(exp_negative(x) == doctest::Approx(std::exp(x)).epsilon(1e-15));
        }
        CHECK(exp_negative(0) == 1);
        CHECK(exp_negative(-1e300) < 1e-300);
        for (double e = 0; e <= 1; e += 0.00031) {
            CHECK(log1p_unit(e) == doctest::Approx(std::log1p(e)).epsilon(1e-15));
        }
        CHECK(log1p_unit(1e-200) == 1e-200);
    }

    TEST_CASE("the loss neither overflows nor loses its tail") {
        CHECK(logistic_loss(0) == doctest::Approx(std::log(2.0)));
        CHECK(logistic_loss(-1e6) == 1e6);
        CHECK(logistic_loss(40) == doctest::Approx(std::exp(-40.0)).epsilon(1e-12));
        CHECK(logistic_alpha(-1e9) == 1);
        CHECK(logistic_alpha(50) == doctest::Approx(std::exp(-50.0)).epsilon(1e-12));
    }

    TEST_CASE("sums and slopes over more rows than a batch are those of single rows") {
        std::vector<int8_t> labels;
        std::vector<double> margins;
        std::vector<double> directions;
        double sum = 0;
        double moved = 0;
        for (int i = 0; i < 1237; ++i) {
            labels.push_back(i % 3 == 0 ? 1 : -1);
            margins.push_back(0.013 * (i - 600));
            directions.push_back(i % 7);
            sum += logistic_loss(labels.back() * margins.back());
            moved += logistic_loss(labels.back() * (margins.back() - 0.5 * directions.back()));
        }
        CHECK(logistic_loss_sum(labels, margins) == doctest::Approx(sum).epsilon(1e-13));
        CHECK(logistic_loss_sum(labels, margins, directions, -0.5) ==
              doctest::Approx(moved).epsilon(1e-13));
        std::vector<double> slopes(labels.size());
        logistic_slopes(labels, margins, slopes);
        for (size_t i = 0; i < labels.size(); ++i) {
            const double h = 1e-6;
            const double slope = (logistic_loss(labels[i] * (margins[i] + h)) -
                                  logistic_loss(labels[i] * (margins[i] - h))) /
                                 (2 * h);
            CHECK(slopes[i] == doctest::Approx(slope).epsilon(1e-6));
        }
    }

    TEST_CASE("the curvature bounds every second derivative within reach") {
        std::vector<int8_t> labels;
        std::vector<double> margins;
        std::vector<RowTerm> terms;
        for (double margin = -6; margin <= 6; margin += 0.37) {
            for (const double reach : {1e-6, 0.5, 3.0, 100.0}) {
                labels.push_back(1);
                margins.push_back(margin);
                terms.push_back({.reach_or_bend = reach});
            }
        }
        const std::vector<RowTerm> reaches = terms;
        logistic_terms(labels, margins, terms);
        for (size_t i = 0; i < terms.size(); ++i) {
            const double reach = reaches[i].reach_or_bend;
            double greatest = 0;
            for (double d = -reach; d <= reach; d += reach / 50) {
                const double p = logistic_alpha(margins[i] + d);
                greatest = std::max(greatest, p * (1 - p));
            }
            CHECK(terms[i].reach_or_bend >= greatest * reach);
            CHECK(terms[i].reach_or_bend <= 0.2501 * reach);
        }
    }

    TEST_CASE("the dual at the unscaled point of margins 0 is the loss there") {
        const std::vector<int8_t> labels = {1, -1, 1};
        const std::vector<double> margins = {0, 0, 0};
        CHECK(logistic_dual(labels, margins, 1) == doctest::Approx(3 * std::log(2.0)));
        CHECK(logistic_dual(labels, margins, 0) == 0);
        CHECK(logistic_dual(labels, margins, 0.5) < 3 * std::log(2.0));
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/base/prox.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("prox") {
    using ProxState = weir::ProxState<double>;

    ProxState prox_l1_step(ProxState old, double gradient, double curvature, double l1) {
        return weir::prox_l1_step(old, gradient, curvature, l1);
    }

    /// The same arithmetic in its plain form, with branches.
    ProxState plain_step(ProxState old, double gradient, double curvature, double l1) {
        if (curvature < 0) return {old.weight - gradient / curvature, old.trust};
        const double u = std::max(curvature, 1e-200);
        double step = -old.weight;
        if (gradient + l1 <= u * old.weight) {
            step = -(gradient + l1) / u;
        } else if (gradient - l1 >= u * old.weight) {
            step = -(gradient - l1) / u;
        }
        step = std::clamp(step, -old.trust, old.trust);
        const double weight = old.weight + step;
        return {weight, std::max({4 * std::abs(weight - old.weight), old.trust / 2, 1e-9})};
    }

    TEST_CASE("the step without branches has the same bits as the one with branches") {
        WEIR_TEST_SEED(seed, 52);
        weir::Random random(seed);
        const auto pick = [&] {
            const double some[] = {0, -0.0, 1e-300, -1e-300, 0.25, -0.25, 1, -1, 1e6, -1e6};
            return random.below(2) == 0 ? some[random.below(10)] : random.uniform() * 4 - 2;
        };
        for (int i = 0; i < 200'000; ++i) {
            const ProxState old{pick(), std::abs(pick()) + 1e-9};
            const double gradient = pick();
            const double curvature = pick();
            const double l1 = std::abs(pick());
            const ProxState next = prox_l1_step(old, gradient, curvature, l1);
            const ProxState wanted = plain_step(old, gradient, curvature, l1);
            REQUIRE(next.weight == wanted.weight);
            REQUIRE(next.trust == wanted.trust);
        }
    }

    TEST_CASE("within its trust a step reaches the minimum of the model, found by trying") {
        WEIR_TEST_SEED(seed, 11);
        weir::Random random(seed);
        for (int round = 0; round < 300; ++round) {
            const double weight = round % 3 == 0 ? 0.0 : 4 * random.uniform() - 2;
            const double gradient = 6 * random.uniform() - 3;
            const double curvature = 0.1 + 3 * random.uniform();
            const double l1 = 2 * random.uniform();
            const auto model = [&](double w) {
                const double d = w - weight;
                return gradient * d + curvature / 2 * d * d + l1 * std::abs(w);
            };
            const ProxState next = prox_l1_step({weight, 100}, gradient, curvature, l1);
            double best = model(0);
            for (double w = -60; w < 60; w += 0.01)
                best = std::min(best, model(w));
            CHECK(model(next.weight) <= best + 1e-12);
        }
    }

    TEST_CASE("a step is cut to the trust, which grows after a long step and shrinks after none") {
        const ProxState cut = prox_l1_step({0, 0.5}, -100, 1, 1);
        CHECK(cut.weight == 0.5);
        CHECK(cut.trust == 2);
        const ProxState rest = prox_l1_step({0, 0.5}, 0.9, 1, 1);
        CHECK(rest.weight == 0);
        CHECK(rest.trust == 0.25);
    }

    TEST_CASE("trust at rest ends at its least value, not at zero") {
        ProxState state;
        for (int i = 0; i < 5000; ++i)
            state = prox_l1_step(state, 0, 1, 1);
        CHECK(state.trust == weir::kLeastTrust);
    }

    TEST_CASE("a flat direction is walked as far as trust allows, and not at all at its minimum") {
        CHECK(prox_l1_step({0, 1}, -3, 0, 1).weight == 1);
        CHECK(prox_l1_step({0.25, 1}, 0, 0, 1).weight == 0);
        CHECK(prox_l1_step({0.25, 1}, -1, 0, 1).weight == 0.25);
        CHECK(std::isfinite(prox_l1_step({0, 1}, -1e300, 0, 0).weight));
    }

    TEST_CASE("a weight that was and stays 0 rests while its gradient is within the bound") {
        const auto step = [](double weight, double gradient, double curvature = 1) {
            return weir::prox_l1_step<double>({weight, 1}, gradient, curvature, 1, 0.875);
        };
        for (const double zero : {0.0, -0.0}) {
            for (const double gradient : {0.0, 0.874, -0.874})
                CHECK(weir::is_at_rest(step(zero, gradient).weight));
            for (const double gradient : {0.875, -0.875, 1.0, -1.0}) {
                CHECK(step(zero, gradient).weight == 0);
                CHECK_FALSE(weir::is_at_rest(step(zero, gradient).weight));
            }
            CHECK(step(zero, 1.5).weight == -0.5);
            CHECK(step(zero, 0.5).trust == prox_l1_step({0, 1}, 0.5, 1, 1).trust);
            CHECK_FALSE(weir::is_at_rest(step(zero, 0, -1).weight));  // a move says nothing
            CHECK(weir::is_at_rest(prox_l1_step({zero, 1}, 9, 0, 9).weight));  // nobody asks
        }
        CHECK(step(0.25, 0.5).weight == 0);  // the gradient was that of another weight
        CHECK_FALSE(weir::is_at_rest(step(0.25, 0.5).weight));
        // A bound above l1 keeps no weight at 0.
        CHECK(weir::prox_l1_step<double>({0, 1}, 1.5, 1, 1, 9).weight == -0.5);
    }

    TEST_CASE("a negative curvature moves the weight without threshold, cut or change of trust") {
        const ProxState moved = prox_l1_step({1, 0.5}, 7.0 * 0.25, -0.25, 3);
        CHECK(moved.weight == 8);
        CHECK(moved.trust == 0.5);
    }
}

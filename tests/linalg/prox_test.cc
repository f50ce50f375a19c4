// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/prox.h"

#include <cmath>

#include <doctest/doctest.h>

#include "lib/base/random.h"

TEST_SUITE("prox") {
    using weir::linalg::prox_l1_step;
    using weir::linalg::ProxState;

    TEST_CASE("within its trust a step reaches the minimum of the model, found by trying") {
        weir::Random random(11);
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
        CHECK(state.trust == weir::linalg::kLeastTrust);
    }

    TEST_CASE("a flat direction is walked as far as trust allows, and not at all at its minimum") {
        CHECK(prox_l1_step({0, 1}, -3, 0, 1).weight == 1);
        CHECK(prox_l1_step({0.25, 1}, 0, 0, 1).weight == 0);
        CHECK(prox_l1_step({0.25, 1}, -1, 0, 1).weight == 0.25);
        CHECK(std::isfinite(prox_l1_step({0, 1}, -1e300, 0, 0).weight));
    }

    TEST_CASE("a negative curvature moves the weight without threshold, cut or change of trust") {
        const ProxState moved = prox_l1_step({1, 0.5}, 7.0 * 0.25, -0.25, 3);
        CHECK(moved.weight == 8);
        CHECK(moved.trust == 0.5);
    }
}

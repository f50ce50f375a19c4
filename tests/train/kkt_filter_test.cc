// SPDX-License-Identifier: Apache-2.0
#include "lib/train/kkt_filter.h"

#include <algorithm>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/prox.h"
#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("kkt_filter") {
    using namespace weir;

    using Ranges = std::vector<FeatureRange>;
    using Keys = std::vector<uint64_t>;

    template <class Of, class T>
    static Of all(std::span<const T> some) {
        return {some.begin(), some.end()};
    }

    TEST_CASE("those at rest are left out, list by list, and no other zero is") {
        const Keys begin{0, 4, 4, 6, 7};
        const Keys keys{10, 20, 30, 40, 5, 6, 99};
        const std::vector<double> weights{
            0.0, 0.5, kAwakeZero<double>, 0.0, -1e-300, kAwakeZero<double>, 0.0};
        KktFilter filter(begin, keys);
        CHECK(filter.keeps_all());
        filter.leave_out_resting(weights);
        CHECK_FALSE(filter.keeps_all());
        CHECK(all<Ranges>(filter.ranges(0)) == Ranges{{1, 3}});
        CHECK(all<Ranges>(filter.ranges(1)).empty());
        CHECK(all<Ranges>(filter.ranges(2)) == Ranges{{4, 6}});
        CHECK(all<Ranges>(filter.ranges(3)).empty());
        CHECK(all<Keys>(filter.keys(0)) == Keys{20, 30});
        CHECK(all<Keys>(filter.keys(2)) == Keys{5, 6});
        CHECK(filter.keys(3).empty());
        CHECK(filter.kept_before(2) == 2);
        CHECK(filter.kept_before(3) == 4);
        Keys left_out;
        filter.for_each_left_out([&](uint64_t feature) { left_out.push_back(feature); });
        CHECK(left_out == Keys{0, 3, 6});
    }

    TEST_CASE("a range ends with its list, also if the next list goes on behind it") {
        const Keys begin{0, 2, 3};
        const Keys keys{1, 2, 3};
        KktFilter filter(begin, keys);
        filter.leave_out_resting(std::vector<double>{1, 1, 1});
        CHECK(all<Ranges>(filter.ranges(0)) == Ranges{{0, 2}});
        CHECK(all<Ranges>(filter.ranges(1)) == Ranges{{2, 3}});
        filter.keep_all();
        CHECK(all<Ranges>(filter.ranges(0)) == Ranges{{0, 2}});
        CHECK(all<Keys>(filter.keys(1)) == Keys{3});
        filter.for_each_left_out([](uint64_t) { FAIL("none is left out"); });
    }

    TEST_CASE("without features nothing is kept and nothing left out") {
        const Keys begin{0, 0};
        KktFilter filter(begin, {});
        filter.leave_out_resting({});
        CHECK(filter.keys(0).empty());
        CHECK(filter.ranges(0).empty());
    }

    /// What the servers say after an iteration to which workers with parts of these features have pushed.
    struct Server {
        std::map<uint64_t, ProxState<double>> rows;
        std::map<uint64_t, std::pair<double, double>> sums;

        void push(uint64_t key, double gradient, double curvature) {
            sums[key].first += gradient;
            sums[key].second += curvature;
        }

        void end_iteration(double l1, double rest) {
            for (const auto& [key, pair] : sums)
                rows[key] = prox_l1_step(rows[key], pair.first, pair.second, l1, rest);
            sums.clear();
        }
    };

    TEST_CASE("workers whose own gradients differ leave out the same features") {
        WEIR_TEST_SEED(seed, 71);
        Random random(seed);
        constexpr uint64_t kFeatures = 400;
        constexpr double kL1 = 1;
        constexpr double kRest = 0.875;
        std::vector<Keys> keys(3);
        Server server;
        uint64_t alone = 0;  // features that a worker would leave out by its own part, and may not
        std::vector<std::map<uint64_t, double>> own(3);
        for (uint64_t key = 0; key < kFeatures; ++key) {
            for (size_t worker = 0; worker < 3; ++worker) {
                if (random.below(3) == 0) continue;
                keys[worker].push_back(key);
                own[worker][key] = 2 * random.uniform() - 1;
                server.push(key, own[worker][key], 1);
            }
        }
        const auto sums = server.sums;
        server.end_iteration(kL1, kRest);
        std::vector<std::map<uint64_t, bool>> keeps(3);
        for (size_t worker = 0; worker < 3; ++worker) {
            std::vector<double> pulled;
            for (const uint64_t key : keys[worker])
                pulled.push_back(server.rows[key].weight);
            const Keys begin{0, keys[worker].size()};
            KktFilter filter(begin, keys[worker]);
            filter.leave_out_resting(pulled);
            for (const uint64_t key : keys[worker])
                keeps[worker][key] = false;
            for (const uint64_t key : filter.keys(0))
                keeps[worker][key] = true;
        }
        for (size_t worker = 0; worker < 3; ++worker) {
            for (const uint64_t key : keys[worker]) {
                const bool rests = std::abs(sums.at(key).first) < kRest;
                CHECK(keeps[worker][key] == !rests);
                if (!rests && std::abs(own[worker][key]) < kRest) ++alone;
            }
        }
        CHECK(alone > 20);  // else this would prove nothing
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/vectors.h"

#include <cmath>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::linalg {
namespace {

using Values = std::map<uint64_t, double>;

/// Keys of which about `share` of so many are there, with small whole numbers: all sums are exact.
struct Some {
    Some(Random& random, uint64_t count, double share) {
        for (uint64_t key = 0; key < count; ++key) {
            if (random.uniform() >= share) continue;
            keys.push_back(key * 3 + 1);
            values.push_back(static_cast<float>(random.below(19)) - 9);
        }
    }

    [[nodiscard]] Vector<float> vector() { return {keys, std::span(values)}; }

    std::vector<uint64_t> keys;
    std::vector<float> values;
};

template <Expression E>
Values values_of(const E& e) {
    Values all;
    for_each(e, [&](uint64_t key, auto value) {
        REQUIRE((all.empty() || all.rbegin()->first < key));
        all[key] = static_cast<double>(value);
    });
    return all;
}

double dot_of(const Values& a, const Values& b) {
    double sum = 0;
    for (const auto& [key, value] : a) {
        const auto other = b.find(key);
        if (other != b.end()) sum += value * other->second;
    }
    return sum;
}

Values sum_of(const Values& a, const Values& b, double factor) {
    Values all = a;
    for (const auto& [key, value] : b)
        all[key] += factor * value;
    return all;
}

}  // namespace

TEST_SUITE("vectors") {
    TEST_CASE("sums, products and norms are those of the values by key") {
        WEIR_TEST_SEED(seed, 81);
        Random random(seed);
        Threads threads(3);
        for (int round = 0; round < 60; ++round) {
            Some a(random, 1 + random.below(400), random.uniform());
            Some b(random, 1 + random.below(400), random.uniform());
            if (round % 3 == 0) {  // the same keys
                b.keys = a.keys;
                b.values.resize(a.values.size(), 2);
            }
            const Vector<float> w = a.vector();
            const Vector<const float> u = b.vector();
            const Values of_w = values_of(w);
            const Values of_u = values_of(u);
            CHECK(dot(w, u, &threads) == dot_of(of_w, of_u));
            CHECK(values_of(w + u) == sum_of(of_w, of_u, 1));
            CHECK(values_of(w - 2.0 * u) == sum_of(of_w, of_u, -2));
            CHECK(dot(w + u, w - u) == dot_of(sum_of(of_w, of_u, 1), sum_of(of_w, of_u, -1)));
            CHECK(dot(w + u, u) == dot_of(sum_of(of_w, of_u, 1), of_u));
            double sum1 = 0;
            double most = 0;
            for (const auto& [key, value] : sum_of(of_w, of_u, 1)) {
                sum1 += std::abs(value);
                most = std::max(most, std::abs(value));
            }
            CHECK(norm1(w + u) == sum1);
            CHECK(norm_max(w + u) == most);
            CHECK(norm1(w, &threads) == doctest::Approx(norm1(0.0 * u + w)));
            CHECK(norm2(w) == std::sqrt(dot_of(of_w, of_w)));
            CHECK(norm2(-w) == norm2(w));
            CHECK(sum(w + w) == 2 * sum(w));
            std::vector<uint64_t> all = keys_of(w + u);
            CHECK(all.size() == sum_of(of_w, of_u, 1).size());
            std::vector<double> out(all.size(), -1);
            assign(w + u, Vector(all, out));
            CHECK(values_of(Vector(all, out)) == sum_of(of_w, of_u, 1));
            // At the keys that there are.
            size_t lacking = 0;
            Values added = of_w;
            for (const auto& [key, value] : of_u) {
                const auto at = added.find(key);
                at == added.end() ? void(++lacking) : void(at->second += 3 * value);
            }
            CHECK(axpy(3, u, w, &threads) == lacking);
            CHECK(values_of(w) == added);
        }
    }

    TEST_CASE("ranges are lists without an array") {
        std::vector<float> dense(100);
        for (size_t i = 0; i < dense.size(); ++i)
            dense[i] = static_cast<float>(i);
        const Vector all(dense);
        const std::vector<uint64_t> keys{0, 7, 99, 100, 1000};
        const std::vector<float> ones(keys.size(), 1);
        CHECK(dot(all, Vector(keys, ones)) == 0 + 7 + 99);
        CHECK(dot(Vector(keys, ones), all) == 0 + 7 + 99);
        const Vector some(KeyRange{10, 20}, std::span(dense).subspan(10, 10));
        CHECK(dot(some, all) == dot(some, some));
        CHECK(sum(some) == 145);
        CHECK(*some.find(13) == 13);
        CHECK(some.find(9) == nullptr);
        CHECK(some.find(20) == nullptr);
        CHECK(all.part(10, 20).keys() == some.keys());
        const std::vector<uint64_t> run{10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
        CHECK((some + Vector(run, some.values())).has_one_list());
        CHECK(axpy(1, all, some) == 90);
        CHECK(dense[10] == 20);
        CHECK(dense[20] == 20);
    }

    TEST_CASE("nothing is nothing") {
        const std::vector<uint64_t> keys;
        std::vector<double> values;
        const Vector none(keys, values);
        CHECK(dot(none, none) == 0);
        CHECK(norm2(none + none) == 0);
        CHECK(norm_max(none) == 0);
        CHECK(keys_of(none).empty());
        std::vector<double> one{4};
        CHECK(axpy(1, none, Vector(one)) == 0);
        CHECK(sum(none + Vector(one)) == 4);
        assign(none, Vector(one));
        CHECK(one[0] == 0);
    }

    TEST_CASE("long sums in several threads are those of one") {
        WEIR_TEST_SEED(seed, 82);
        Random random(seed);
        std::vector<double> x(200'001);
        std::vector<double> y(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<double>(random.below(1000));
            y[i] = static_cast<double>(random.below(1000));
        }
        Threads threads(4);
        CHECK(dot(Vector(x), Vector(y), &threads) == dot(Vector(x), Vector(y)));
        CHECK(sum(Vector(x) + Vector(y), &threads) == sum(Vector(x)) + sum(Vector(y)));
        std::vector<double> alone = y;
        (void)axpy(2, Vector(x), Vector(alone));
        (void)axpy(2, Vector(x), Vector(y), &threads);
        CHECK(alone == y);
    }

    TEST_CASE("a matrix by key has rows") {
        std::vector<float> values{1, 2, 3, 4, 5, 6};
        const std::vector<uint64_t> keys{5, 8, 9};
        const Matrix m(keys, values, 2);
        CHECK(m.row(1)[1] == 4);
        CHECK(m.rows(1, 3).keys()[1] == 9);
        CHECK(m.rows(1, 3).row(0)[0] == 3);
    }
}

TEST_SUITE("threads") {
    TEST_CASE("each part is done once, by any number of threads") {
        for (const uint32_t count : {0U, 1U, 2U, 5U}) {
            Threads threads(count);
            CHECK(threads.count() == std::max(1U, count));
            for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
                std::vector<int> done(size);
                threads.split(size, 3, [&](size_t begin, size_t end, uint32_t part) {
                    CHECK(part < threads.count());
                    for (size_t i = begin; i < end; ++i)
                        ++done[i];
                });
                CHECK(done == std::vector<int>(size, 1));
            }
        }
    }
}

}  // namespace weir::linalg

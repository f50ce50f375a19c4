// SPDX-License-Identifier: Apache-2.0
#include "lib/store/finite.h"

#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("finite") {
    using namespace weir;

    template <class T>
    static void check_type() {
        using Limits = std::numeric_limits<T>;
        std::vector<T> values(9001, Limits::max());
        values[1] = Limits::lowest();
        values[2] = Limits::denorm_min();
        values[3] = T(-0.0);
        CHECK(all_finite(std::span<const T>(values)));
        for (const size_t at : {size_t{0}, size_t{63}, size_t{4095}, size_t{4096}, size_t{9000}}) {
            for (const T bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
                const T before = std::exchange(values[at], bad);
                CHECK_FALSE(all_finite(std::span<const T>(values)));
                values[at] = before;
            }
        }
        CHECK(all_finite(std::span<const T>()));
    }

    TEST_CASE("every NaN and infinity is found, wherever it is, and nothing else") {
        check_type<float>();
        check_type<double>();
    }

    TEST_CASE("integers are finite, whatever their bits say") {
        const uint32_t bits[] = {0x7f800000U, 0xffffffffU};
        const auto* bytes = reinterpret_cast<const std::byte*>(bits);
        CHECK(all_finite(ValueType::kUInt32, bytes, 2));
        CHECK_FALSE(all_finite(ValueType::kFloat32, bytes, 2));
    }
}

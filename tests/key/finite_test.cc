// SPDX-License-Identifier: Apache-2.0
#include "lib/key/finite.h"

#include <limits>
#include <tuple>
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

    TEST_CASE("so it is with narrow values") {
        for (const auto& [type, infinity, lowest] :
             {std::tuple(ValueType::kBFloat16, 0x7f80, 0xff7f),
              std::tuple(ValueType::kFloat16, 0x7c00, 0xfbff)}) {
            std::vector<uint16_t> bits(100, static_cast<uint16_t>(lowest));
            const auto* const bytes = reinterpret_cast<const std::byte*>(bits.data());
            CHECK(all_finite(type, bytes, bits.size()));
            for (const int bad : {infinity, infinity | 0x8000, 0x7fff}) {
                bits[99] = static_cast<uint16_t>(bad);
                CHECK_FALSE(all_finite(type, bytes, bits.size()));
                CHECK(all_finite(type, bytes, bits.size() - 1));
            }
        }
    }

    TEST_CASE("integers are finite, whatever their bits say") {
        const uint32_t bits[] = {0x7f800000U, 0xffffffffU};
        const auto* bytes = reinterpret_cast<const std::byte*>(bits);
        CHECK(all_finite(ValueType::kUInt32, bytes, 2));
        CHECK_FALSE(all_finite(ValueType::kFloat32, bytes, 2));
    }
}

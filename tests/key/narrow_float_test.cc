// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/key/narrow_values.h"

TEST_SUITE("narrow_float") {
    using namespace weir;

    namespace {

    constexpr uint32_t kAll = 1U << 16;

    /// A narrow value as a textbook has it.
    double value_of(uint32_t bits, int exponent_bits) {
        const int fraction_bits = 15 - exponent_bits;
        const int bias = (1 << (exponent_bits - 1)) - 1;
        const int most = (1 << exponent_bits) - 1;
        const auto exponent = static_cast<int>(bits >> fraction_bits & static_cast<uint32_t>(most));
        const double fraction = std::ldexp(bits & ((1U << fraction_bits) - 1), -fraction_bits);
        const double sign = bits >> 15 != 0 ? -1 : 1;
        if (exponent == most)
            return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::quiet_NaN();
        if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
        return sign * std::ldexp(1 + fraction, exponent - bias);
    }

    template <class N>
    constexpr int kExponentBits = std::is_same_v<N, BFloat16> ? 8 : 5;

    template <class N>
    N of_bits(uint32_t bits) {
        N narrow;
        narrow.bits = static_cast<uint16_t>(bits);
        return narrow;
    }

    template <class N>
    std::vector<float> all_widened() {
        std::vector<N> narrow;
        for (uint32_t bits = 0; bits < kAll; ++bits)
            narrow.push_back(of_bits<N>(bits));
        std::vector<float> floats(kAll);
        widen(value_type_of<N>(), std::as_bytes(std::span(narrow)), floats.data());
        return floats;
    }

    template <class N>
    std::vector<N> narrowed(const std::vector<float>& floats) {
        std::vector<N> narrow(floats.size());
        narrow_to_nearest(value_type_of<N>(), floats,
                          std::as_writable_bytes(std::span(narrow)).data());
        return narrow;
    }

    template <class N>
    std::vector<N> drawn(const std::vector<float>& floats, uint64_t seed) {
        std::vector<N> narrow(floats.size());
        narrow_at_random(value_type_of<N>(), floats,
                         std::as_writable_bytes(std::span(narrow)).data(), seed);
        return narrow;
    }

    }  // namespace

    TEST_CASE_TEMPLATE("all narrow values are floats, exactly, and come back", N, BFloat16,
                       Float16) {
        const std::vector<float> floats = all_widened<N>();
        const std::vector<N> back = narrowed<N>(floats);
        const std::vector<N> drawn_back = drawn<N>(floats, 7);
        uint32_t wrong = 0;
        for (uint32_t bits = 0; bits < kAll; ++bits) {
            const double value = value_of(bits, kExponentBits<N>);
            const float is = floats[bits];
            CHECK(std::bit_cast<uint32_t>(is) ==
                  std::bit_cast<uint32_t>(static_cast<float>(of_bits<N>(bits))));
            if (std::isnan(value)) {
                const bool stays = std::isnan(is) && std::isnan(static_cast<float>(back[bits])) &&
                                   std::isnan(static_cast<float>(drawn_back[bits])) &&
                                   back[bits].bits >> 15 == bits >> 15;
                wrong += static_cast<uint32_t>(!stays);
                continue;
            }
            const bool same = static_cast<double>(is) == value && std::signbit(is) == bits >> 15 &&
                              back[bits].bits == bits && drawn_back[bits].bits == bits;
            wrong += static_cast<uint32_t>(!same);
        }
        CHECK(wrong == 0);
    }

    TEST_CASE_TEMPLATE("a float becomes the nearest narrow value, and of two the even one", N,
                       BFloat16, Float16) {
        // Finite ones, and what comes behind the greatest would be.
        const uint32_t end = static_cast<uint32_t>((1 << kExponentBits<N>)-1)
                             << (15 - kExponentBits<N>);
        std::vector<float> floats;
        std::vector<uint32_t> wanted;
        const auto add = [&](float value, uint32_t bits) {
            floats.push_back(value);
            wanted.push_back(bits);
            floats.push_back(-value);
            wanted.push_back(bits | 0x8000U);
        };
        for (uint32_t bits = 0; bits < end; ++bits) {
            const double low = value_of(bits, kExponentBits<N>);
            const double step = bits + 1 < end ? value_of(bits + 1, kExponentBits<N>) - low
                                               : low - value_of(bits - 1, kExponentBits<N>);
            const double middle = low + step / 2;
            const auto tie = static_cast<float>(middle);
            REQUIRE(static_cast<double>(tie) == middle);
            add(tie, bits + (bits & 1));
            add(std::nextafter(tie, 0.0F), bits);
            add(std::nextafter(tie, std::numeric_limits<float>::infinity()), bits + 1);
        }
        add(std::numeric_limits<float>::infinity(), end);
        add(std::numeric_limits<float>::max(), end);
        add(std::numeric_limits<float>::denorm_min(), 0);
        const std::vector<N> narrow = narrowed<N>(floats);
        uint32_t wrong = 0;
        for (size_t i = 0; i < floats.size(); ++i) {
            wrong += static_cast<uint32_t>(narrow[i].bits != wanted[i]);
            wrong += static_cast<uint32_t>(N(floats[i]).bits != wanted[i]);
        }
        CHECK(wrong == 0);
    }

    TEST_CASE_TEMPLATE("drawn values are the two closest, as often as they are close", N, BFloat16,
                       Float16) {
        constexpr size_t kDraws = 40'000;
        for (const float value : {1.001F, -3.0017F, 1e-6F, 4e-8F, 700.3F, 6.1e-5F, -0.1F}) {
            const auto draws = drawn<N>(std::vector<float>(kDraws, value), 42);
            double sum = 0;
            double least = std::numeric_limits<double>::infinity();
            double most = -least;
            for (const N draw : draws) {
                const auto is = static_cast<double>(static_cast<float>(draw));
                sum += is;
                least = std::min(least, is);
                most = std::max(most, is);
            }
            CAPTURE(value);
            CHECK(least <= static_cast<double>(value));
            CHECK(most >= static_cast<double>(value));
            const auto ordered = [](N narrow) {  // by value
                return narrow.bits >> 15 != 0 ? -(narrow.bits & 0x7fff) : +narrow.bits;
            };
            CHECK(std::abs(ordered(N(static_cast<float>(most))) -
                           ordered(N(static_cast<float>(least)))) <= 1);
            const double deviation = (most - least) / 2 / std::sqrt(kDraws);
            CHECK(std::abs(sum / kDraws - static_cast<double>(value)) <= 5 * deviation);
        }
    }

    TEST_CASE("a seed draws the same again, and another one other values") {
        const std::vector<float> floats(1000, 0.3001F);
        const auto same = [&](uint64_t a, uint64_t b) {
            return std::ranges::equal(drawn<BFloat16>(floats, a), drawn<BFloat16>(floats, b), {},
                                      &BFloat16::bits, &BFloat16::bits);
        };
        CHECK(same(1, 1));
        CHECK_FALSE(same(1, 2));
        CHECK_FALSE(same(1, 1 + (uint64_t{1} << 32)));
    }

    TEST_CASE_TEMPLATE("narrow values may lie at any byte", N, BFloat16, Float16) {
        const std::vector<float> floats = {1, -2, 0.5F, 3, 65504, 0, 1e-3F};
        std::vector<std::byte> bytes(1 + 2 * floats.size());
        narrow_to_nearest(value_type_of<N>(), floats, bytes.data() + 1);
        std::vector<float> back(floats.size());
        widen(value_type_of<N>(), std::span(bytes).subspan(1), back.data());
        for (size_t i = 0; i < floats.size(); ++i)
            CHECK(back[i] == static_cast<float>(N(floats[i])));
    }
}

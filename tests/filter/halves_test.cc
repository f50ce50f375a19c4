// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/halves.h"

#include <cmath>

#include <doctest/doctest.h>

#include "lib/key/narrow_float.h"
#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("halves") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr ValueType kTypes[] = {ValueType::kBFloat16, ValueType::kFloat16};

    float widened(ValueType type, uint16_t bits) {
        return type == ValueType::kBFloat16 ? narrow_bits::widen_bfloat16(bits)
                                            : narrow_bits::widen_float16(bits);
    }

    /// Every one, but for NaNs that are not quiet: none becomes one.
    std::vector<uint16_t> all_halves(ValueType type) {
        const unsigned quiet = type == ValueType::kBFloat16 ? 0x40 : 0x200;
        std::vector<uint16_t> all;
        for (unsigned bits = 0; bits < 0x10000; ++bits) {
            const auto half = static_cast<uint16_t>(bits);
            if (!std::isnan(widened(type, half)) || (bits & quiet) != 0) all.push_back(half);
        }
        return all;
    }

    }  // namespace

    TEST_CASE("every half comes back, aligned or not") {
        for (const ValueType type : kTypes) {
            CAPTURE(to_string(type));
            const std::vector<uint16_t> halves = all_halves(type);
            std::vector<float> floats;
            for (const uint16_t half : halves)
                floats.push_back(widened(type, half));
            const Bytes values = bytes_of(floats);
            for (const size_t shift : {0, 1, 3}) {
                Bytes from(shift);
                from.insert(from.end(), values.begin(), values.end());
                Bytes body(shift + values.size() / 2);
                const auto to = std::span(body).subspan(shift);
                REQUIRE(encode_halves(type, std::span(from).subspan(shift), to));
                CHECK(values_of<uint16_t>(to) == halves);
                Bytes back(shift + values.size());
                decode_halves(type, to, std::span(back).subspan(shift));
                CHECK(Bytes(back.begin() + static_cast<ptrdiff_t>(shift), back.end()) == values);
            }
        }
    }

    TEST_CASE("one value that is none, wherever it is, is enough to refuse them") {
        for (const ValueType type : kTypes) {
            for (const size_t count : {1, 255, 256, 257, 1000}) {
                for (const size_t at : {size_t{0}, count / 2, count - 1}) {
                    std::vector<float> floats(count, 1.5F);
                    Bytes body(2 * count);
                    CHECK(encode_halves(type, bytes_of(floats), body));
                    for (const float wrong : {1.0F / 3, 1e-42F, 3e38F}) {
                        floats[at] = wrong;
                        CHECK_FALSE(encode_halves(type, bytes_of(floats), body));
                    }
                }
            }
        }
        const std::vector<float> great{65536, 1e-30F};
        Bytes body(4);
        CHECK_FALSE(encode_halves(ValueType::kFloat16, bytes_of(great), body));
    }

    TEST_CASE("any body becomes floats, which become it again unless a NaN is not quiet") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const ValueType type : kTypes) {
            for (const size_t count : kCounts) {
                Bytes body = random_bytes(random, 2 * count);
                Bytes values(2 * body.size());
                decode_halves(type, body, values);
                size_t i = 0;
                for (const float value : values_of<float>(values))
                    CHECK(std::isnan(value) ==
                          std::isnan(widened(type, values_of<uint16_t>(body)[i++])));
                Bytes again(body.size());
                if (encode_halves(type, values, again)) CHECK(again == body);
            }
        }
    }
}

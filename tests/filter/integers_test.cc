// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/integers.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("integers") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    template <class T>
    Bytes encoded(const std::vector<T>& values) {
        Bytes body(integers_bytes_max(value_type_of<T>(), values.size()));
        body.resize(encode_integers(value_type_of<T>(), bytes_of(values), body));
        body.shrink_to_fit();
        for (const Simd simd : all_simd()) {
            Bytes same(integers_bytes_max(value_type_of<T>(), values.size()));
            same.resize(encode_integers(value_type_of<T>(), bytes_of(values), same, simd));
            CHECK(same == body);
        }
        return body;
    }

    template <class T>
    bool decodes_to(const Bytes& body, const std::vector<T>& values) {
        bool all = true;
        for (const Simd simd : all_simd()) {
            Bytes back(values.size() * sizeof(T), std::byte{0xee});
            all = all && decode_integers(value_type_of<T>(), body, back, simd) &&
                  back == bytes_of(values);
        }
        return all;
    }

    /// Whether the values come back; and of their one block, whether it is raw.
    template <class T>
    bool is_raw(const std::vector<T>& values) {
        const Bytes body = encoded(values);
        CHECK(decodes_to(body, values));
        return body[0] == std::byte{kRawBlock};
    }

    template <class T>
    std::vector<T> counting(size_t count, double first, double step) {
        std::vector<T> values;
        for (size_t i = 0; i < count; ++i)
            values.push_back(static_cast<T>(first + static_cast<double>(i) * step));
        return values;
    }

    /// Values of one kind, at times with one of another kind among them.
    template <class T>
    std::vector<T> drawn(Random& random, size_t count) {
        std::vector<T> values;
        const auto scale = static_cast<int>(random.below(40)) - 20;
        const uint64_t range = uint64_t{1} << random.below(30);
        for (size_t i = 0; i < count; ++i) {
            if constexpr (std::is_floating_point_v<T>) {
                const double integer =
                    static_cast<double>(random.below(range)) - static_cast<double>(range / 2);
                values.push_back(static_cast<T>(std::ldexp(integer, scale)));
                if (random.below(300) == 0) values.back() = -T{0};
                if (random.below(300) == 0) values.back() = std::numeric_limits<T>::denorm_min();
            } else {
                values.push_back(static_cast<T>(random.below(range) << (scale & 7)) - T{100});
                if (random.below(300) == 0) values.back() = static_cast<T>(random());
            }
        }
        return values;
    }

    }  // namespace

    TEST_CASE_TEMPLATE("values of any size and number come back, and never take more room", T,
                       float, double, int32_t, uint32_t, int64_t, uint64_t) {
        WEIR_TEST_SEED(seed, 71);
        Random random(seed);
        for (int round = 0; round < 50; ++round) {
            for (const size_t count : kCounts) {
                const std::vector<T> values = drawn<T>(random, count);
                const Bytes body = encoded(values);
                CHECK(body.size() <= integers_bytes_max(value_type_of<T>(), count));
                CHECK(decodes_to(body, values));
            }
        }
    }

    TEST_CASE_TEMPLATE("any bits come back", T, float, double, int32_t, uint32_t, int64_t,
                       uint64_t) {
        WEIR_TEST_SEED(seed, 72);
        Random random(seed);
        for (int round = 0; round < 200; ++round) {
            Bytes bytes(random.below(200) * sizeof(T));
            for (std::byte& byte : bytes)
                byte = static_cast<std::byte>(random());
            CHECK(decodes_to(encoded(values_of<T>(bytes)), values_of<T>(bytes)));
        }
    }

    TEST_CASE_TEMPLATE("integers times a power of two take few bits", T, float, double) {
        constexpr size_t kHead = 3 + sizeof(T);
        CHECK(encoded(std::vector<T>(64, T{0})).size() == kHead);
        CHECK(encoded(std::vector<T>(64, T{7})).size() == kHead);
        CHECK(encoded(counting<T>(64, -20, 1)).size() == kHead + 6 * 8);
        CHECK(encoded(counting<T>(64, 1000, 0.125)).size() == kHead + 6 * 8);
        CHECK(encoded(counting<T>(64, 0, 1 << 20)).size() == kHead + 6 * 8);
        CHECK(encoded(counting<T>(65, -20, 1)).size() == 2 * kHead + 6 * 8 - kHead + 1 + sizeof(T));
    }

    TEST_CASE_TEMPLATE("blocks whose scales and sizes jump are what each is by itself", T, float,
                       double) {
        WEIR_TEST_SEED(seed, 7);
        Random random(seed);
        constexpr int kDigits = std::numeric_limits<T>::digits;
        for (int round = 0; round < 300; ++round) {
            std::vector<T> values;
            Bytes blocks;
            const auto jump = static_cast<int>(1 + random.below(300));
            for (uint64_t block = 1 + random.below(8); block > 0; --block) {
                std::vector<T> one(kIntegerBlock);
                const auto scale =
                    static_cast<int>(random.below(static_cast<uint64_t>(jump))) - jump / 2;
                const uint64_t end = uint64_t{1} << random.below(kDigits + 1);
                for (T& value : one) {
                    const auto integer = static_cast<int64_t>(random.below(2 * end));
                    value = std::ldexp(static_cast<T>(integer - static_cast<int64_t>(end)), scale);
                    if (random.below(500) == 0) value = std::numeric_limits<T>::denorm_min();
                    if (random.below(500) == 0) value = T{-0.0};
                    if (random.below(500) == 0) value = -std::numeric_limits<T>::max();
                }
                values.insert(values.end(), one.begin(), one.end());
                const Bytes body = encoded(one);
                blocks.insert(blocks.end(), body.begin(), body.end());
            }
            const Bytes body = encoded(values);
            CHECK(body == blocks);
            CHECK(decodes_to(body, values));
        }
    }

    TEST_CASE_TEMPLATE("integers close together take few bits", T, int32_t, uint32_t, int64_t,
                       uint64_t) {
        constexpr size_t kHead = 3 + sizeof(T);
        CHECK(encoded(std::vector<T>(64, std::numeric_limits<T>::max())).size() == kHead);
        CHECK(encoded(std::vector<T>(64, std::numeric_limits<T>::min())).size() == kHead);
        std::vector<T> values;
        for (size_t i = 0; i < 64; ++i)
            values.push_back(static_cast<T>(std::numeric_limits<T>::max() - 3 - 32 * i));
        CHECK(encoded(values).size() == kHead + 6 * 8);
        for (size_t i = 0; i < 64; ++i)
            values[i] = static_cast<T>(T{0} - T{2} + static_cast<T>(i % 4));
        const bool wraps = std::is_unsigned_v<T>;  // 0 and the greatest number are far apart
        CHECK(is_raw(values) == wraps);
    }

    TEST_CASE_TEMPLATE("one value that is no integer times a power of two makes its block raw", T,
                       float, double) {
        std::vector<T> values = counting<T>(64, -5, 1);
        CHECK_FALSE(is_raw(values));
        const T smallest = std::numeric_limits<T>::min();
        for (const T bad :
             {-T{0}, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
              -std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(),
              smallest / 2, smallest, std::numeric_limits<T>::max(), static_cast<T>(0.1)}) {
            values[17] = bad;
            CHECK(is_raw(values));
            values[17] = T{0};
        }
        CHECK_FALSE(is_raw(values));
    }

    TEST_CASE_TEMPLATE("the smallest and greatest normal values come back", T, float, double) {
        using Limits = std::numeric_limits<T>;
        CHECK_FALSE(is_raw(std::vector<T>(64, Limits::min())));
        CHECK_FALSE(is_raw(std::vector<T>(64, -Limits::min())));
        CHECK(is_raw(std::vector<T>(64, Limits::min() / 2)));
        (void)is_raw(std::vector<T>(64, Limits::max()));
        (void)is_raw(std::vector<T>(64, Limits::max() / 2));
        (void)is_raw(std::vector<T>(64, std::ldexp(T{1}, Limits::max_exponent - 1)));
        const T whole = std::ldexp(T{1}, Limits::digits);  // integers are below it
        std::vector<T> values(64, whole - 1);
        values[0] = whole - 3;
        CHECK_FALSE(is_raw(values));
        values[1] = whole + 2;
        values[2] = T{1};
        CHECK(is_raw(values));
    }

    TEST_CASE("a body of other values is refused") {
        const std::vector<float> values = counting<float>(70, 3, 1);
        const Bytes body = encoded(values);
        REQUIRE(decodes_to(body, values));
        const size_t second = 7 + 6 * 8;
        REQUIRE(body.size() == second + 7 + 3);  // 6 offsets of 3 bits
        Bytes wrong = body;
        SUBCASE("a byte is missing") {
            wrong.pop_back();
        }
        SUBCASE("a byte is left") {
            wrong.push_back(std::byte{0});
        }
        SUBCASE("a block is missing") {
            wrong.resize(second);
        }
        SUBCASE("a head ends early") {
            wrong.resize(second + 6);
        }
        SUBCASE("a bit behind the last offset") {
            wrong.back() |= std::byte{0x80};
        }
        SUBCASE("too many bits") {
            wrong[0] = std::byte{57};
        }
        SUBCASE("more bits than a float has") {
            wrong[0] = std::byte{26};
        }
        SUBCASE("one bit more") {
            wrong[0] = std::byte{7};
        }
        SUBCASE("a raw block that is too short") {
            wrong[second] = std::byte{kRawBlock};
        }
        SUBCASE("a scale that is too small") {
            wrong[1] = std::byte{0x81};
            wrong[2] = std::byte{0xff};
        }
        SUBCASE("a scale that is too great") {
            wrong[1] = std::byte{104};
        }
        SUBCASE("a reference that is too great") {
            wrong[6] = std::byte{1};
        }
        SUBCASE("a reference that is too small") {
            wrong[6] = std::byte{0xfe};
        }
        SUBCASE("an offset that makes an integer too great") {
            wrong[3] = wrong[4] = wrong[5] = std::byte{0xff};  // 2^24 - 1, and all offsets above
        }
        SUBCASE("nothing") {
            wrong.clear();
        }
        wrong.shrink_to_fit();
        Bytes back(70 * 4);
        CHECK(decode_integers(ValueType::kFloat32, wrong, back).code() == Errc::kProtocol);
    }

    TEST_CASE("scales that shift integers out are refused") {
        const std::vector<int32_t> values(64, 5);
        Bytes body = encoded(values);
        REQUIRE(body.size() == 7);
        Bytes back(64 * 4);
        const auto accepted = [&](uint8_t bits, uint8_t scale) {
            body[0] = std::byte{bits};
            body[1] = std::byte{scale};
            body.resize(7 + 8 * bits);
            return decode_integers(ValueType::kInt32, body, back).has_value();
        };
        CHECK(accepted(0, 31));
        CHECK_FALSE(accepted(0, 32));
        CHECK(accepted(32, 0));
        CHECK(accepted(20, 12));
        CHECK_FALSE(accepted(20, 13));
        CHECK_FALSE(accepted(33, 0));
        body[2] = std::byte{0x80};
        CHECK_FALSE(accepted(0, 1));
    }

    TEST_CASE("a body of no values is empty") {
        CHECK(encoded<double>({}).empty());
        CHECK(decode_integers(ValueType::kFloat64, {}, {}));
        CHECK_FALSE(decode_integers(ValueType::kFloat64, Bytes(1), {}));
    }
}

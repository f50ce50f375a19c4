// SPDX-License-Identifier: Apache-2.0
#include "lib/key/value_type.h"

#include <type_traits>

#include <doctest/doctest.h>

TEST_SUITE("value_type") {
    using namespace weir;

    TEST_CASE("type, number, size and name belong together") {
        for (size_t i = 0; i < kValueTypeCount; ++i) {
            const auto type = static_cast<ValueType>(i);
            CHECK(value_type_from(to_string(type)) == type);
            CHECK(is_narrow(type) == (i >= kComputedTypeCount));
            CHECK(computed_type(type) == (is_narrow(type) ? ValueType::kFloat32 : type));
            if (is_narrow(type)) continue;
            const bool same = with_value_type(type, [&]<class T>() {
                return value_type_of<T>() == type && sizeof(T) == size_of(type) &&
                       std::is_floating_point_v<T> == is_floating(type);
            });
            CHECK(same);
        }
    }

    TEST_CASE("narrow types have two bytes, and are floating") {
        CHECK(value_type_of<BFloat16>() == ValueType::kBFloat16);
        CHECK(value_type_of<Float16>() == ValueType::kFloat16);
        for (const ValueType type : {ValueType::kBFloat16, ValueType::kFloat16}) {
            CHECK(size_of(type) == sizeof(BFloat16));
            CHECK(is_floating(type));
        }
        CHECK(static_cast<int>(ValueType::kBFloat16) == 6);  // on the wire
        CHECK(static_cast<int>(ValueType::kFloat16) == 7);
    }

    TEST_CASE("a number that names no type has no size") {
        CHECK(size_of(static_cast<ValueType>(8)) == 0);
        CHECK_FALSE(is_valid(static_cast<ValueType>(255)));
        CHECK_FALSE(value_type_from("float").has_value());
    }
}

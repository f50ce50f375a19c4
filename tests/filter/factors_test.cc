// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/factors.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("factors") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    template <class T>
    struct Example {
        FactorsShape shape;
        std::vector<T> left;
        std::vector<T> right;

        Example(Random& random, size_t row_count, size_t rank, size_t width)
            : shape{value_type_of<T>(), row_count, width},
              left(row_count * rank),
              right(rank * width) {
            // Of different sizes, so that each rounding shows.
            const auto draw = [&] {
                return static_cast<T>(
                    std::ldexp(random.uniform() - 0.5, static_cast<int>(random.below(20))));
            };
            for (T& value : left)
                value = draw();
            for (T& value : right)
                value = draw();
        }

        [[nodiscard]] Bytes body() const {
            Bytes bytes((left.size() + right.size()) * sizeof(T));
            encode_factors(shape, bytes_of(left), bytes_of(right), bytes);
            return bytes;
        }

        /// With each operation rounded: volatile numbers are not fused.
        [[nodiscard]] std::vector<T> rows() const {
            const size_t rank = left.size() / shape.row_count;
            std::vector<T> rows;
            for (size_t r = 0; r < shape.row_count; ++r) {
                for (size_t c = 0; c < shape.width; ++c) {
                    volatile T sum = left[r * rank] * right[c];
                    for (size_t k = 1; k < rank; ++k) {
                        const volatile T product = left[r * rank + k] * right[k * shape.width + c];
                        sum = sum + product;
                    }
                    rows.push_back(T{sum});
                }
            }
            return rows;
        }
    };

    template <class T>
    Bytes decoded(const FactorsShape& shape, const Bytes& body) {
        Bytes rows(shape.row_count * shape.width * sizeof(T));
        REQUIRE(decode_factors(shape, body, rows));
        return rows;
    }

    }  // namespace

    TEST_CASE_TEMPLATE("rows are multiplied out in the order of the rank, each step rounded", T,
                       float, double) {
        WEIR_TEST_SEED(seed, 41);
        Random random(seed);
        for (const size_t row_count : {1, 2, 5}) {
            for (const size_t rank : {1, 2, 3, 16}) {
                for (const size_t width : {1, 7, 8, 9, 31, 64, 65, 200}) {
                    const Example<T> example(random, row_count, rank, width);
                    const Bytes body = example.body();
                    CHECK(factors_rank(example.shape, body).value() == rank);
                    CHECK(decoded<T>(example.shape, body) == bytes_of(example.rows()));
                }
            }
        }
    }

    TEST_CASE_TEMPLATE("a product of -0 stays -0, and every NaN has the same bits", T, float,
                       double) {
        Random random(1);
        Example<T> example(random, 1, 1, 9);
        example.left = {T{-1}};
        const T infinity = std::numeric_limits<T>::infinity();
        const T nan = std::numeric_limits<T>::quiet_NaN();
        example.right = {T{0}, T{1}, -nan, std::copysign(nan, T{-1}), infinity, T{0},
                         nan,  T{2}, T{0}};
        const auto rows = values_of<T>(decoded<T>(example.shape, example.body()));
        CHECK((rows[0] == 0 && std::signbit(rows[0])));
        CHECK(rows[4] == -infinity);
        CHECK((rows[8] == 0 && std::signbit(rows[8])));
        for (const size_t i : {2, 3, 6})
            CHECK(bytes_of<T>({rows[i]}) == bytes_of<T>({nan}));

        example = Example<T>(random, 1, 2, 9);
        example.left = {T{1}, T{1}};
        example.right.assign(18, infinity);
        for (size_t i = 9; i < 18; ++i)
            example.right[i] = -infinity;
        CHECK(decoded<T>(example.shape, example.body()) == bytes_of(std::vector<T>(9, nan)));
    }

    TEST_CASE("bodies that are not of the shape, and too much work, are refused") {
        const FactorsShape shape{ValueType::kFloat32, 10, 20};
        const auto refused = [](const FactorsShape& of, size_t bytes) {
            return factors_rank(of, Bytes(bytes)).code() == Errc::kProtocol;
        };
        CHECK_FALSE(refused(shape, 30 * 4));
        CHECK_FALSE(refused(shape, 2 * 30 * 4));
        CHECK(refused(shape, 0));
        CHECK(refused(shape, 30 * 4 - 1));
        CHECK(refused(shape, 30 * 4 + 1));
        CHECK(refused(shape, 31 * 4));
        CHECK(refused(shape, 29 * 4));
        CHECK(refused({ValueType::kFloat32, 0, 20}, 20 * 4));
        CHECK(refused({ValueType::kFloat32, 10, 0}, 10 * 4));
        CHECK(refused({ValueType::kFloat64, 0, 0}, 8));
        constexpr size_t kMost = std::numeric_limits<size_t>::max();
        CHECK(refused({ValueType::kFloat32, kMost, 2}, 4));  // rows and width are 1
        CHECK(refused({ValueType::kFloat32, kMost, 1}, 4));  // or 0
        CHECK(refused({ValueType::kFloat32, kMost, kMost}, 8));
        // 2^26 products and one row more: a small body that asks for much.
        CHECK_FALSE(refused({ValueType::kFloat32, 8192, 8192}, 2 * 8192 * 4));
        CHECK(refused({ValueType::kFloat32, 8193, 8192}, (8193 + 8192) * 4));
        CHECK(refused({ValueType::kFloat32, 8192, 8192}, 2 * 2 * 8192 * 4));
        Bytes rows(10 * 20 * 4, std::byte{0xee});
        const Bytes before = rows;
        CHECK_FALSE(decode_factors(shape, Bytes(31 * 4), rows));
        CHECK(rows == before);
    }
}

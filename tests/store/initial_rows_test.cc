// SPDX-License-Identifier: Apache-2.0
#include "lib/store/initial_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/schema_codec.h"
#include "lib/store/table.h"
#include "tests/seed.h"
#include "tests/store/made_table.h"

namespace {

using namespace weir;

constexpr uint32_t kWidth = 5;

template <class T>
std::vector<T> row_of(const InitialValue& initial, uint64_t key, uint32_t width = kWidth) {
    std::vector<T> values(width);
    InitialRows(initial, value_type_of<T>(), width)
        .fill(key, reinterpret_cast<std::byte*>(values.data()));
    return values;
}

TableSchema random_schema(Layout layout) {
    return {.name = "t",
            .layout = layout,
            .width = kWidth,
            .key_count = 100,
            .rule = "adagrad",
            .parameters = {{0.5, 0.01}},
            .initial_value = uniform(-1, 1, 7)};
}

struct Rows {
    explicit Rows(const TableSchema& table_schema,
                  const PositionSet& owned = PositionSet::whole_ring())
        : schema(table_schema), table(*TableShard::make(schema, owned, rules, memory, lists)) {
        fill();
    }

    void fill() {
        while (table->fill_some()) {
        }
        REQUIRE(table->unfilled_rows() == 0);
    }

    std::vector<float> pull(const std::vector<uint64_t>& keys) {
        std::vector<float> out(keys.size() * kWidth, 99);
        REQUIRE(table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
        return out;
    }

    void push(const std::vector<uint64_t>& keys, float gradient) {
        const std::vector<float> pushed(keys.size() * kWidth, gradient);
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
    }

    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    HeapMemory memory;
    KnownLists lists{memory, 1 << 20};
    TableSchema schema;
    std::unique_ptr<TableShard> table;
};

/// What the generator says of these keys.
std::vector<float> expected(const std::vector<uint64_t>& keys) {
    std::vector<float> all;
    for (const uint64_t key : keys) {
        const auto row = row_of<float>(uniform(-1, 1, 7), key);
        all.insert(all.end(), row.begin(), row.end());
    }
    return all;
}

std::vector<uint64_t> some_keys(Random& random, uint64_t bound, size_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t& key : keys)
        key = random.below(bound);
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

}  // namespace

TEST_SUITE("initial rows") {
    TEST_CASE("the same seed gives the bits that it has always given") {
        CHECK(row_of<float>(uniform(-0.5, 0.25, 42), 1'000'003, 3) ==
              std::vector<float>{0x1.da87400000000p-6F, 0x1.9420480000000p-3F,
                                 0x1.c2ea000000000p-8F});
        CHECK(
            row_of<double>(uniform(-0.5, 0.25, 42), 1'000'003, 3) ==
            std::vector<double>{0x1.da87382171c00p-6, 0x1.942046d422ea4p-3, 0x1.c2ea32690af00p-8});
        CHECK(row_of<float>(normal(1, 0.01, 42), ~uint64_t{0}, 3) ==
              std::vector<float>{0x1.fcaf8c0000000p-1F, 0x1.fe13240000000p-1F,
                                 0x1.01888c0000000p+0F});
        CHECK(row_of<double>(normal(0, 3, 0), 0, 3) == std::vector<double>{-0x1.4c3e9e0000000p-6,
                                                                           -0x1.b2c7075c00000p+1,
                                                                           -0x1.8faf22b800000p+1});
    }

    TEST_CASE("uniform values fill their interval, and normal ones are cut at two deviations") {
        constexpr int kRows = 40'000;
        for (const bool is_normal : {false, true}) {
            const InitialValue initial = is_normal ? normal(0.5, 2, 3) : uniform(-1, 3, 3);
            double sum = 0;
            double squares = 0;
            double least = 100;
            double most = -100;
            for (uint64_t key = 0; key < kRows; ++key) {
                for (const float value : row_of<float>(initial, key)) {
                    sum += value;
                    squares += double(value) * value;
                    least = std::min<double>(least, value);
                    most = std::max<double>(most, value);
                }
            }
            const double mean = sum / (kRows * kWidth);
            const double deviation = std::sqrt(squares / (kRows * kWidth) - mean * mean);
            CHECK(mean == doctest::Approx(is_normal ? 0.5 : 1).epsilon(0.02));
            // A normal distribution that is cut at 2 has the variance 0.7737.
            CHECK(deviation ==
                  doctest::Approx(is_normal ? 2 * std::sqrt(0.7737413) : 4 / std::sqrt(12.0))
                      .epsilon(0.01));
            CHECK(least >= (is_normal ? -3.5 : -1));
            CHECK(least < (is_normal ? -3.45 : -0.99));
            CHECK(most <= (is_normal ? 4.5 : 3));
            CHECK(most > (is_normal ? 4.45 : 2.99));
        }
    }

    TEST_CASE("the quarters of a normal distribution are where they belong") {
        std::vector<double> all;
        for (uint64_t key = 0; key < 20'000; ++key) {
            for (const double value : row_of<double>(normal(0, 1, 9), key))
                all.push_back(value);
        }
        std::ranges::sort(all);
        CHECK(all[all.size() / 4] == doctest::Approx(-0.6352).epsilon(0.02));
        CHECK(std::abs(all[all.size() / 2]) < 0.02);
        CHECK(all[all.size() * 3 / 4] == doctest::Approx(0.6352).epsilon(0.02));
    }

    TEST_CASE("keys that were never pushed read as what they begin with when they are") {
        WEIR_TEST_SEED(seed, 71);
        Random random(seed);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            Rows rows(random_schema(layout));
            Rows model(random_schema(layout));
            for (int step = 0; step < 30; ++step) {
                const auto keys = some_keys(random, 100, 1 + random.below(90));
                CHECK(model.pull(keys) == expected(keys));  // nobody pushes to the model
                if (step % 3 == 0) rows.push(keys, 0);      // rows are made, and keep their values
                CHECK(rows.pull(keys) == expected(keys));
            }
            const std::vector<uint64_t> one = {3};
            rows.push(one, 1);
            CHECK(rows.pull(one) != expected(one));
        }
    }

    TEST_CASE("lists of more than one block, and rows that are used again, read the same") {
        TableSchema schema = random_schema(Layout::kSparse);
        schema.key_count = 0;
        Rows rows(schema);
        WEIR_TEST_SEED(seed, 72);
        Random random(seed);
        const auto keys = some_keys(random, ~uint64_t{0}, 40'000);
        CHECK(rows.pull(keys) == expected(keys));
        std::vector<uint64_t> half;
        for (size_t i = 0; i < keys.size(); i += 2)
            half.push_back(keys[i]);
        rows.push(half, 0);
        CHECK(rows.pull(keys) == expected(keys));
        rows.push(half, 1);
        // Half of the ring is given up, and comes back.
        const PositionRange lower{0, ~uint64_t{0} / 2};
        const PositionSet given_up{std::span(&lower, 1)};
        rows.table->give_up(given_up);
        while (rows.table->drop_some()) {
        }
        const auto others = some_keys(random, ~uint64_t{0}, 5'000);
        std::vector<uint64_t> held;
        for (const uint64_t key : others) {
            if (rows.table->held().contains(PositionMap::sparse().position(key)))
                held.push_back(key);
        }
        rows.push(held, 0);  // in rows that had other keys
        CHECK(rows.pull(held) == expected(held));
        REQUIRE(rows.table->hold(given_up));
        rows.table->serve(PositionSet::whole_ring());
        CHECK(rows.pull(others) == expected(others));
        rows.push(others, 0);
        CHECK(rows.pull(others) == expected(others));
    }

    TEST_CASE("the keys of a dense table read the same on any number of shards, and after moves") {
        std::vector<uint64_t> all(100);
        for (uint64_t key = 0; key < all.size(); ++key)
            all[key] = key;
        const PositionRange halves[] = {{0, ~uint64_t{0} / 2},
                                        {~uint64_t{0} / 2 + 1, ~uint64_t{0}}};
        std::vector<float> found;
        for (const PositionRange& half : halves) {
            Rows rows(random_schema(Layout::kDense), PositionSet{std::span(&half, 1)});
            const KeyRange keys = rows.table->extents()[0];
            std::vector<float> out(keys.key_count() * kWidth);
            REQUIRE(rows.table->pull(keys, std::as_writable_bytes(std::span(out))));
            found.insert(found.end(), out.begin(), out.end());
            const PositionRange& other = &half == &halves[0] ? halves[1] : halves[0];
            REQUIRE(rows.table->hold(PositionSet{std::span(&other, 1)}));
            rows.fill();
            rows.table->serve(PositionSet::whole_ring());
            CHECK(rows.pull(all) == expected(all));
        }
        CHECK(found == expected(all));
    }

    TEST_CASE("a step makes a bounded number of a dense table's rows") {
        constexpr size_t kStepRows = TableShard::kFilledValuesMax / kWidth;
        TableSchema schema = random_schema(Layout::kDense);
        schema.key_count = 5 * kStepRows + 17;
        HeapMemory memory;
        const Made table = made(schema, memory);
        size_t left = schema.key_count;
        CHECK(table->unfilled_rows() == left);
        for (size_t steps = 1; left > 0; ++steps) {
            REQUIRE(steps <= 6);
            const bool has_more = table->fill_some();
            CHECK(table->unfilled_rows() == left - std::min(left, kStepRows));
            left = table->unfilled_rows();
            CHECK(has_more == (left > 0));
        }
        std::vector<uint64_t> all(schema.key_count);
        std::iota(all.begin(), all.end(), 0);
        std::vector<float> out(all.size() * kWidth);
        REQUIRE(table->pull(KeyRange{0, all.size()}, std::as_writable_bytes(std::span(out))));
        CHECK(out == expected(all));
    }

    TEST_CASE("rows that come from elsewhere before they are filled stay as they came") {
        const PositionRange half{0, ~uint64_t{0} / 2};
        TableSchema schema = random_schema(Layout::kDense);
        schema.rule = "add";
        schema.parameters = {};
        schema.key_count = 40'000;
        HeapMemory memory;
        const Made table = made(schema, memory, PositionSet{std::span(&half, 1)});
        while (table->fill_some()) {
        }
        REQUIRE(table->hold(PositionSet::whole_ring()));
        CHECK(table->unfilled_rows() == 20'000);
        const std::vector<float> came(1000 * kWidth, 5);
        const std::span bytes = std::as_bytes(std::span(came));
        REQUIRE(table->take(KeyRange{25'000, 26'000}, bytes, {}));
        const std::vector<uint64_t> some = {20'000, 25'500, 30'000, 39'999};
        REQUIRE(table->take(some, bytes.first(some.size() * kWidth * sizeof(float)), {}));
        const RowList more = *table->rows_to_take(std::vector<uint64_t>{30'001, 30'003});
        REQUIRE(table->take(more, bytes.first(2 * kWidth * sizeof(float)), {}));
        CHECK(table->unfilled_rows() == 20'000 - 1000 - 3 - 2);
        const PositionMap map = PositionMap::dense(schema.key_count);
        const PositionRange part{map.position(20'000), map.position(24'999)};
        while (table->fill_some(PositionSet{std::span(&part, 1)})) {
        }
        CHECK(table->unfilled_rows() == 15'000 - 1000 - 2 - 2);
        while (table->fill_some()) {
        }
        table->serve(PositionSet::whole_ring());
        for (uint64_t key = 0; key < schema.key_count; ++key) {
            std::vector<float> out(kWidth);
            REQUIRE(table->pull(KeyRange{key, key + 1}, std::as_writable_bytes(std::span(out))));
            const bool has_come = (key >= 25'000 && key < 26'000) || key == 30'001 ||
                                  key == 30'003 || std::ranges::count(some, key) > 0;
            const std::vector<float> wanted =
                has_come ? std::vector<float>(kWidth, 5) : expected({key});
            REQUIRE(out == wanted);
        }
        table->give_up(PositionSet::whole_ring());
        CHECK(table->unfilled_rows() == 0);
    }

    TEST_CASE("rows that are dropped before they are filled are none any more") {
        TableSchema schema = random_schema(Layout::kDense);
        schema.key_count = 10'000;
        HeapMemory memory;
        const Made table = made(schema, memory);
        const PositionRange half{0, ~uint64_t{0} / 2};
        table->give_up(PositionSet{std::span(&half, 1)});
        CHECK(table->unfilled_rows() == 5000);
    }

    TEST_CASE("rows that a push has made in the room of dropped ones are known") {
        Rows rows(random_schema(Layout::kSparse));
        std::vector<uint64_t> keys(60'000);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = 3 * i;
        rows.push(keys, 1);
        const PositionRange half{0, ~uint64_t{0} / 2};
        rows.table->give_up(PositionSet{std::span(&half, 1)});
        while (rows.table->drop_some()) {
        }
        REQUIRE(rows.table->hold(PositionSet::whole_ring()));
        rows.table->serve(PositionSet::whole_ring());
        std::vector<uint64_t> mixed(50'000);
        for (size_t i = 0; i < mixed.size(); ++i)
            mixed[i] = 2 * i;
        const RowList list = *rows.table->rows_for_push(mixed);
        for (size_t i = 0; i < mixed.size(); ++i) {
            const uint64_t position = PositionMap::sparse().position(mixed[i]);
            const bool was_there = mixed[i] % 3 == 0 && !half.contains(position);
            REQUIRE(rows.table->was_made(list.rows[i]) == !was_there);
        }
        const RowList again = *rows.table->rows_for_push(mixed);
        for (const uint32_t row : again.rows)
            REQUIRE_FALSE(rows.table->was_made(row));
        CHECK(rows.pull({2, 4, 8}) == expected({2, 4, 8}));
    }

    TEST_CASE("rows that a push has made are known, whatever their values") {
        Rows rows(random_schema(Layout::kSparse));
        rows.push({1, 5, 9}, 1);
        const std::vector<uint64_t> keys = {1, 2, 5, 7};
        const RowList list = *rows.table->rows_for_push(keys);
        std::vector<bool> made;
        for (const uint32_t row : list.rows)
            made.push_back(rows.table->was_made(row));
        CHECK(made == std::vector<bool>{false, true, false, true});
    }

    TEST_CASE("what cannot be an initial value is named") {
        const auto why = [](const InitialValue& initial, ValueType type) {
            const Status status = check_initial(initial, type);
            return status ? std::string() : status.error().text();
        };
        constexpr auto kFloat = ValueType::kFloat32;
        constexpr auto kDouble = ValueType::kFloat64;
        CHECK(why(uniform(-1, 1, 0), kFloat).empty());
        CHECK(why(normal(0, 1e-20, 0), kFloat).empty());
        CHECK(why(normal(0, 1e-200, 0), kDouble).empty());
        CHECK(why(uniform(-3e38, 3e38, 0), kFloat).empty());
        CHECK(why(uniform(1, 1, 0), kFloat) ==
              "the initial value uniform(1, 1, seed 0) must begin with the least value, then a "
              "greater one");
        CHECK(
            why(uniform(-1, 1, 5), ValueType::kInt32) ==
            "the initial value uniform(-1, 1, seed 5) is random, and not for int32; use a floating "
            "type or a constant");
        CHECK(why(normal(0, 0, 0), kFloat).find("above 0") != std::string::npos);
        CHECK(why(normal(0, std::nan(""), 0), kFloat).find("finite") != std::string::npos);
        CHECK(why(uniform(-1e39, 1, 0), kFloat).find("too far") != std::string::npos);
        CHECK(why(normal(0, 1e-38, 0), kFloat).find("too close to 0") != std::string::npos);
        InitialValue later = normal(0, 1, 0);
        later.generator = 2;
        CHECK(why(later, kFloat).find("version 2 of its generator") != std::string::npos);
    }

    TEST_CASE("a schema keeps it, and one of the form before has a constant") {
        TableSchema schema = random_schema(Layout::kDense);
        schema.initial_value = normal(0.25, 2, 11);
        schema.parameters.value[7] = 3;
        CHECK(*decode_schema(encode_schema(schema)) == schema);
        CHECK_FALSE(decode_schema(encode_schema(schema), 1));
        // Form 1: name, layout, type, width, key count, rule, initial value, 4 parameters, flags, delay.
        schema.initial_value = 0.75;
        schema.parameters.value[7] = 0;
        const std::string now = encode_schema(schema);
        const size_t initial = now.size() - (1 + 4) - 8 * 8 - (1 + 3 * 8 + 4);
        const std::string before = now.substr(0, initial) + now.substr(initial + 1, 8) +
                                   now.substr(initial + 29, 4 * 8) + now.substr(now.size() - 5);
        CHECK(*decode_schema(before, 1) == schema);
        CHECK_FALSE(decode_schema(before));
    }

    TEST_CASE("a schema keeps how parts of an iteration are combined, and knows no other ways") {
        TableSchema schema = random_schema(Layout::kDense);
        schema.combine = Combine::kMean;
        const std::string bytes = encode_schema(schema);
        CHECK(*decode_schema(bytes) == schema);
        std::string unknown = bytes;
        unknown.back() = 5;
        CHECK_FALSE(decode_schema(unknown));
        schema.combine.reset();
        CHECK(encode_schema(schema).size() + 1 == bytes.size());
    }
}

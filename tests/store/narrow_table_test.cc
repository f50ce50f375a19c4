// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables that keep bfloat16 or float16: every rule on them gives what it gives on floats, rounded.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/key/narrow_values.h"
#include "lib/store/rules/row_rules.h"
#include "lib/store/schema_codec.h"
#include "lib/store/table.h"
#include "tests/seed.h"
#include "tests/store/made_table.h"

TEST_SUITE("narrow_table") {
    using namespace weir;

    namespace {

    constexpr Layout kLayouts[] = {Layout::kDense, Layout::kSparse};
    constexpr ValueType kNarrowTypes[] = {ValueType::kBFloat16, ValueType::kFloat16};

    const std::map<std::string, RuleParameters>& rules_with_parameters() {
        static const std::map<std::string, RuleParameters> rules = {
            {"assign", {}},
            {"sum", {}},
            {"mean", {}},
            {"add", {}},
            {"max", {}},
            {"min", {}},
            {"count_min", {{1}}},
            {"sgd", {{0.01, 0.1}}},
            {"momentum", {{0.01, 0.9, 0.1}}},
            {"nesterov", {{0.01, 0.9, 0.1}}},
            {"adagrad", {{0.01, 0.01}}},
            {"row_adagrad", {{0.01, 0.01}}},
            {"rmsprop", {{0.01, 0.9, 0.01}}},
            {"adam", {{0.01, 0.9, 0.99, 0.01, 0.1}}},
            {"adamw", {{0.01, 0.9, 0.99, 0.01, 0.1}}},
            {"lion", {{0.01, 0.9, 0.99, 0.1}}},
            {"ftrl", {{0.1, 1, 0.01, 0.1}}},
            {"prox_l1", {{0.1, 1}}}};
        return rules;
    }

    float widened(ValueType type, uint16_t bits) {
        float value = 0;
        widen(type, std::as_bytes(std::span(&bits, 1)), &value);
        return value;
    }

    uint16_t nearest(ValueType type, float value) {
        return type == ValueType::kBFloat16 ? BFloat16(value).bits : Float16(value).bits;
    }

    /// Whether it is one of the two narrow values around `value`.
    bool is_close(ValueType type, uint16_t bits, float value) {
        const float is = widened(type, bits);
        if (is == value) return true;
        const uint16_t other = nearest(type, value);
        if (widened(type, other) == value) return false;  // it needed no rounding
        const auto ordered = [](uint16_t narrow) {
            return narrow >> 15 != 0 ? -(narrow & 0x7fff) : +narrow;
        };
        const float towards = widened(type, other) < value
                                  ? std::numeric_limits<float>::infinity()
                                  : -std::numeric_limits<float>::infinity();
        return bits == other ||
               (std::abs(ordered(bits) - ordered(other)) == 1 && (is > value) == (towards > 0));
    }

    struct Bytes {
        std::vector<std::byte> values;
        std::vector<std::byte> state;
    };

    Bytes bytes_of(TableShard& table, const std::vector<uint64_t>& keys) {
        const RowList list = *table.rows_for_pull(keys);
        Bytes bytes{std::vector<std::byte>(keys.size() * table.row_layout().value_bytes()),
                    std::vector<std::byte>(keys.size() * table.row_layout().state_bytes)};
        table.copy_values(list.rows, bytes.values);
        table.copy_state(list.rows, bytes.state);
        return bytes;
    }

    /// A narrow table, and one of floats to which the same is pushed. After each push the floats are what
    /// the narrow values must be but for the rounding; then they become these.
    class Pair {
    public:
        Pair(const TableSchema& narrow, uint64_t seed) : random_(seed), schema_(narrow) {
            TableSchema floats = narrow;
            floats.value_type = ValueType::kFloat32;
            floats.rounding = Rounding::kNearest;
            floats.initial_value = static_cast<double>(widened(
                narrow.value_type,
                nearest(narrow.value_type, static_cast<float>(narrow.initial_value.first))));
            narrow_ = made(narrow, memory_);
            floats_ = made(floats, memory_);
        }

        void run(int steps) {
            for (int step = 0; step < steps; ++step) {
                const std::vector<uint64_t> keys = some_keys();
                push(keys, step);
                compare(keys);
            }
        }

    private:
        static constexpr uint64_t kKeys = 300;

        std::vector<uint64_t> some_keys() {
            std::vector<uint64_t> keys;
            is_range_ = schema_.layout == Layout::kDense && random_.below(3) == 0;
            const uint64_t first = random_.below(kKeys);
            const uint64_t end = first + 1 + random_.below(kKeys - first);
            for (uint64_t key = first; key < end; ++key) {
                if (is_range_ || random_.below(3) != 0) keys.push_back(key);
            }
            if (keys.empty()) keys.push_back(first);
            return keys;
        }

        void push(const std::vector<uint64_t>& keys, int step) {
            const bool is_part = random_.below(3) == 0;
            for (int part = 0; part < (is_part ? 2 : 1); ++part) {
                std::vector<float> pushed(keys.size() * narrow_->row_layout().pushed_values);
                for (float& value : pushed)
                    value = static_cast<float>(random_.uniform() * 4 - 2);
                const auto bytes = std::as_bytes(std::span(pushed));
                for (TableShard* const table : {narrow_.table.get(), floats_.table.get()}) {
                    Entries entries;
                    entries.is_range = is_range_;
                    entries.range = {keys.front(), keys.back() + 1};
                    if (!is_range_) entries.list = *table->rows_for_push(keys);
                    REQUIRE((
                        is_part ? table->push_aggregate(static_cast<uint64_t>(step), entries, bytes)
                                : table->push(entries, bytes)));
                }
            }
            if (!is_part) return;
            narrow_->apply_aggregate(static_cast<uint64_t>(step));
            floats_->apply_aggregate(static_cast<uint64_t>(step));
        }

        void compare(const std::vector<uint64_t>& keys) {
            const ValueType type = schema_.value_type;
            const Bytes is = bytes_of(*narrow_.table, keys);
            const Bytes wanted = bytes_of(*floats_.table, keys);
            const auto* const bits = reinterpret_cast<const uint16_t*>(is.values.data());
            const auto* const values = reinterpret_cast<const float*>(wanted.values.data());
            size_t wrong = 0;
            for (size_t i = 0; i < keys.size() * schema_.width; ++i) {
                const bool right = schema_.rounding == Rounding::kNearest
                                       ? bits[i] == nearest(type, values[i])
                                       : is_close(type, bits[i], values[i]);
                wrong += static_cast<size_t>(!right);
            }
            REQUIRE(wrong == 0);
            REQUIRE(is.state == wanted.state);
            std::vector<float> rounded(keys.size() * schema_.width);
            widen(type, is.values, rounded.data());
            REQUIRE(floats_->take(keys, std::as_bytes(std::span(rounded)), wanted.state));
        }

        Random random_;
        TableSchema schema_;
        bool is_range_ = false;
        HeapMemory memory_;
        Made narrow_;
        Made floats_;
    };

    TableSchema narrow_schema(Layout layout, ValueType type, uint32_t width, const char* rule) {
        return {.id = 1,
                .name = "t",
                .layout = layout,
                .value_type = type,
                .width = width,
                .key_count = layout == Layout::kDense ? 300U : 0U,
                .rule = rule,
                .parameters = rules_with_parameters().at(rule)};
    }

    /// Adds the key to each value.
    struct AddsItsKey : rules::RowDescent {
        static constexpr bool kWantsKeys = true;
        static constexpr std::array<RuleArgument, 0> kArguments = {};

        template <class T>
        static constexpr size_t state_bytes(size_t) {
            return 5;
        }

        template <class T>
        static void update_row(const RuleRow<T>& row, const RuleContext&) {
            for (size_t i = 0; i < row.width; ++i)
                row.values[i] += static_cast<T>(row.key);
            row.state[4] = static_cast<std::byte>(row.key);
        }
    };

    /// What is left of the loss of `rule` on weights of that type: the mean of (w - w*)^2.
    double loss_of(ValueType type, Rounding rounding, const char* rule,
                   const RuleParameters& parameters, int steps) {
        constexpr uint32_t kWeights = 256;
        HeapMemory memory;
        TableSchema schema = narrow_schema(Layout::kSparse, type, kWeights, rule);
        schema.parameters = parameters;
        schema.rounding = rounding;
        const Made table = made(schema, memory);
        Random random(9);
        std::vector<float> wanted(kWeights);
        for (float& weight : wanted)
            weight = static_cast<float>(random.uniform() + 0.5) * (random.below(2) == 0 ? 1 : -1);
        std::vector<float> weights(kWeights);
        std::vector<float> gradient(kWeights);
        const std::vector<uint64_t> key = {3};
        for (int step = 0; step < steps; ++step) {
            for (uint32_t i = 0; i < kWeights; ++i)
                gradient[i] = weights[i] - wanted[i];
            REQUIRE(table->push(*table->rows_for_push(key), std::as_bytes(std::span(gradient))));
            const Bytes bytes = bytes_of(*table.table, key);
            if (is_narrow(type)) {
                widen(type, bytes.values, weights.data());
            } else {
                std::memcpy(weights.data(), bytes.values.data(), bytes.values.size());
            }
        }
        double loss = 0;
        for (uint32_t i = 0; i < kWeights; ++i)
            loss += std::pow(static_cast<double>(weights[i] - wanted[i]), 2) / kWeights;
        return loss;
    }

    }  // namespace

    TEST_CASE("each rule gives on narrow values what it gives on floats, rounded") {
        WEIR_TEST_SEED(first_seed, 33);
        uint64_t seed = first_seed;
        for (const auto& one : rules_with_parameters()) {
            const auto& rule = one.first;
            for (const Layout layout : kLayouts) {
                for (const ValueType type : kNarrowTypes) {
                    for (const uint32_t width : {1U, 2U, 3U, 16U, 75U}) {
                        for (const Rounding rounding :
                             {Rounding::kNearest, Rounding::kStochastic}) {
                            INFO(rule << ", width " << width << ", " << to_string(type)
                                      << ", dense " << (layout == Layout::kDense));
                            TableSchema schema = narrow_schema(layout, type, width, rule.c_str());
                            schema.rounding = rounding;
                            if (rule != "ftrl") schema.initial_value = 0.3;
                            Pair(schema, seed++).run(8);
                        }
                    }
                }
            }
        }
    }

    TEST_CASE("every rule is in the test before") {
        const std::string known =
            RuleRegistry::with_builtin_rules().find("none").error().text() + ",";
        const std::string names = known.substr(known.rfind(':'));
        CHECK(std::ranges::count(names, ',') == std::ranges::ssize(rules_with_parameters()));
    }

    TEST_CASE("a row of more values than are computed at a time") {
        TableSchema schema = narrow_schema(Layout::kSparse, ValueType::kBFloat16, 5001, "adam");
        Pair(schema, 5).run(5);
    }

    TEST_CASE("a rule that wants keys gets those of its rows, however many are pushed to") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        REQUIRE(rules.register_rule<AddsItsKey>("adds_key"));
        for (const Layout layout : kLayouts) {
            HeapMemory memory;
            KnownLists lists(memory, 1 << 20);
            TableSchema schema = narrow_schema(layout, ValueType::kFloat16, 15, "add");
            schema.rule = "adds_key";
            schema.key_count = 1000;
            const auto table =
                *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
            CHECK(table->row_layout().state_bytes == 8);
            const std::vector<uint64_t> keys = numbers(500, 2);
            const std::vector<float> pushed(keys.size() * 15);
            REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
            const Bytes is = bytes_of(*table, keys);
            const auto* const bits = reinterpret_cast<const uint16_t*>(is.values.data());
            size_t wrong = 0;
            for (size_t i = 0; i < keys.size(); ++i) {
                for (size_t column = 0; column < 15; ++column)
                    wrong +=
                        static_cast<size_t>(widened(schema.value_type, bits[i * 15 + column]) !=
                                            static_cast<float>(keys[i]));
                wrong +=
                    static_cast<size_t>(is.state[i * 8 + 4] != static_cast<std::byte>(keys[i]));
            }
            CHECK(wrong == 0);
        }
    }

    TEST_CASE("rows take half of the memory of floats, and their state what it takes there") {
        for (const Layout layout : kLayouts) {
            HeapMemory memory;
            TableSchema schema = narrow_schema(layout, ValueType::kBFloat16, 64, "add");
            schema.key_count = 100'000;
            const size_t narrow = made(schema, memory)->bytes();
            schema.value_type = ValueType::kFloat32;
            const size_t floats = made(schema, memory)->bytes();
            if (layout == Layout::kDense) CHECK(2 * narrow == floats);
            schema.value_type = ValueType::kFloat16;
            schema.rule = "adagrad";
            schema.parameters = rules_with_parameters().at("adagrad");
            const RowLayout rows = made(schema, memory)->row_layout();
            CHECK(rows.row_bytes() == 64 * (2 + 4));
            CHECK(rows.pushed_bytes() == 64 * 4);
        }
    }

    TEST_CASE("a snapshot shows rows as they were, also of an odd number of values with state") {
        for (const Layout layout : kLayouts) {
            HeapMemory memory;
            const Made table =
                made(narrow_schema(layout, ValueType::kBFloat16, 3, "momentum"), memory);
            const std::vector<uint64_t> keys = numbers(300);
            const std::vector<float> pushed(keys.size() * 3, 1.5F);
            const auto push = [&] {
                REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
            };
            push();
            const Bytes before = bytes_of(*table.table, keys);
            REQUIRE(table->keep_snapshot());
            push();
            size_t seen = 0;
            ListedRows listed;
            for (KeyCursor cursor; !cursor.at_end;) {
                table->list_snapshot(cursor, PositionSet::whole_ring(), 40, listed);
                Bytes rows{std::vector<std::byte>(listed.row_count() * 6),
                           std::vector<std::byte>(listed.row_count() * 12)};
                table->read_snapshot(listed, rows.values, rows.state);
                for (size_t i = 0; i < listed.row_count(); ++i, ++seen) {
                    const uint64_t key =
                        listed.keys.empty() ? listed.range.begin + i : listed.keys[i];
                    CHECK(std::equal(rows.values.begin() + static_cast<ptrdiff_t>(i * 6),
                                     rows.values.begin() + static_cast<ptrdiff_t>(i * 6 + 6),
                                     before.values.begin() + static_cast<ptrdiff_t>(key * 6)));
                    CHECK(std::equal(rows.state.begin() + static_cast<ptrdiff_t>(i * 12),
                                     rows.state.begin() + static_cast<ptrdiff_t>(i * 12 + 12),
                                     before.state.begin() + static_cast<ptrdiff_t>(key * 12)));
                }
            }
            CHECK(seen == keys.size());
            CHECK(bytes_of(*table.table, keys).values != before.values);
        }
    }

    TEST_CASE("random initial values are those of floats, rounded to the nearest") {
        for (const ValueType type : kNarrowTypes) {
            constexpr uint32_t kWidth = 150;
            const InitialValue initial = normal(0.5, 0.25, 7);
            REQUIRE(check_initial(initial, type));
            std::vector<float> floats(kWidth);
            InitialRows(initial, ValueType::kFloat32, kWidth)
                .fill(12, std::as_writable_bytes(std::span(floats)).data());
            std::vector<uint16_t> narrow(kWidth);
            InitialRows(initial, type, kWidth)
                .fill(12, std::as_writable_bytes(std::span(narrow)).data());
            for (uint32_t i = 0; i < kWidth; ++i)
                CHECK(narrow[i] == nearest(type, floats[i]));
            HeapMemory memory;
            for (const Layout layout : kLayouts) {
                TableSchema schema = narrow_schema(layout, type, kWidth, "add");
                schema.initial_value = initial;
                const Made table = made(schema, memory);
                while (table->fill_some()) {
                }
                std::vector<uint16_t> pulled(2 * kWidth);
                const std::vector<uint64_t> keys = {7, 12};
                REQUIRE(table->pull(*table->rows_for_pull(keys),
                                    std::as_writable_bytes(std::span(pulled))));
                CHECK(std::ranges::equal(std::span(pulled).subspan(kWidth), narrow));
            }
        }
    }

    TEST_CASE("values that a narrow type cannot have begin no table") {
        CHECK(check_initial(65504, ValueType::kFloat16));
        CHECK(check_initial(65520, ValueType::kFloat16).error().text() ==
              "the initial value 65520 is not a value of type float16");
        CHECK(check_initial(65520, ValueType::kBFloat16));
        CHECK_FALSE(check_initial(3.4e38, ValueType::kBFloat16));
        CHECK(check_initial(3.4e38, ValueType::kFloat32));
        CHECK_FALSE(check_initial(uniform(0, 70'000, 1), ValueType::kFloat16));
        CHECK(check_initial(uniform(0, 70'000, 1), ValueType::kBFloat16));
        CHECK_FALSE(check_initial(normal(0, 1e-6, 1), ValueType::kFloat16));
        CHECK(check_initial(normal(0, 1e-6, 1), ValueType::kBFloat16));
    }

    TEST_CASE("what is too great for a value becomes infinite, and NaN stays") {
        HeapMemory memory;
        const Made table =
            made(narrow_schema(Layout::kSparse, ValueType::kFloat16, 3, "add"), memory);
        const std::vector<uint64_t> key = {1};
        const std::vector<float> pushed = {70'000, -1e30F, std::nanf("")};
        REQUIRE(table->push(*table->rows_for_push(key), std::as_bytes(std::span(pushed))));
        const Bytes is = bytes_of(*table.table, key);
        const auto* const bits = reinterpret_cast<const uint16_t*>(is.values.data());
        CHECK(widened(ValueType::kFloat16, bits[0]) == std::numeric_limits<float>::infinity());
        CHECK(widened(ValueType::kFloat16, bits[1]) == -std::numeric_limits<float>::infinity());
        CHECK(std::isnan(widened(ValueType::kFloat16, bits[2])));
    }

    TEST_CASE("a schema keeps type and rounding, and rounding is for narrow values") {
        TableSchema schema = narrow_schema(Layout::kSparse, ValueType::kBFloat16, 3, "add");
        schema.id = 0;
        schema.rounding = Rounding::kStochastic;
        CHECK(decode_schema(encode_schema(schema)) == schema);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        CHECK(check_schema(schema, rules));
        TableSchema other = schema;
        other.rounding = Rounding::kNearest;
        CHECK(
            check_same(schema, other, rules).error().text() ==
            "table 't' exists with rounding stochastic; to the nearest was asked for; ask for the "
            "same, or choose another name");
        schema.value_type = ValueType::kFloat32;
        CHECK(check_schema(schema, rules).error().text() ==
              "table 't': values of type float32 are not rounded; leave rounding out");
    }

    TEST_CASE("small steps reach the loss of floats where they are rounded stochastically") {
        const std::pair<const char*, RuleParameters> rules[] = {
            {"sgd", {{0.002}}},
            {"momentum", {{0.0002, 0.9}}},
            {"adam", {{0.0008, 0.9, 0.999, 1e-8}}}};
        for (const auto& [rule, parameters] : rules) {
            const auto loss = [&, rule = rule, &given = parameters](ValueType type,
                                                                    Rounding rounding) {
                return loss_of(type, rounding, rule, given, 5000);
            };
            const double floats = loss(ValueType::kFloat32, Rounding::kNearest);
            const double at_random = loss(ValueType::kBFloat16, Rounding::kStochastic);
            const double to_nearest = loss(ValueType::kBFloat16, Rounding::kNearest);
            MESSAGE(rule << ": " << floats << " as float, " << at_random << " at random, "
                         << to_nearest << " to the nearest");
            CHECK(at_random < floats + 1e-4);
            CHECK(to_nearest > 100 * at_random);
        }
    }
}

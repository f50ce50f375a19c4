// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rules of one's own that see whole rows, keys, arguments and random numbers; and count_min.
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/collective.h"
#include "lib/store/rules/row_rules.h"
#include "lib/store/table.h"
#include "tests/seed.h"

namespace {

using namespace weir;

/// Gradient descent for a loss with the penalty lambda |row|: rows of useless groups become zeros.
struct GroupLasso : rules::RowDescent {
    static constexpr std::array kParameters = {RuleParameter{.name = "rate"},
                                               RuleParameter{.name = "lambda"}};

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return 0;
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        const T rate = static_cast<T>(c.arguments.value[0]);
        T squares = 0;
        for (size_t i = 0; i < row.width; ++i) {
            row.values[i] -= rate * row.pushed[i];
            squares += row.values[i] * row.values[i];
        }
        const T shrunk = 1 - rate * static_cast<T>(c.parameters.value[1]) / std::sqrt(squares);
        for (size_t i = 0; i < row.width; ++i)
            row.values[i] *= shrunk > 0 ? shrunk : 0;
    }
};

/// Adds the key to each value, and remembers it in 3 bytes of state.
struct AddsKey : rules::RowDescent {
    static constexpr bool kWantsKeys = true;
    static constexpr std::array<RuleArgument, 1> kArguments = {
        {{.name = "shift", .otherwise = 0.5, .may_be_negative = true}}};

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return 3;
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        for (size_t i = 0; i < row.width; ++i)
            row.values[i] += static_cast<T>(row.key) + static_cast<T>(c.arguments.value[0]);
        row.state[0] = static_cast<std::byte>(row.key);
        row.state[2] = std::byte{1};
    }
};

/// Draws each value.
struct Draws : rules::Plain {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static void update(T& value, T*, const T*, const RuleContext& c) {
        value = (*c.random)();
    }
};

static_assert(RowRule<GroupLasso> && RowRule<AddsKey> && !ElementwiseRule<GroupLasso>);
static_assert(ElementwiseRule<Draws> && !RowRule<Draws>);

template <class T>
struct RuleTable {
    RuleTable(const char* rule, Layout layout, uint32_t row_width, RuleParameters parameters = {},
              Memory* from = nullptr)
        : width(row_width) {
        REQUIRE(rules.register_rule<GroupLasso>("group_lasso"));
        REQUIRE(rules.register_rule<AddsKey>("adds_key"));
        REQUIRE(rules.register_rule<Draws>("draws"));
        table = *TableShard::make({.name = "t",
                                   .layout = layout,
                                   .value_type = value_type_of<T>(),
                                   .width = width,
                                   .key_count = layout == Layout::kDense ? 1000U : 0U,
                                   .rule = rule,
                                   .parameters = parameters},
                                  PositionSet::whole_ring(), rules,
                                  from == nullptr ? memory : *from, lists);
    }

    Status push(const std::vector<uint64_t>& keys, const std::vector<T>& pushed,
                const RuleArguments* arguments = nullptr) {
        WEIR_ASSIGN(const RowList list, table->rows_for_push(keys));
        return table->push(list, std::as_bytes(std::span(pushed)), arguments);
    }

    std::vector<T> pull(const std::vector<uint64_t>& keys) {
        std::vector<T> out(keys.size() * width);
        REQUIRE(table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
        return out;
    }

    uint32_t width;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    HeapMemory memory;
    KnownLists lists{memory, 1 << 20};
    std::unique_ptr<TableShard> table;
};

constexpr Layout kLayouts[] = {Layout::kDense, Layout::kSparse};

}  // namespace

TEST_SUITE("row rule") {
    TEST_CASE("group lasso shrinks rows by their norm") {
        for (const Layout layout : kLayouts) {
            RuleTable<double> lasso("group_lasso", layout, 2, {{0.5, 2}});
            REQUIRE(lasso.push({3, 4}, {-6, -8, -0.6, -0.8}));  // w = (3, 4) and (0.3, 0.4)
            const std::vector<double> out = lasso.pull({3, 4});
            CHECK(out[0] == doctest::Approx(3 * 0.8));
            CHECK(out[1] == doctest::Approx(4 * 0.8));
            CHECK(out[2] == 0);
            CHECK(out[3] == 0);
        }
    }

    TEST_CASE("a rule that wants keys sees those of lists, known lists, ranges and iterations") {
        WEIR_TEST_SEED(seed, 81);
        Random random(seed);
        for (const Layout layout : kLayouts) {
            RuleTable<double> keyed("adds_key", layout, 3);
            CHECK(keyed.table->row_layout().state_bytes == 8);
            std::map<uint64_t, double> model;
            uint64_t iteration = 0;
            const auto check = [&](const std::vector<uint64_t>& keys) {
                const auto out = keyed.pull(keys);
                for (size_t i = 0; i < out.size(); ++i)
                    REQUIRE(out[i] == model[keys[i / 3]]);
            };
            for (int step = 0; step < 60; ++step) {
                std::set<uint64_t> chosen;
                const size_t count = 1 + random.below(step % 5 == 0 ? 700 : 20);
                while (chosen.size() < count)
                    chosen.insert(random.below(1000));
                const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
                const std::vector<double> pushed(keys.size() * 3);
                const NamedNumber given{"shift", -0.25};
                const RuleArguments shift = *keyed.table->arguments(std::span(&given, 1));
                const bool is_shifted = random.below(2) == 0;
                const RuleArguments* const arguments = is_shifted ? &shift : nullptr;
                if (random.below(2) == 0) {
                    REQUIRE(keyed.push(keys, pushed, arguments));
                    if (const auto known = keyed.table->known_rows(list_id(keys))) {
                        REQUIRE(
                            keyed.table->push(*known, std::as_bytes(std::span(pushed)), arguments));
                        for (const uint64_t key : keys)
                            model[key] += static_cast<double>(key) + (is_shifted ? -0.25 : 0.5);
                    }
                } else {
                    ++iteration;
                    for (int worker = 0; worker < 2; ++worker) {
                        REQUIRE(keyed.table->push_aggregate(iteration,
                                                            *keyed.table->rows_for_push(keys),
                                                            std::as_bytes(std::span(pushed))));
                    }
                    keyed.table->apply_aggregate(iteration, arguments);
                }
                for (const uint64_t key : keys)
                    model[key] += static_cast<double>(key) + (is_shifted ? -0.25 : 0.5);
                check(keys);
                if (layout != Layout::kDense) continue;
                const KeyRange range{random.below(500), 501 + random.below(500)};
                const std::vector<double> ranged(range.key_count() * 3);
                REQUIRE(keyed.table->push(range, std::as_bytes(std::span(ranged))));
                for (uint64_t key = range.begin; key < range.end; ++key)
                    model[key] += static_cast<double>(key) + 0.5;
            }
        }
    }

    TEST_CASE("random numbers do not come again, in a table or in a second one like it") {
        std::set<uint64_t> drawn;
        std::vector<uint64_t> keys(500);
        for (uint64_t key = 0; key < keys.size(); ++key)
            keys[key] = key;
        for (int tables = 0; tables < 2; ++tables) {
            RuleTable<uint64_t> draws("draws", Layout::kSparse, 2);
            for (int push = 0; push < 2; ++push) {
                REQUIRE(draws.push(keys, std::vector<uint64_t>(1000)));
                const auto out = draws.pull(keys);
                drawn.insert(out.begin(), out.end());
            }
        }
        CHECK(drawn.size() == 4000);
    }

    TEST_CASE("arguments that a rule does not have, or cannot be, are named") {
        RuleTable<float> sgd("sgd", Layout::kDense, 1, {{0.5, 0.25}});
        const auto why = [&](std::vector<NamedNumber> given) {
            const auto all = sgd.table->arguments(given);
            return all ? std::string() : all.error().text();
        };
        CHECK(sgd.table->arguments(std::span<const double>())->value[0] == 0.5);
        CHECK(sgd.table->arguments(std::span<const double>())->value[1] == 0.25);
        CHECK(why({{"rate", 0}}).empty());  // a rate may fall to nothing
        CHECK(why({{"rat", 1}}) ==
              "table 't': rule 'sgd' has no argument 'rat'; choose one of: rate, weight_decay");
        CHECK(why({{"rate", std::nan("")}}) ==
              "table 't': rule 'sgd': the argument rate must be finite as float32, is nan");
        CHECK(why({{"weight_decay", -1}}) ==
              "table 't': rule 'sgd': the argument weight_decay must be 0 or greater, is -1");
        const double three[] = {1, 2, 3};
        CHECK(sgd.table->arguments(three).error().text() ==
              "table 't': rule 'sgd' takes 2 arguments, and 3 were given");
        RuleTable<float> add("add", Layout::kDense, 1);
        const NamedNumber rate{"rate", 1};
        CHECK(add.table->arguments(std::span(&rate, 1)).error().text() ==
              "table 't': rule 'add' has no argument 'rate'; it has none");
    }

    TEST_CASE("a step beyond the greatest value makes no NaN of a gradient of 0") {
        RuleTable<float> table("row_adagrad", Layout::kSparse, 2, {{0.1, 1e-40}});
        REQUIRE(table.push({7}, {0, 0}));
        CHECK(table.pull({7}) == std::vector<float>{0, 0});
    }

    TEST_CASE("what a rule cannot do with a schema is named") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto why = [&](const char* rule, ValueType type, RuleParameters parameters,
                             uint32_t width = 1) {
            const auto checked = check_schema({.name = "t",
                                               .layout = Layout::kSparse,
                                               .value_type = type,
                                               .width = width,
                                               .rule = rule,
                                               .parameters = parameters},
                                              rules);
            return checked ? std::string() : checked.error().text();
        };
        CHECK(why("adam", ValueType::kFloat32, {{1e-3, 0.9, 0.999, 1e-8}}).empty());
        CHECK(why("adam", ValueType::kInt32, {{1e-3, 0.9, 0.999, 1e-8}}) ==
              "table 't': rule adam does not work on int32; use a floating type");
        CHECK(why("mean", ValueType::kUInt64, {}).find("floating type") != std::string::npos);
        CHECK(why("adamw", ValueType::kFloat32, {{1e-3, 1, 0.999, 1e-8}}) ==
              "table 't': rule 'adamw': beta1 must be less than 1, is 1");
        CHECK(why("momentum", ValueType::kFloat32, {{0.1, std::nan("")}}) ==
              "table 't': rule 'momentum': momentum must be finite, is nan");
        CHECK(why("ftrl", ValueType::kFloat32, {{0.1, 1, -1}}) ==
              "table 't': rule 'ftrl': l1 must be 0 or greater, is -1");
        for (const InitialValue& initial : {InitialValue(0.5), uniform(-1, 1, 3)}) {
            TableSchema schema{.name = "t", .rule = "ftrl", .initial_value = initial};
            schema.key_count = 1;
            schema.parameters = {{0.1, 1}};
            CHECK(check_schema(schema, rules).error().text() ==
                  "table 't': rule 'ftrl' makes values of its state alone, so the first push would "
                  "lose the initial value " +
                      to_string(initial) + "; leave that at 0");
        }
        CHECK(why("count_min", ValueType::kUInt32, {{4}}, 12).empty());
        CHECK(why("count_min", ValueType::kUInt32, {{5}}, 12) ==
              "table 't': rule 'count_min': depth must be a whole number that divides the width");
        CHECK(why("count_min", ValueType::kUInt32, {{16}}, 12).find("divides") !=
              std::string::npos);
    }

    TEST_CASE("a mean divides by the pushes to each row") {
        for (const Layout layout : kLayouts) {
            RuleTable<double> means("mean", layout, 2);
            const auto add = [&](const std::vector<uint64_t>& keys, std::vector<double> pushed) {
                REQUIRE(means.table->push_aggregate(1, *means.table->rows_for_push(keys),
                                                    std::as_bytes(std::span(pushed))));
            };
            add({1, 2}, {1, 2, 3, 4});
            add({2, 3}, {5, 6, 7, 8});
            add({2}, {1, 5});
            means.table->apply_aggregate(1);
            CHECK(means.pull({1, 2, 3}) == std::vector<double>{1, 2, 3, 5, 7, 8});
            add({2}, {9, 9});  // counts begin anew
            means.table->apply_aggregate(1);
            CHECK(means.pull({2}) == std::vector<double>{9, 9});
        }
    }

    TEST_CASE("parts are combined as the arguments of their iteration say, and any are safe") {
        RuleTable<uint64_t> table("weir.collective", Layout::kDense, 2);
        const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
        using Operation = rules::Collective::Operation;
        using Bits = std::vector<uint64_t>;
        uint64_t iteration = 0;
        const auto combined = [&](double operation, double type, const Bits& one,
                                  const Bits& other) {
            const RuleArguments arguments{{operation, type, 2, 0}};
            ++iteration;
            for (const Bits* pushed : {&one, &other})
                REQUIRE(table.table->push_aggregate(iteration, KeyRange{1, 2},
                                                    std::as_bytes(std::span(*pushed)), &arguments));
            table.table->apply_aggregate(iteration, &arguments);
            return table.pull({1});
        };
        const double f64 = static_cast<double>(ValueType::kFloat64);
        const double i32 = static_cast<double>(ValueType::kInt32);
        const double u64 = static_cast<double>(ValueType::kUInt64);
        const Bits a = {bits(-1.5), bits(2)};
        const Bits b = {bits(-2.5), bits(3)};
        CHECK(combined(Operation::kSum, f64, a, b) == Bits{bits(-4), bits(5)});
        CHECK(combined(Operation::kMean, f64, a, b) == Bits{bits(-4), bits(5)});
        CHECK(combined(Operation::kMax, f64, a, b) == Bits{bits(-1.5), bits(3)});
        CHECK(combined(Operation::kMin, f64, a, b) == Bits{bits(-2.5), bits(2)});
        const Bits negative = {~uint64_t{0}, 7};
        CHECK(combined(Operation::kMax, i32, negative, {3, 8}) == Bits{3, 8});
        CHECK(combined(Operation::kMax, u64, negative, {3, 8}) == Bits{~uint64_t{0}, 8});
        CHECK(combined(Operation::kSum, i32, negative, {3, 8}) == Bits{2, 15});
        CHECK(combined(Operation::kBroadcast, f64, a, b) == b);
        CHECK(combined(99.5, -7, negative, {3, 8}) == Bits{2, 15});
    }

    TEST_CASE("a row that is seen rarely has the step count of its own updates") {
        RuleTable<double> adam("adam", Layout::kSparse, 1, {{0.1, 0.9, 0.999, 1e-12}});
        for (int i = 0; i < 100; ++i)
            REQUIRE(adam.push({1}, {1}));
        REQUIRE(adam.push({2}, {1}));
        // With the bias corrected, the first step is the whole rate; a count of 101 would make it 0.03.
        CHECK(adam.pull({2})[0] == doctest::Approx(-0.1));
        CHECK(adam.pull({1})[0] == doctest::Approx(-10));
    }

    TEST_CASE("count_min counts nothing too low, and one item a push as the conservative update") {
        WEIR_TEST_SEED(seed, 82);
        Random random(seed);
        constexpr uint32_t kDepth = 4;
        constexpr uint32_t kColumns = 16;
        constexpr uint64_t kItems = 300;
        const auto place = [](uint64_t item, uint32_t line) {
            return line * kColumns + mix64(item * kDepth + line + 1) % kColumns;
        };
        for (const uint64_t items_of_a_push : {1, 3}) {
            RuleTable<uint32_t> sketch("count_min", Layout::kSparse, kDepth * kColumns, {{kDepth}});
            std::vector<uint32_t> textbook(kDepth * kColumns);
            std::vector<uint32_t> plain(kDepth * kColumns);
            std::map<uint64_t, uint32_t> counts;
            for (int push = 0; push < 2000; ++push) {
                std::vector<uint32_t> pushed(kDepth * kColumns);
                for (uint64_t i = 0; i < items_of_a_push; ++i) {
                    const uint64_t item = random.below(random.below(kItems) + 1);
                    const auto count = static_cast<uint32_t>(1 + random.below(5));
                    counts[item] += count;
                    uint32_t least = ~uint32_t{0};
                    for (uint32_t line = 0; line < kDepth; ++line) {
                        pushed[place(item, line)] += count;
                        plain[place(item, line)] += count;
                        least = std::min(least, textbook[place(item, line)]);
                    }
                    for (uint32_t line = 0; line < kDepth; ++line) {
                        uint32_t& at = textbook[place(item, line)];
                        at = std::max(at, least + count);
                    }
                }
                REQUIRE(sketch.push({5}, pushed));
            }
            const std::vector<uint32_t> out = sketch.pull({5});
            if (items_of_a_push == 1) CHECK(out == textbook);
            for (const auto& [item, count] : counts) {
                uint32_t estimate = ~uint32_t{0};
                for (uint32_t line = 0; line < kDepth; ++line)
                    estimate = std::min(estimate, out[place(item, line)]);
                REQUIRE(estimate >= count);
            }
            for (size_t i = 0; i < out.size(); ++i)
                REQUIRE(out[i] <= plain[i]);
        }
    }
}

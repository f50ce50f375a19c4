// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rules that are C functions: beside the same rules in C++, and such as cannot be.
#include "lib/store/plugins/plugin_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/row_rules.h"
#include "lib/store/rules/rule_codec.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/store/table.h"
#include "tests/seed.h"

namespace {

using namespace weir;

/// Adds a share of what is pushed, and of the key, with a count and a sum as state.
struct CountsAndSums : rules::RowDescent {
    static constexpr bool kWantsKeys = true;
    static constexpr std::array kParameters = {RuleParameter{.name = "rate"}};
    static constexpr std::array<RuleArgument, 2> kArguments = {
        {{.name = "rate"}, {.name = "shift", .otherwise = -0.5, .may_be_negative = true}}};
    static constexpr uint32_t kVersion = 4;

    template <class T>
    static constexpr size_t state_bytes(size_t width) {
        return 4 + width * sizeof(T);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& c) {
        T* const sums = row.state_at(1);
        for (size_t i = 0; i < row.width; ++i) {
            sums[i] += row.pushed[i];
            row.values[i] += static_cast<T>(c.arguments.value[0]) * sums[i] +
                             static_cast<T>(c.arguments.value[1]) * static_cast<T>(row.key % 100);
        }
    }
};

int user_of_rule = 0;  // whose address the rule gets

template <class T>
int counts_and_sums(weir_rows* rows, void* user) {
    CHECK(user == &user_of_rule);
    CHECK(rows->size == sizeof(weir_rows));
    for (size_t r = 0; r < rows->row_count; ++r) {
        T* const values = static_cast<T*>(weir_values(rows, r));
        T* const sums = static_cast<T*>(weir_state(rows, r)) + 1;
        const T* const pushed = static_cast<const T*>(weir_pushed(rows, r));
        for (uint32_t i = 0; i < rows->width; ++i) {
            sums[i] += pushed[i];
            values[i] += static_cast<T>(rows->arguments[0]) * sums[i] +
                         static_cast<T>(rows->arguments[1]) * static_cast<T>(rows->keys[r] % 100);
        }
    }
    return 0;
}

const weir_parameter kRate[] = {{"rate", 0, 0}};
const weir_argument kRateAndShift[] = {{"rate", 0, 0, 0}, {"shift", -0.5, 1, 0}};

/// A sound one, for values of T.
template <class T>
weir_rule counts_rule() {
    weir_rule rule{};
    rule.size = sizeof rule;
    rule.name = "in_c";
    rule.version = 4;
    rule.types = WEIR_TYPE(static_cast<uint32_t>(value_type_of<T>()));
    rule.flags = WEIR_WANTS_KEYS;
    rule.parameters = kRate;
    rule.parameter_count = 1;
    rule.arguments = kRateAndShift;
    rule.argument_count = 2;
    rule.state_bytes = [](uint32_t, uint32_t width, void*) { return 4 + width * sizeof(T); };
    rule.update = &counts_and_sums<T>;
    rule.user = &user_of_rule;
    return rule;
}

/// Two tables that are to hold the same bits. `kept`: their values, which are pushed as T.
template <class T>
struct TwoTables {
    TwoTables(Layout layout, uint32_t row_width, ValueType kept) : width(row_width) {
        REQUIRE(rules.register_rule<CountsAndSums>("in_cpp"));
        const auto entry = make_plugin_rule(counts_rule<T>(), nullptr);
        REQUIRE(entry);
        REQUIRE(rules.add(*entry));
        for (const char* const rule : {"in_cpp", "in_c"}) {
            tables.push_back(*TableShard::make({.id = static_cast<uint32_t>(tables.size()),
                                                .name = "t",
                                                .layout = layout,
                                                .value_type = kept,
                                                .width = width,
                                                .key_count = layout == Layout::kDense ? 1000U : 0U,
                                                .rule = rule,
                                                .parameters = {{0.25}}},
                                               PositionSet::whole_ring(), rules, memory, lists));
        }
    }

    std::vector<std::byte> pull(TableShard& table, const std::vector<uint64_t>& keys) {
        Entries entries;
        entries.list = *table.rows_for_pull(keys);
        std::vector<std::byte> out(keys.size() * table.row_layout().row_bytes());
        REQUIRE(table.pull_rows(entries, out));
        return out;
    }

    uint32_t width;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    HeapMemory memory;
    KnownLists lists{memory, 1 << 20};
    std::vector<std::unique_ptr<TableShard>> tables;
};

template <class T>
void push_the_same(Random& random, Layout layout, uint32_t width,
                   ValueType kept = value_type_of<T>()) {
    TwoTables<T> two(layout, width, kept);
    CHECK(two.tables[0]->row_layout() == two.tables[1]->row_layout());
    uint64_t iteration = 0;
    for (int step = 0; step < 25; ++step) {
        std::set<uint64_t> chosen;
        const size_t count = 1 + random.below(step % 5 == 0 ? 700 : 40);
        const uint64_t first = random.below(900);
        while (chosen.size() < count)  // some side by side
            chosen.insert(random.below(3) == 0 ? first + chosen.size() % 100 : random.below(1000));
        const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
        std::vector<T> pushed(keys.size() * width);
        for (T& one : pushed)
            one = static_cast<T>(random.uniform() - 0.5);
        const NamedNumber given[] = {{"rate", random.uniform()}, {"shift", -random.uniform()}};
        const RuleArguments arguments = *two.tables[0]->arguments(given);
        const RuleArguments* const some = random.below(2) == 0 ? &arguments : nullptr;
        const bool in_iterations = random.below(3) == 0;
        if (in_iterations) ++iteration;
        for (const auto& table : two.tables) {
            const auto bytes = std::as_bytes(std::span(pushed));
            if (in_iterations) {
                REQUIRE(table->push_aggregate(iteration, *table->rows_for_push(keys), bytes));
                table->apply_aggregate(iteration, some);
            } else {
                REQUIRE(table->push(*table->rows_for_push(keys), bytes, some));
            }
            if (layout == Layout::kDense) {
                const KeyRange range{keys.front(), keys.front() + 1 + (keys.size() - 1) % 50};
                if (range.end <= 1000)
                    REQUIRE(table->push(range, bytes.first(range.key_count() * width * sizeof(T))));
            }
        }
        const auto in_cpp = two.pull(*two.tables[0], keys);
        const auto in_c = two.pull(*two.tables[1], keys);
        const auto differs = std::ranges::mismatch(in_cpp, in_c);
        INFO(to_string(kept) << ", width " << width << ", step " << step << ", byte "
                             << differs.in1 - in_cpp.begin());
        REQUIRE(in_cpp == in_c);
    }
}

/// What is wrong with a rule.
std::string why_not_made(const weir_rule& rule) {
    const auto entry = make_plugin_rule(rule, nullptr);
    return entry ? "nothing" : entry.error().text();
}

template <class Change>
std::string why_not_with(const Change& change) {
    weir_rule rule = counts_rule<double>();
    change(rule);
    return why_not_made(rule);
}

}  // namespace

TEST_SUITE("plugin rule") {
    TEST_CASE("a rule in C gives the same bits as the same rule in C++") {
        WEIR_TEST_SEED(seed, 83);
        Random random(seed);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const uint32_t width : {1, 3, 40}) {
                push_the_same<float>(random, layout, width);
                push_the_same<double>(random, layout, width);
                push_the_same<float>(random, layout, width, ValueType::kBFloat16);
                push_the_same<float>(random, layout, width, ValueType::kFloat16);
            }
        }
    }

    TEST_CASE("rows begin with the state that the rule writes") {
        weir_rule rule = counts_rule<double>();
        rule.initial_state = [](void* state, uint32_t type, uint32_t width,
                                const double* parameters, void*) {
            CHECK(type == WEIR_FLOAT64);
            CHECK(width == 2);
            static_cast<double*>(state)[2] = parameters[0] * 8;  // its second sum
        };
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            RuleRegistry rules;
            REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
            HeapMemory memory;
            KnownLists lists{memory, 1 << 20};
            const auto table = *TableShard::make({.name = "t",
                                                  .layout = layout,
                                                  .value_type = ValueType::kFloat64,
                                                  .width = 2,
                                                  .key_count = 100,
                                                  .rule = "in_c",
                                                  .parameters = {{0.5}}},
                                                 PositionSet::whole_ring(), rules, memory, lists);
            const std::vector<uint64_t> keys = {0, 1};
            const std::vector<double> pushed = {0, 0, 1, 1};
            const NamedNumber no_shift{"shift", 0};
            const RuleArguments arguments = *table->arguments(std::span(&no_shift, 1));
            REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed)),
                                &arguments));
            std::vector<double> out(4);
            REQUIRE(
                table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
            CHECK(out == std::vector<double>{0, 2, 0.5, 2.5});
        }
    }

    TEST_CASE("an update that fails throws, with its text, rule, table and key") {
        weir_rule rule = counts_rule<double>();
        rule.update = [](weir_rows* rows, void*) {
            for (size_t r = 0; r < rows->row_count; ++r) {
                if (*static_cast<const double*>(weir_pushed(rows, r)) == 0) continue;
                if (rows->keys[r] == 70) throw std::runtime_error("a bad push: xxx");
                rows->failed_row = r;
                std::memset(rows->error, 'x', rows->error_bytes_max);  // without a 0 at the end
                std::memcpy(rows->error, "a bad push: ", 12);
                return 7;
            }
            return 0;
        };
        RuleRegistry rules;
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        HeapMemory memory;
        KnownLists lists{memory, 1 << 20};
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            const auto table = *TableShard::make({.name = "t",
                                                  .layout = layout,
                                                  .value_type = ValueType::kFloat64,
                                                  .key_count = 100,
                                                  .rule = "in_c",
                                                  .parameters = {{0.5}}},
                                                 PositionSet::whole_ring(), rules, memory, lists);
            const std::vector<uint64_t> keys = {3, 4, 5, 70};
            for (size_t bad = 0; bad < keys.size(); ++bad) {
                std::vector<double> pushed(4);
                pushed[bad] = 1;
                std::string what;
                try {
                    (void)table->push(*table->rows_for_push(keys),
                                      std::as_bytes(std::span(pushed)));
                } catch (const RuleThrew& threw) {
                    what = threw.what();
                }
                const bool in_a_block = bad == 3 && layout == Layout::kSparse;  // of four rows
                const uint64_t at = in_a_block ? keys[0] : keys[bad];
                CHECK(what.find("rule 'in_c' of table 't' threw at key " + std::to_string(at) +
                                ": a bad push: xxx") == 0);
                CHECK((what.find(" (for one of 4 rows, from this one on)") != std::string::npos) ==
                      in_a_block);
                CHECK(what.size() < 400);
            }
        }
    }

    TEST_CASE("a table whose rule throws for its first state is refused, with both names") {
        weir_rule rule = counts_rule<double>();
        rule.initial_state = [](void*, uint32_t, uint32_t, const double*, void*) {
            throw std::runtime_error("no state today");
        };
        RuleRegistry rules;
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        HeapMemory memory;
        KnownLists lists{memory, 1 << 20};
        const auto table = TableShard::make({.name = "t",
                                             .layout = Layout::kSparse,
                                             .value_type = ValueType::kFloat64,
                                             .rule = "in_c",
                                             .parameters = {{0.5}}},
                                            PositionSet::whole_ring(), rules, memory, lists);
        CHECK(table.code() == Errc::kException);
        CHECK(table.error().text() == "table 't': rule 'in_c' threw: no state today");
    }

    TEST_CASE("an update that writes over its arguments spoils no other rows") {
        weir_rule rule = counts_rule<double>();
        rule.update = [](weir_rows* rows, void*) {
            *static_cast<double*>(weir_values(rows, 0)) +=
                *static_cast<const double*>(weir_pushed(rows, 0));
            rows->pushed_stride_bytes = 0;
            rows->values = rows->state = nullptr;
            rows->pushed = rows->keys = nullptr;
            return 0;
        };
        RuleRegistry rules;
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        HeapMemory memory;
        KnownLists lists{memory, 1 << 20};
        const auto table = *TableShard::make({.name = "t",
                                              .layout = Layout::kDense,
                                              .value_type = ValueType::kFloat64,
                                              .key_count = 100,
                                              .rule = "in_c",
                                              .parameters = {{0.5}}},
                                             PositionSet::whole_ring(), rules, memory, lists);
        const std::vector<uint64_t> keys = {3, 50, 70};
        const std::vector<double> pushed = {1, 2, 3};
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
        std::vector<double> out(3);
        REQUIRE(table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
        CHECK(out == pushed);
    }

    TEST_CASE("a table of narrow values gives the rule floats, and rounds as the rule says") {
        RuleRegistry rules;
        REQUIRE(rules.register_rule<CountsAndSums>("in_cpp"));
        weir_rule in_c = counts_rule<float>();
        REQUIRE(rules.add(*make_plugin_rule(in_c, nullptr)));
        in_c.name = "at_random";
        in_c.flags |= WEIR_ROUNDS_AT_RANDOM;
        REQUIRE(rules.add(*make_plugin_rule(in_c, nullptr)));
        CHECK((*rules.find("in_c"))->rounding == Rounding::kNearest);
        CHECK((*rules.find("at_random"))->rounding == Rounding::kStochastic);
        HeapMemory memory;
        KnownLists lists{memory, 1 << 20};
        for (const ValueType type : {ValueType::kBFloat16, ValueType::kFloat16}) {
            std::vector<std::vector<uint16_t>> values;
            for (const char* const rule : {"in_cpp", "in_c"}) {
                const auto table =
                    *TableShard::make({.name = "t",
                                       .layout = Layout::kSparse,
                                       .value_type = type,
                                       .width = 3,
                                       .rule = rule,
                                       .parameters = {{0.3}}},
                                      PositionSet::whole_ring(), rules, memory, lists);
                const std::vector<uint64_t> keys = {3, 50, 71};
                const std::vector<float> pushed = {1, 2, 3, 0.1F, 0.2F, 0.3F, -7, 8, 9};
                for (int i = 0; i < 3; ++i)
                    REQUIRE(
                        table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
                REQUIRE(table->pull(*table->rows_for_pull(keys),
                                    std::as_writable_bytes(std::span(values.emplace_back(9)))));
            }
            CHECK(values[0] == values[1]);
            CHECK(values[0] != std::vector<uint16_t>(9));
        }
    }

    TEST_CASE("a rule without the function, or with numbers that cannot be, is refused") {
        CHECK(why_not_made(counts_rule<float>()) == "nothing");
        const auto with = [](auto change) { return why_not_with(change); };
        CHECK(with([](weir_rule& r) { r.update = nullptr; }) ==
              "its rule 'in_c' has no function `update`");
        CHECK(with([](weir_rule& r) { r.name = nullptr; }).find("has no name") == 9);
        CHECK(with([](weir_rule& r) { r.name = ""; }).find("has no name") == 9);
        CHECK(with([](weir_rule& r) { r.name = "a\nb"; }).find("has no name") == 9);
        static const std::string long_name(65, 'a');
        CHECK(with([](weir_rule& r) { r.name = long_name.c_str(); }).find("1 to 64 bytes") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.types = 0; }).find("has `types` 0x0") != std::string::npos);
        CHECK(with([](weir_rule& r) { r.types = 1U << 9; }).find("has `types` 0x200") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.combine = 5; }).find("no enum weir_combine") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) {
                  r.combine = WEIR_MEAN;
                  r.types = WEIR_TYPES_ALL;
              }).find("WEIR_MEAN") != std::string::npos);
        CHECK(with([](weir_rule& r) { r.flags = 64; }).find("has `flags` 0x40") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.zero = 1; }).find("`zero` 1") != std::string::npos);
        CHECK(with([](weir_rule& r) { r.pushed_values = 1025; }).find("1024 are the most") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.parameter_count = 9; }).find("9 parameters") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.argument_count = ~size_t{0}; }).find("arguments") !=
              std::string::npos);
        CHECK(with([](weir_rule& r) { r.parameters = nullptr; }).find("no array of them") !=
              std::string::npos);
        static const weir_parameter twice[] = {{"rate", 0, 0}, {"rate", 0, 0}};
        CHECK(with([](weir_rule& r) {
                  r.parameters = twice;
                  r.parameter_count = 2;
              }) == "its rule 'in_c' has two parameters 'rate'");
        static const weir_parameter nameless[] = {{nullptr, 0, 0}};
        CHECK(with([](weir_rule& r) { r.parameters = nameless; }).find("no name for parameter 1") !=
              std::string::npos);
        for (const double otherwise :
             {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
            const weir_argument bad[] = {{"shift", otherwise, 0, 0}};
            CHECK(with([&](weir_rule& r) {
                      r.arguments = bad;
                      r.argument_count = 1;
                  }).find("has an argument 'shift'") != std::string::npos);
        }
        CHECK(with([](weir_rule& r) {
                  r.state_bytes = nullptr;
                  r.initial_state = [](void*, uint32_t, uint32_t, const double*, void*) {};
              }).find("and none for `state_bytes`") != std::string::npos);
        for (const auto too_many :
             {+[](uint32_t, uint32_t, void*) { return ~size_t{0}; },
              +[](uint32_t, uint32_t, void*) { return (size_t{1} << 30) + 1; },
              +[](uint32_t, uint32_t width, void*) { return size_t{width} << 28; }})
            CHECK(with([&](weir_rule& r) { r.state_bytes = too_many; }).find("keeps more state") !=
                  std::string::npos);
    }

    TEST_CASE("a struct of an older or a newer header") {
        CHECK(why_not_with([](weir_rule& r) { r.size = 0; }).find("of 0 bytes") !=
              std::string::npos);
        CHECK(why_not_with([](weir_rule& r) { r.size -= 8; }).find("are needed") !=
              std::string::npos);
        CHECK(why_not_with([](weir_rule& r) { r.size = 5000; }).find("of 5000 bytes") !=
              std::string::npos);

        struct Newer {
            weir_rule rule = counts_rule<double>();
            void* more[4] = {};
        } newer;

        newer.rule.size = sizeof newer;
        CHECK(why_not_made(newer.rule) == "nothing");
        newer.more[3] = &newer;
        CHECK(
            why_not_made(newer.rule).find("sets fields that this version of Weir does not know") !=
            std::string::npos);
    }

    TEST_CASE("too much state for a wide row is refused with the table") {
        weir_rule rule = counts_rule<double>();
        rule.state_bytes = [](uint32_t, uint32_t width, void*) {
            return width > 100 ? ~size_t{0} : size_t{8};
        };
        RuleRegistry rules;
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        TableSchema schema{.name = "t", .value_type = ValueType::kFloat64, .rule = "in_c"};
        schema.key_count = 1;
        schema.parameters = {{0.5}};
        CHECK(check_schema(schema, rules));
        schema.width = 101;
        CHECK(check_schema(schema, rules).error().text().find("bytes of state for each key") !=
              std::string::npos);
    }

    TEST_CASE("parameters are checked by name, and then by the rule") {
        weir_rule rule = counts_rule<double>();
        rule.check = [](const double* parameters, uint32_t width, void*) {
            return parameters[0] > width ? "the rate must not exceed the width" : nullptr;
        };
        RuleRegistry rules;
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        const RuleEntry& entry = **rules.find("in_c");
        CHECK(entry.check_parameters({{0.5}}, ValueType::kFloat64, 1));
        CHECK(entry.check_parameters({{0}}, ValueType::kFloat64, 1).error().text() ==
              "rule 'in_c': rate must be greater than 0, is 0");
        CHECK(entry.check_parameters({{1.5}}, ValueType::kFloat64, 1).error().text() ==
              "rule 'in_c': the rate must not exceed the width");
        CHECK(entry.check_parameters({{0.5, 1}}, ValueType::kFloat64, 1).error().text() ==
              "rule 'in_c': it has 1 parameters, but parameter 2 is 1");
        rule.name = "red";
        rule.check = [](const double*, uint32_t, void*) { return "\x1b[31mnot\ntoday"; };
        REQUIRE(rules.add(*make_plugin_rule(rule, nullptr)));
        CHECK((*rules.find("red"))
                  ->check_parameters({{0.5}}, ValueType::kFloat64, 1)
                  .error()
                  .text() == "rule 'red': ?[31mnot?today");
    }

    TEST_CASE("the hash shows all that can be compared") {
        std::set<uint64_t> hashes;
        const auto hash_with = [](auto change) {
            weir_rule rule = counts_rule<double>();
            change(rule);
            const auto entry = make_plugin_rule(rule, nullptr);
            REQUIRE(entry);
            return entry->hash({{0.5}}, ValueType::kFloat64, 5);
        };
        const auto differs = [&](auto change) { return hashes.insert(hash_with(change)).second; };
        CHECK(differs([](weir_rule&) {}));
        CHECK_FALSE(differs([](weir_rule&) {}));
        CHECK(differs([](weir_rule& r) { r.version = 5; }));
        CHECK(differs([](weir_rule& r) { r.pushed_values = 2; }));
        CHECK(differs([](weir_rule& r) { r.combine = WEIR_MAX; }));
        CHECK(differs([](weir_rule& r) { r.types = WEIR_TYPES_FLOATING; }));
        CHECK(differs([](weir_rule& r) { r.flags = 0; }));
        CHECK(differs([](weir_rule& r) { r.argument_count = 1; }));
        CHECK(differs([](weir_rule& r) { r.parameter_count = 0; }));
        CHECK(differs([](weir_rule& r) { r.state_bytes = nullptr; }));
        CHECK(differs([](weir_rule& r) {
            r.initial_state = [](void* state, uint32_t, uint32_t, const double*, void*) {
                std::memset(state, 1, 8);
            };
        }));
    }

    TEST_CASE("workers learn of a rule what they need, and no more") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        weir_rule in_c = counts_rule<double>();
        in_c.flags |= WEIR_ROUNDS_AT_RANDOM;
        REQUIRE(rules.add(*make_plugin_rule(in_c, nullptr)));
        for (const char* const name : {"in_c", "add", "adam", "ftrl", "mean", "prox_l1"}) {
            const RuleEntry& rule = **rules.find(name);
            const std::string bytes = encode_rule(rule);
            const auto told = decode_rule(bytes);
            REQUIRE(told);
            CHECK(told->is_described);
            CHECK(told->name == name);
            CHECK(told->version == rule.version);
            CHECK(told->pushed_values == rule.pushed_values);
            CHECK(told->combine == rule.combine);
            CHECK(told->rounding == rule.rounding);
            CHECK(told->hash({}, ValueType::kFloat32, 1) == 0);
            REQUIRE(told->arguments.size() == rule.arguments.size());
            const RuleParameters parameters{{0.5, 0.25, 0.125}};
            CHECK(told->default_arguments(parameters) == rule.default_arguments(parameters));
            REQUIRE(told->parameters.size() == rule.parameters.size());
            for (size_t i = 0; i < rule.parameters.size(); ++i)
                CHECK(std::string_view(told->parameters[i].name) == rule.parameters[i].name);
            for (size_t i = 0; i < kValueTypeCount; ++i) {
                const auto type = static_cast<ValueType>(i);
                CHECK(told->supports(type) == rule.supports(type));
                if (!rule.supports(type)) continue;
                CHECK(told->layout(type, 3).pushed_bytes() == rule.layout(type, 3).pushed_bytes());
            }
            for (size_t cut = 0; cut < bytes.size(); ++cut)
                CHECK_FALSE(decode_rule(std::string_view(bytes).substr(0, cut)));
            CHECK_FALSE(decode_rule(bytes + 'x'));
            for (size_t at = 0; at < bytes.size(); ++at) {  // whatever the bytes are
                std::string other = bytes;
                other[at] = static_cast<char>(other[at] ^ 0xff);
                (void)decode_rule(other);
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/byte_codec.h"
#include "lib/base/prox.h"
#include "lib/base/random.h"
#include "lib/store/rules/builtin_rules.h"
#include "lib/store/schema_codec.h"
#include "lib/store/table.h"
#include "tests/seed.h"

namespace {

/// A user's rule with two state values and three pushed ones: sum and count of a * b + c.
struct MeanOfProducts {
    static constexpr uint32_t kStateValues = 2;
    static constexpr uint32_t kPushedValues = 3;
    static constexpr weir::Combine kCombine = weir::Combine::kLast;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, double>;

    static const char* check(const weir::RuleParameters&) { return nullptr; }

    static double initial_state(const weir::RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T* state, const T* pushed, const weir::RuleContext&) {
        state[0] += pushed[0] * pushed[1] + pushed[2];
        state[1] += 1;
        value = state[0] / state[1];
    }
};

/// Rules that are wrong in their update() alone.
struct NoState : MeanOfProducts {
    template <class T>
    static void update(T& value, const T* pushed, const weir::RuleContext&) {
        value = *pushed;
    }
};

struct PushedByValue : MeanOfProducts {
    template <class T>
    static void update(T& value, T*, T pushed, const weir::RuleContext&) {
        value = pushed;
    }
};

struct NoUpdate {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr weir::Combine kCombine = weir::Combine::kSum;
    template <class T>
    static constexpr bool kSupports = true;

    static const char* check(const weir::RuleParameters&) { return nullptr; }

    static double initial_state(const weir::RuleParameters&) { return 0; }
};

static_assert(weir::UpdateRule<MeanOfProducts>);
static_assert(!weir::UpdateRule<NoState>);
static_assert(!weir::UpdateRule<PushedByValue>);
static_assert(!weir::UpdateRule<NoUpdate>);

/// Of one name, these differ in what can be compared.
struct SecondVersion : MeanOfProducts {
    static constexpr uint32_t kVersion = 2;
};

struct OtherStart : MeanOfProducts {
    static double initial_state(const weir::RuleParameters& p) { return p.value[0]; }
};

struct OtherCombine : MeanOfProducts {
    static constexpr weir::Combine kCombine = weir::Combine::kMax;
};

struct OtherTypes : MeanOfProducts {
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;
};

template <class R>
uint64_t hash_of(const weir::RuleParameters& parameters) {
    weir::RuleRegistry rules;
    REQUIRE(rules.register_rule<R>("mean"));
    return (*rules.find("mean"))->hash(parameters, weir::ValueType::kFloat64, 1);
}

}  // namespace

TEST_SUITE("rule") {
    using namespace weir;

    TEST_CASE("prox_l1 keeps its trust beside the value and takes the step of prox_l1_step") {
        WEIR_TEST_SEED(seed, 51);
        Random random(seed);
        const auto pick = [&] {
            const double some[] = {0, -0.0, 1e-300, -1e-300, 0.25, -0.25, 1, -1, 1e6, -1e6};
            return random.below(2) == 0 ? some[random.below(10)] : random.uniform() * 4 - 2;
        };
        for (int i = 0; i < 200'000; ++i) {
            double value = pick();
            double trust = std::abs(pick()) + 1e-9;
            const double pushed[2] = {pick(), pick()};
            const RuleParameters parameters{{std::abs(pick()), 1}};
            const RuleArguments arguments{{std::abs(pick())}};
            const auto expected = prox_l1_step({value, trust}, pushed[0], pushed[1],
                                               parameters.value[0], arguments.value[0]);
            rules::ProxL1::update(value, &trust, pushed,
                                  RuleContext{.parameters = parameters, .arguments = arguments});
            REQUIRE(value == expected.weight);
            REQUIRE(is_at_rest(value) == is_at_rest(expected.weight));
            REQUIRE(trust == expected.trust);
        }
    }

    TEST_CASE("prox_l1 steps to the minimum: no point nearby is lower") {
        WEIR_TEST_SEED(seed, 52);
        Random random(seed);
        for (int i = 0; i < 2000; ++i) {
            const double w = random.uniform() * 4 - 2;
            const double g = random.uniform() * 4 - 2;
            const double u = random.uniform() + 0.01;
            const double lambda = random.uniform();
            double value = w;
            double trust = 1000;  // beyond any step here, 3 / 0.01 + 2
            const double pushed[2] = {g, u};
            rules::ProxL1::update(value, &trust, pushed, RuleContext{.parameters = {{lambda, 1}}});
            const auto objective = [&](double d) {
                return g * d + u / 2 * d * d + lambda * std::abs(w + d);
            };
            for (const double off : {-1.0, -0.1, -1e-4, 1e-4, 0.1, 1.0, -value})
                CHECK(objective(value - w) <= objective(value - w + off) + 1e-12);
        }
    }

    TEST_CASE("integers wrap around instead of overflowing") {
        int64_t value = std::numeric_limits<int64_t>::max();
        const int64_t one = 1;
        rules::Add::update<int64_t>(value, nullptr, &one, {});
        CHECK(value == std::numeric_limits<int64_t>::min());
    }

    TEST_CASE("a user's rule with much state works like a built-in one, dense and sparse") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        REQUIRE(rules.register_rule<MeanOfProducts>("mean_of_products"));
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const uint32_t width : {1U, 3U}) {
                HeapMemory memory;
                KnownLists lists(memory, 1 << 20);
                const auto table =
                    *TableShard::make({.name = "t",
                                       .layout = layout,
                                       .value_type = ValueType::kFloat64,
                                       .width = width,
                                       .key_count = 100,
                                       .rule = "mean_of_products"},
                                      PositionSet::whole_ring(), rules, memory, lists);
                std::vector<uint64_t> keys(100);
                for (uint64_t i = 0; i < keys.size(); ++i)
                    keys[i] = i;
                std::vector<double> pushed(keys.size() * width * 3);
                for (const double first : {2.0, 4.0}) {
                    for (size_t i = 0; i < pushed.size() / 3; ++i) {
                        pushed[i * 3] = first;
                        pushed[i * 3 + 1] = static_cast<double>(i);
                        pushed[i * 3 + 2] = 1;
                    }
                    REQUIRE(
                        table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
                }
                std::vector<double> out(keys.size() * width);
                REQUIRE(table->pull(*table->rows_for_pull(keys),
                                    std::as_writable_bytes(std::span(out))));
                for (size_t i = 0; i < out.size(); ++i)
                    CHECK(out[i] == 3 * static_cast<double>(i) + 1);
            }
        }
    }

    TEST_CASE("a name is taken once, and a rule that is not there is named with those that are") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        CHECK(rules.register_rule<MeanOfProducts>("add").code() == Errc::kAlreadyExists);
        const auto missing = rules.find("ad");
        REQUIRE(missing.code() == Errc::kNotFound);
        CHECK(missing.error().text().find("adagrad, adam, adamw, add") != std::string::npos);
        CHECK(missing.error().text().find("add_rules") != std::string::npos);
        CHECK(rules.register_rule<MeanOfProducts>("").code() == Errc::kInvalidArgument);
        CHECK(rules.register_rule<MeanOfProducts>("a\x1b[2J").code() == Errc::kInvalidArgument);
    }

    TEST_CASE("rules of one name are told apart by what can be compared") {
        const RuleParameters parameters{{0.5}};
        const uint64_t hash = hash_of<MeanOfProducts>(parameters);
        CHECK(hash != 0);
        CHECK(hash == hash_of<MeanOfProducts>(parameters));
        CHECK(hash != hash_of<SecondVersion>(parameters));
        CHECK(hash != hash_of<OtherStart>(parameters));
        CHECK(hash != hash_of<OtherCombine>(parameters));
        CHECK(hash != hash_of<OtherTypes>(parameters));

        RuleRegistry old_rules;
        RuleRegistry new_rules;
        REQUIRE(old_rules.register_rule<MeanOfProducts>("mean"));
        REQUIRE(new_rules.register_rule<SecondVersion>("mean"));
        TableSchema schema;
        schema.name = "weights";
        schema.key_count = 1;
        schema.value_type = ValueType::kFloat64;
        schema.rule = "mean";
        CHECK(check_schema(schema, new_rules));  // of a checkpoint from before rules had versions
        schema.rule_hash =
            (*old_rules.find("mean"))->hash(schema.parameters, schema.value_type, schema.width);
        CHECK(check_schema(schema, old_rules));
        const auto refused = check_schema(schema, new_rules);
        REQUIRE(refused.code() == Errc::kTypeMismatch);
        CHECK(refused.error().text().find(
                  "table 'weights': rule 'mean' has version 2 here, and version 0") !=
              std::string::npos);
        RuleRegistry others;
        REQUIRE(others.register_rule<OtherTypes>("mean"));
        CHECK(check_schema(schema, others).error().text().find("differs") != std::string::npos);
    }

    TEST_CASE(
        "a table of a checkpoint of form 1 is opened whatever its rule was compared by then") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        ByteWriter form_1;
        form_1.text("weights").number(Layout::kDense).number(ValueType::kFloat64);
        form_1.number(uint32_t{2}).number(uint64_t{10}).text("adagrad");
        form_1.number(0.5);  // the initial value
        for (const double parameter : {0.1, 1e-8, 0.0, 0.0})
            form_1.number(parameter);
        form_1.number(uint8_t{0}).number(uint32_t{3});
        form_1.number(uint32_t{0}).number(uint64_t{0x1234});  // version and hash of the rule
        const std::span<const std::byte> bytes = form_1.bytes();
        const auto schema =
            decode_schema({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 1);
        REQUIRE(schema);
        CHECK(schema->width == 2);
        CHECK(schema->initial_value == 0.5);
        CHECK(schema->max_delay == 3);
        CHECK(check_schema(*schema, rules));
    }

    TEST_CASE("a table's name has no control characters") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema;
        schema.key_count = 1;
        for (const char* const good : {"w", "weights of layer 3", "gr\u00f6\u00dfe", "\xe9"}) {
            schema.name = good;
            CHECK(check_schema(schema, rules));
        }
        for (const char* const bad : {"a\n", "\x1b[2Jw", "\x7f", "a\tb", "\u0085"}) {
            schema.name = bad;
            CHECK(check_schema(schema, rules).code() == Errc::kInvalidArgument);
        }
    }
}

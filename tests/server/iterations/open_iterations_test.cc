// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations/open_iterations.h"

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include <doctest/doctest.h>

#include "lib/store/index/known_lists.h"
#include "lib/store/memory.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/table_schemas.h"

namespace weir {
namespace {

/// A table of two keys whose window is open for two iterations.
struct WindowOfTwo {
    WindowOfTwo() {
        iterations.state().restart(std::array{PositionRange{}});
        iterations.state().set_members(std::array{IterationMember{0, 1}});
    }

    static TableSchema two_keys() {
        TableSchema schema = testing::dense_table("t", 2);
        schema.max_delay = 1;
        return schema;
    }

    /// A part of the only worker that adds `value` to both keys, from its arrival to its effect.
    void push(uint64_t iteration, uint32_t parts, float value) {
        REQUIRE(iterations.state().judge(iteration, 0, parts) == IterationProgress::Verdict::kNow);
        const std::array<float, 2> values = {value, value};
        const KeyRange keys{0, 2};
        if (iterations.is_all(iteration, 0, parts)) {
            REQUIRE(rows->push(keys, std::as_bytes(std::span(values))).has_value());
        } else {
            REQUIRE(rows->push_aggregate(iteration, keys, std::as_bytes(std::span(values)))
                        .has_value());
            iterations.added(iteration);
        }
        const OpenIterations::Part part{1, iteration, 0, ++time, 0};
        CHECK_FALSE(iterations.arrived(iteration, part, parts, {}).has_value());
    }

    [[nodiscard]] float value_of_key_0() {
        const auto values = rows->values(KeyRange{0, 1});
        REQUIRE(values.has_value());
        float value = 0;
        std::memcpy(&value, values->data(), sizeof(value));
        return value;
    }

    HeapMemory memory;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    KnownLists lists{memory, 4096};
    std::unique_ptr<TableShard> rows =
        *TableShard::make(two_keys(), PositionSet::whole_ring(), rules, memory, lists);
    ClosedIterations closed;
    OpenIterations iterations{*rows, closed};
    uint32_t time = 0;
};

}  // namespace

TEST_SUITE("iterations") {
    TEST_CASE("a worker's whole part changes the table at once only if no earlier one is open") {
        WindowOfTwo window;
        window.push(1, 2, 1);
        window.push(2, 1, 10);  // all of iteration 2, while a part of 1 is still to come
        CHECK(window.value_of_key_0() == 0);
        window.push(1, 2, 2);
        CHECK(window.value_of_key_0() == 0);
        const auto no_answer = [](const OpenIterations::Part&) {};
        REQUIRE(window.iterations.state().complete());
        window.iterations.close(no_answer);
        CHECK(window.value_of_key_0() == 3);
        REQUIRE(window.iterations.state().complete());
        window.iterations.close(no_answer);
        CHECK(window.value_of_key_0() == 13);
        window.push(3, 1, 100);  // nothing is open before it
        CHECK(window.value_of_key_0() == 113);
    }

    TEST_CASE("nothing is applied of an iteration of which a worker has withdrawn its part") {
        WindowOfTwo window;
        window.push(1, 2, 1);
        window.iterations.set_withdrawals({{.worker = 5, .first = 1, .last = 1}});
        window.push(2, 1, 10);
        const OpenIterations::Part last{1, 3, 0, 3, 0};
        CHECK_FALSE(window.iterations.arrived(1, last, 2, {}).has_value());
        int answers = 0;
        const auto count = [&](const OpenIterations::Part&) { ++answers; };
        REQUIRE(window.iterations.state().complete());
        window.iterations.close(count);
        CHECK(answers == 2);
        CHECK(window.iterations.state().failure_of(1)->worker == 5);
        CHECK(window.value_of_key_0() == 0);
        REQUIRE(window.iterations.state().complete());
        window.iterations.close(count);
        CHECK(window.value_of_key_0() == 10);
    }

    TEST_CASE(
        "a part that its positions have closed is answered at once when none is closed any more") {
        WindowOfTwo window;
        REQUIRE(window.iterations.state().judge(1, 0, 2) == IterationProgress::Verdict::kNow);
        CHECK(window.iterations.arrived_again(1, {1, 1, 0, 1, 0}, 2));
        window.iterations.state().end({Errc::kReassigned});
        int answers = 0;
        const auto count = [&](const OpenIterations::Part& part) {
            CHECK(part.is_closed);
            ++answers;
        };
        window.iterations.give_up(1, count);
        CHECK(answers == 1);
        // Nobody would answer it later.
        CHECK_FALSE(window.iterations.arrived_again(1, {1, 2, 0, 2, 0}, 2));
        window.iterations.give_up(1, count);
        CHECK(answers == 1);
    }
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/wide_table.h"

#include <vector>

#include <doctest/doctest.h>

#include "bench/jobs/pushed_rules.h"
#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/seed.h"
#include "tests/store/model.h"

TEST_SUITE("wide_table") {
    using namespace weir;
    using limits::WideTable;

    TEST_CASE("its rows are those of the rules' references, with every kind of comparison") {
        WEIR_TEST_SEED(seed, 72);
        const limits::Compare best = limits::best_compare();
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        for (const bench::PushedRule& pushed : bench::pushed_rules()) {
            for (const limits::Compare kind :
                 {limits::Compare::kPortable, limits::Compare::kAvx2, limits::Compare::kAvx512}) {
                if (kind > best) continue;
                INFO("rule " << pushed.rule.name << ", comparison " << static_cast<int>(kind));
                Random random(seed);
                constexpr size_t kKeys = 200;
                const size_t width = 4 * (1 + random.below(10));
                const size_t row_floats = pushed.step.row_floats(width);
                const size_t pushed_floats = pushed.step.pushed_floats(width);
                std::vector<WideTable::Bucket> buckets(limits::line_buckets_for(kKeys));
                std::vector<float> rows(kKeys * row_floats);
                WideTable table(buckets, rows.data(), width, pushed.step, kind);
                testing::ModelTable<float> model({.width = static_cast<uint32_t>(width),
                                                  .rule = pushed.rule.name,
                                                  .parameters = pushed.rule.parameters},
                                                 static_cast<uint32_t>(pushed_floats / width));
                const RuleArguments arguments =
                    (*rules.find(pushed.rule.name))->default_arguments(pushed.rule.parameters);
                std::vector<uint64_t> keys(kKeys);
                for (size_t i = 0; i < kKeys; ++i)
                    keys[i] = mix64(i);
                table.insert(keys);
                for (int round = 0; round < 20; ++round) {
                    std::vector<uint64_t> list;
                    for (const uint64_t key : keys)
                        if (random.below(3) == 0) list.push_back(key);
                    std::vector<float> values(list.size() * pushed_floats);
                    for (float& value : values)
                        value = static_cast<float>(random.uniform() - 0.25);
                    for (size_t i = 1; pushed_floats > width && i < values.size(); i += 2)
                        values[i] += 0.5F;  // curvatures, which are small by no chance
                    table.push(list, values.data());
                    for (size_t i = 0; i < list.size(); ++i)
                        model.push(list[i], values.data() + i * pushed_floats, arguments);
                }
                std::vector<float> out(kKeys * width);
                table.pull(keys, out.data());
                for (size_t i = 0; i < kKeys; ++i)
                    REQUIRE(model.same(keys[i], out.data() + i * width));
            }
        }
    }
}

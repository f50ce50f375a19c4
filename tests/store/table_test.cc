// SPDX-License-Identifier: Apache-2.0
/// \file
/// Random histories of every rule, type, layout and width against a std::map.
#include "lib/store/table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/seed.h"
#include "tests/store/model.h"

TEST_SUITE("table") {
    using namespace weir;
    using namespace weir::testing;

    static TableSchema schema_of(Layout layout, ValueType type, uint32_t width, const char* rule) {
        TableSchema schema{.id = 1,
                           .name = "t",
                           .layout = layout,
                           .value_type = type,
                           .width = width,
                           .key_count = layout == Layout::kDense ? 500U : 0U,
                           .rule = rule};
        static const std::map<std::string, RuleParameters> parameters = {
            {"sgd", {{0.5, 0.125}}},
            {"momentum", {{0.25, 0.75, 0.125}}},
            {"nesterov", {{0.25, 0.75, 0.125}}},
            {"adagrad", {{0.5, 0.01}}},
            {"row_adagrad", {{0.5, 0.01}}},
            {"rmsprop", {{0.125, 0.75, 0.01}}},
            {"adam", {{0.125, 0.75, 0.875, 0.01, 0.125}}},
            {"adamw", {{0.125, 0.75, 0.875, 0.01, 0.125}}},
            {"lion", {{0.125, 0.75, 0.875, 0.125}}},
            {"ftrl", {{0.5, 1, 0.25, 0.125}}},
            {"prox_l1", {{0.3, 1.5}}},
            {"count_min", {{width % 2 == 0 ? 2.0 : width}}}};
        if (const auto found = parameters.find(rule); found != parameters.end())
            schema.parameters = found->second;
        return schema;
    }

    /// How often a rule was pushed to in each way.
    struct Ways {
        int new_lists = 0;
        int known_lists = 0;
        int ranges = 0;
        int with_arguments = 0;
        int lists_in_iterations = 0;
        int ranges_in_iterations = 0;
    };

    template <class T>
    class History {
    public:
        History(const TableSchema& schema, uint64_t seed, Ways& ways)
            : ways_(ways),
              random_(seed),
              schema_(schema),
              rules_(RuleRegistry::with_builtin_rules()),
              pushed_values_((*rules_.find(schema.rule))->pushed_values),
              cache_(memory_, 4096),
              table_(*TableShard::make(schema, PositionSet::whole_ring(), rules_, memory_, cache_)),
              model_(schema, pushed_values_) {
            // Few hot keys, the ends of the key space, and some that come late: tables must grow.
            for (int i = 0; i < 400; ++i)
                pool_.push_back(random_() >> random_.below(64));
            pool_.insert(pool_.end(), {0, 1, ~uint64_t{0}, ~uint64_t{0} - 1});
        }

        void run(int steps) {
            for (int step = 0; step < steps; ++step) {
                switch (random_.below(6)) {
                    case 0:
                    case 1: list_push(false); break;
                    case 2: aggregate(); break;
                    case 3: range_push(); break;
                    case 4: list_pull(); break;
                    default: range_pull(); break;
                }
            }
            list_pull();
        }

    private:
        T number() {
            const auto small = static_cast<int>(random_.below(9));
            if constexpr (std::is_unsigned_v<T>) return static_cast<T>(small);
            return static_cast<T>(small - 4) / (std::is_floating_point_v<T> ? T(2) : T(1));
        }

        /// Curvatures must not be small negative numbers by chance: a move then goes anywhere.
        std::vector<T> pushed(size_t keys) {
            std::vector<T> values(keys * schema_.width * pushed_values_);
            for (T& value : values)
                value = number();
            if (pushed_values_ == 2) {
                for (size_t i = 1; i < values.size(); i += 2)
                    values[i] = static_cast<T>(
                        random_.below(8) == 0 ? -4.0 : 0.5 * double(random_.below(5)));
            }
            return values;
        }

        std::vector<uint64_t> keys() {
            if (!lists_.empty() && random_.below(2) == 0)
                return lists_[random_.below(lists_.size())];
            std::set<uint64_t> chosen;
            const size_t wanted = 1 + random_.below(random_.below(3) == 0 ? 300 : 40);
            while (chosen.size() < wanted) {
                chosen.insert(schema_.layout == Layout::kDense ? random_.below(500)
                              : random_.below(50) == 0         ? random_()
                                                       : pool_[random_.below(pool_.size())]);
            }
            std::vector<uint64_t> list(chosen.begin(), chosen.end());
            if (lists_.size() < 30) lists_.push_back(list);
            return list;
        }

        KeyRange range() {
            const uint64_t begin = random_.below(500);
            return {begin, begin + 1 + random_.below(500 - begin)};
        }

        /// As a shard does: a list is asked for by its hash first.
        RowList rows(const std::vector<uint64_t>& list, bool create) {
            const auto known = table_->known_rows(list_id(list));
            if (known) {
                CHECK(list.size() >= kRememberedKeysMin);
                return *known;
            }
            return create ? *table_->rows_for_push(list) : *table_->rows_for_pull(list);
        }

        /// Those of the table, or others for this push; null then.
        const RuleArguments* choose_arguments() {
            arguments_ = *table_->arguments(std::span<const double>());
            const std::span named = (*rules_.find(schema_.rule))->arguments;
            if (named.empty() || random_.below(2) == 0) return nullptr;
            ++ways_.with_arguments;
            std::vector<NamedNumber> given;
            for (size_t i = 0; i < named.size(); ++i) {
                const double factors[] = {0, 0.5, 1.25};
                if (random_.below(2) == 0) continue;  // the table's
                given.push_back({named[i].name, arguments_.value[i] * factors[random_.below(3)]});
            }
            arguments_ = *table_->arguments(given);
            return &arguments_;
        }

        void list_push(bool aggregated) {
            const auto list = keys();
            const auto values = pushed(list.size());
            const RowList at = rows(list, true);
            ++(aggregated                 ? ways_.lists_in_iterations
               : at.remembered != nullptr ? ways_.known_lists
                                          : ways_.new_lists);
            const auto bytes = std::as_bytes(std::span(values));
            const Status status = aggregated ? table_->push_aggregate(1, at, bytes)
                                             : table_->push(at, bytes, choose_arguments());
            REQUIRE(status);
            for (size_t i = 0; i < list.size(); ++i) {
                const T* row = values.data() + i * schema_.width * pushed_values_;
                aggregated ? model_.aggregate(list[i], row) : model_.push(list[i], row, arguments_);
            }
        }

        void range_push(bool aggregated = false) {
            if (schema_.layout == Layout::kSparse) return list_push(aggregated);
            const KeyRange keys = range();
            ++(aggregated ? ways_.ranges_in_iterations : ways_.ranges);
            const auto values = pushed(keys.key_count());
            const auto bytes = std::as_bytes(std::span(values));
            REQUIRE((aggregated ? table_->push_aggregate(1, keys, bytes)
                                : table_->push(keys, bytes, choose_arguments())));
            for (uint64_t key = keys.begin; key < keys.end; ++key) {
                const T* row = values.data() + (key - keys.begin) * schema_.width * pushed_values_;
                aggregated ? model_.aggregate(key, row) : model_.push(key, row, arguments_);
            }
        }

        void aggregate() {
            for (uint64_t workers = 1 + random_.below(4); workers > 0; --workers) {
                random_.below(2) == 0 ? list_push(true) : range_push(true);
            }
            table_->apply_aggregate(1, choose_arguments());
            model_.apply(arguments_);
        }

        void list_pull() {
            const auto list = keys();
            std::vector<T> out(list.size() * schema_.width, T(77));
            REQUIRE(table_->pull(rows(list, false), std::as_writable_bytes(std::span(out))));
            bool same = true;
            for (size_t i = 0; i < list.size(); ++i)
                same &= model_.same(list[i], out.data() + i * schema_.width);
            CHECK(same);
        }

        void range_pull() {
            if (schema_.layout == Layout::kSparse) return list_pull();
            const KeyRange keys = range();
            const auto bytes = *table_->values(keys);
            REQUIRE(bytes.size() == keys.key_count() * schema_.width * sizeof(T));
            const T* values = reinterpret_cast<const T*>(bytes.data());
            bool same = true;
            for (uint64_t key = keys.begin; key < keys.end; ++key)
                same &= model_.same(key, values + (key - keys.begin) * schema_.width);
            CHECK(same);
        }

        Ways& ways_;
        Random random_;
        TableSchema schema_;
        RuleRegistry rules_;
        uint32_t pushed_values_;
        HeapMemory memory_;
        KnownLists cache_;
        std::unique_ptr<TableShard> table_;
        ModelTable<T> model_;
        RuleArguments arguments_;
        std::vector<uint64_t> pool_;
        std::vector<std::vector<uint64_t>> lists_;
    };

    constexpr const char* kRules[] = {"assign",      "sum",     "mean",     "add",      "max",
                                      "min",         "sgd",     "momentum", "nesterov", "adagrad",
                                      "row_adagrad", "rmsprop", "adam",     "adamw",    "lion",
                                      "ftrl",        "prox_l1", "count_min"};
    constexpr Layout kLayouts[] = {Layout::kDense, Layout::kSparse};

    template <class T>
    static void run_all(uint64_t seed) {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        for (const char* rule : kRules) {
            if (!(*rules.find(rule))->supports(value_type_of<T>())) continue;
            for (const Layout layout : kLayouts) {
                INFO("rule " << rule << ", type " << std::string(to_string(value_type_of<T>()))
                             << ", " << (layout == Layout::kDense ? "dense" : "sparse"));
                Ways ways;
                for (const uint32_t width : {1U, 2U, 3U, 8U, 17U, 36U}) {
                    CAPTURE(width);
                    TableSchema schema = schema_of(layout, value_type_of<T>(), width, rule);
                    const bool begins_at_zero = (*rules.find(rule))->begins_at_zero;
                    schema.initial_value = begins_at_zero ? 0.0 : static_cast<double>(seed % 3);
                    ++seed;
                    History<T>(schema, seed, ways).run(40);
                }
                CHECK(ways.new_lists > 0);
                CHECK(ways.known_lists > 0);
                CHECK(ways.lists_in_iterations > 0);
                CHECK((ways.ranges > 0) == (layout == Layout::kDense));
                CHECK((ways.ranges_in_iterations > 0) == (layout == Layout::kDense));
                CHECK((ways.with_arguments > 0) == !(*rules.find(rule))->arguments.empty());
            }
        }
    }

    /// What a table has after pushes to all its rows, grouped in some way: values and state.
    template <class T>
    static std::vector<std::byte> bits_after(
        const TableSchema& schema, uint64_t seed,
        const std::function<void(TableShard&, std::span<const T>)>& push) {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        HeapMemory memory;
        KnownLists lists(memory, 1 << 20);
        auto table = *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
        Random random(seed);
        std::vector<T> pushed(schema.key_count * table->row_layout().pushed_values);
        for (int step = 0; step < 4; ++step) {
            for (T& value : pushed)
                value = static_cast<T>(random.uniform());
            push(*table, pushed);
        }
        std::vector<uint64_t> keys(schema.key_count);
        std::iota(keys.begin(), keys.end(), 0);
        const RowList all = *table->rows_for_push(keys);
        std::vector<std::byte> bits(keys.size() * (table->row_layout().row_bytes()));
        const size_t value_bytes = keys.size() * table->row_layout().value_bytes();
        table->copy_values(all.rows, std::span(bits).first(value_bytes));
        table->copy_state(all.rows, std::span(bits).subspan(value_bytes));
        return bits;
    }

    template <class T>
    static void group_rows(uint64_t seed) {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        for (const char* rule : kRules) {
            if (!(*rules.find(rule))->supports(value_type_of<T>())) continue;
            for (const uint32_t width : {1U, 2U, 7U, 16U, 33U}) {
                for (const Layout layout : kLayouts) {
                    INFO("rule " << rule << ", width " << width << ", "
                                 << (layout == Layout::kDense ? "dense" : "sparse"));
                    TableSchema schema = schema_of(layout, value_type_of<T>(), width, rule);
                    schema.key_count = 203;
                    schema.initial_value = (*rules.find(rule))->begins_at_zero ? 0 : 0.25;
                    const auto push = [&](TableShard& table, std::span<const T> pushed,
                                          uint64_t first, uint64_t step) {
                        const size_t row = table.row_layout().pushed_values;
                        std::vector<uint64_t> keys;
                        std::vector<T> values;
                        for (uint64_t key = first; key < schema.key_count; key += step) {
                            keys.push_back(key);
                            const auto some = pushed.subspan(key * row, row);
                            values.insert(values.end(), some.begin(), some.end());
                        }
                        REQUIRE(table.push(*table.rows_for_push(keys),
                                           std::as_bytes(std::span(values))));
                    };
                    /// Lists of every step-th row: of one row, of scattered ones, of all.
                    const auto by_lists = [&](uint64_t step) {
                        return bits_after<T>(schema, seed,
                                             [&](TableShard& table, std::span<const T> pushed) {
                                                 for (uint64_t first = 0; first < step; ++first)
                                                     push(table, pushed, first, step);
                                             });
                    };
                    const auto all = by_lists(1);
                    CHECK(by_lists(schema.key_count) == all);
                    CHECK(by_lists(3) == all);
                    const auto in_iterations = bits_after<T>(
                        schema, seed, [&](TableShard& table, std::span<const T> pushed) {
                            std::vector<uint64_t> keys(schema.key_count);
                            std::iota(keys.begin(), keys.end(), 0);
                            REQUIRE(table.push_aggregate(1, *table.rows_for_push(keys),
                                                         std::as_bytes(pushed)));
                            table.apply_aggregate(1);
                        });
                    CHECK(in_iterations == all);
                    if (layout == Layout::kSparse) continue;
                    const auto by_range = bits_after<
                        T>(schema, seed, [&](TableShard& table, std::span<const T> pushed) {
                        REQUIRE(table.push(KeyRange{0, schema.key_count}, std::as_bytes(pushed)));
                    });
                    CHECK(by_range == all);
                }
            }
        }
    }

    TEST_CASE("a random history of any table reads as that of a std::map") {
        WEIR_TEST_SEED(seed, 31);
        run_all<float>(seed);
        run_all<double>(seed);
        run_all<int32_t>(seed);
        run_all<int64_t>(seed);
        run_all<uint32_t>(seed);
        run_all<uint64_t>(seed);
    }

    TEST_CASE("each rule that is registered has a reference here") {
        const std::string known =
            RuleRegistry::with_builtin_rules().find("none").error().text() + ",";
        const std::string names = known.substr(known.rfind(':'));
        CHECK(std::ranges::count(names, ',') == std::ranges::ssize(kRules));
        for (const std::string rule : kRules)
            CHECK_MESSAGE(names.find(" " + rule + ",") != std::string::npos, rule);
    }

    TEST_CASE("a rule gives the same bits, however the rows of a push are grouped") {
        WEIR_TEST_SEED(seed, 32);
        group_rows<float>(seed);
        group_rows<double>(seed);
    }
}

// SPDX-License-Identifier: Apache-2.0
// The tables of the store against the best that one core can do, without messages. Both are
// measured by turns in the same run.
#include <algorithm>
#include <vector>

#include "bench/jobs/pushed_rules.h"
#include "bench/limits/line_table.h"
#include "bench/limits/memory_work.h"
#include "bench/limits/wide_table.h"
#include "bench/micro/arena.h"
#include "bench/micro/beside.h"
#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "lib/key/finite.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"

namespace weir::bench {
namespace {

constexpr size_t kListKeys = 100'000;

/// Touched memory for one subject at a time. Each call reuses the memory of the last subject.
Arena& fresh_arena(size_t bytes) {
    static std::unique_ptr<Arena> arena;
    static size_t arena_bytes = 0;
    if (bytes > arena_bytes) {
        arena = nullptr;
        arena = std::make_unique<Arena>(bytes);
        arena_bytes = bytes;
    }
    arena->reset();
    return *arena;
}

/// Memory for a table of this many keys, the limit's table and their data.
Arena& arena_for_keys(size_t count) {
    return fresh_arena(std::max<size_t>(256 * kMiB, count * 420));
}

const RuleRegistry& rules() {
    static const RuleRegistry all = RuleRegistry::with_builtin_rules();
    return all;
}

std::span<const std::byte> bytes_of(const std::vector<float>& values, size_t count) {
    return std::as_bytes(std::span(values).first(count));
}

/// Distinct random keys, in random order.
std::vector<uint64_t> random_keys(size_t count, uint64_t seed) {
    std::vector<uint64_t> keys(count);
    for (size_t i = 0; i < count; ++i)
        keys[i] = mix64(i + 1 + (seed << 40));
    return keys;
}

/// Random sorted lists of `list_keys` keys. Each key is in at most one list.
std::vector<std::vector<uint64_t>> lists_of(const std::vector<uint64_t>& keys, size_t list_keys) {
    std::vector<std::vector<uint64_t>> lists;
    for (size_t begin = 0; begin + list_keys <= keys.size(); begin += list_keys) {
        lists.emplace_back(keys.begin() + static_cast<ptrdiff_t>(begin),
                           keys.begin() + static_cast<ptrdiff_t>(begin + list_keys));
        std::ranges::sort(lists.back());
    }
    return lists;
}

/// A table with its own cache of remembered key lists.
struct Made {
    TableShard* operator->() const { return table.get(); }

    TableShard& operator*() const { return *table; }

    std::unique_ptr<KnownLists> lists;
    std::unique_ptr<TableShard> table;
};

Made make_table(const TableSchema& schema, Memory& memory, size_t list_cache_bytes) {
    auto lists = std::make_unique<KnownLists>(memory, list_cache_bytes);
    auto table = *TableShard::make(schema, PositionSet::whole_ring(), rules(), memory, *lists);
    return {std::move(lists), std::move(table)};
}

void push(TableShard& table, const std::vector<uint64_t>& list, const std::vector<float>& deltas,
          size_t row_floats = 1) {
    WEIR_CHECK(table.push(*table.rows_for_push(list), bytes_of(deltas, list.size() * row_floats)));
}

/// A dense table and an array of the same size.
struct Dense {
    static constexpr size_t kPush = 1 << 18;  ///< 1 MiB

    explicit Dense(int64_t table_mib)
        : keys(static_cast<size_t>(table_mib) << 18),
          arena(fresh_arena(2 * keys * sizeof(float) + 64 * kMiB)),
          table(make_table({.name = "dense", .key_count = keys}, arena, 0)),
          plain(arena.array<float>(keys)) {}

    [[nodiscard]] double bytes() const { return static_cast<double>(keys * sizeof(float)); }

    size_t keys;
    Arena& arena;
    Made table;
    float* plain;
    std::vector<float> deltas = std::vector<float>(kPush, 0.5F);
};

void dense_add(benchmark::State& state) {
    auto& dense = prepared<Dense>(state.range(0));
    constexpr size_t kPush = Dense::kPush;
    run_beside(
        state, dense.bytes(),
        [&] {
            for (size_t key = 0; key < dense.keys; key += kPush)
                WEIR_CHECK(dense.table->push({key, key + kPush}, bytes_of(dense.deltas, kPush)));
        },
        [&] {
            for (size_t key = 0; key < dense.keys; key += kPush)
                limits::add_buffer(dense.plain + key, dense.deltas.data(), kPush);
        });
}

void dense_values(benchmark::State& state) {
    auto& dense = prepared<Dense>(state.range(0));
    constexpr size_t kPush = Dense::kPush;
    std::vector<float> out(kPush);
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    run_beside(
        state, dense.bytes(),
        [&] {
            for (size_t key = 0; key < dense.keys; key += kPush)
                limits::copy_buffer(to, dense.table->values({key, key + kPush})->data(),
                                    kPush * sizeof(float));
        },
        [&] {
            for (size_t key = 0; key < dense.keys; key += kPush)
                limits::copy_buffer(to, reinterpret_cast<std::byte*>(dense.plain + key),
                                    kPush * sizeof(float));
        });
}

/// A sparse table that remembers one list of all its keys, and the slots of the keys for the limit.
struct KnownList {
    explicit KnownList(int64_t key_count)
        : count(static_cast<size_t>(key_count)),
          arena(arena_for_keys(count)),
          table(make_table({.name = "known", .layout = Layout::kSparse}, arena, size_t{1} << 30)),
          deltas(count, 0.5F) {
        std::vector<uint64_t> keys = random_keys(count, 1);
        for (const auto& one : lists_of(keys, count / 100))
            push(*table, one, deltas);
        // The pushed list has all keys in order, so their rows are in random order.
        std::ranges::sort(keys);
        const RowList rows = *table->rows_for_push(keys);
        WEIR_CHECK(rows.remembered != nullptr);
        id = rows.id;
        slots = arena.array<uint32_t>(count);
        std::ranges::copy(rows.rows, slots);
        values = arena.array<float>(count);
    }

    size_t count;
    Arena& arena;
    Made table;
    std::vector<float> deltas;
    decltype(RowList::id) id{};
    uint32_t* slots = nullptr;
    float* values = nullptr;
};

void known_list_add(benchmark::State& state) {
    auto& known = prepared<KnownList>(state.range(0));
    run_beside(
        state, static_cast<double>(known.count),
        [&] {
            WEIR_CHECK(known.table->push(*known.table->known_rows(known.id),
                                         bytes_of(known.deltas, known.count)));
        },
        [&] {
            limits::add_through_slots(known.values, known.slots, known.deltas.data(), known.count);
        });
}

void known_list_pull(benchmark::State& state) {
    auto& known = prepared<KnownList>(state.range(0));
    std::vector<float> out(known.count);
    run_beside(
        state, static_cast<double>(known.count),
        [&] {
            WEIR_CHECK(known.table->pull(*known.table->known_rows(known.id),
                                         std::as_writable_bytes(std::span(out))));
        },
        [&] { limits::read_through_slots(known.values, known.slots, out.data(), known.count); });
}

limits::LineTable limit_table(Arena& arena, size_t key_count) {
    const size_t buckets = limits::line_buckets_for(key_count);
    return limits::LineTable({arena.array<limits::LineTable::Bucket>(buckets), buckets});
}

/// A sparse table, the limit's table with the same keys, and lists that neither has seen.
struct UnseenLists {
    explicit UnseenLists(int64_t key_count)
        : count(static_cast<size_t>(key_count)),
          list_keys(std::min(kListKeys, count / 10)),
          arena(arena_for_keys(count)),
          // The cache is so small that every pushed list is new to the table.
          table(make_table({.name = "unseen", .layout = Layout::kSparse}, arena,
                           list_keys * sizeof(uint32_t))),
          plain(limit_table(arena, count)),
          deltas(list_keys, 0.5F) {
        std::vector<uint64_t> keys = random_keys(count, 2);
        for (const auto& list : lists_of(keys, list_keys)) {
            push(*table, list, deltas);
            plain.add(list, deltas.data());
        }
        Random random(3);
        std::ranges::shuffle(keys, random);
        lists = lists_of(keys, list_keys);
    }

    size_t count;
    size_t list_keys;
    Arena& arena;
    Made table;
    limits::LineTable plain;
    std::vector<float> deltas;
    std::vector<std::vector<uint64_t>> lists;
    size_t next_ours = 0;
    size_t next_limit = 0;
};

void unseen_lists_add(benchmark::State& state) {
    auto& unseen = prepared<UnseenLists>(state.range(0));
    const size_t some = std::min<size_t>(unseen.lists.size(), 10);
    const auto list = [&](size_t & next) -> const auto& {
        return unseen.lists[next++ % unseen.lists.size()];
    };
    run_beside(
        state, static_cast<double>(some * unseen.list_keys),
        [&] {
            for (size_t i = 0; i < some; ++i)
                push(*unseen.table, list(unseen.next_ours), unseen.deltas);
        },
        [&] {
            for (size_t i = 0; i < some; ++i)
                unseen.plain.add(list(unseen.next_limit), unseen.deltas.data());
        });
}

/// A sparse table of wide rows, the limit's table with the same keys, and lists that neither has seen.
struct RuleRows {
    static constexpr size_t kRuleListKeys = 8192;

    RuleRows(int64_t rule, int64_t row_width, int64_t key_count)
        : pushed(pushed_rules().at(static_cast<size_t>(rule))),
          width(static_cast<size_t>(row_width)),
          count(static_cast<size_t>(key_count)),
          arena(fresh_arena(count * (2 * pushed.step.row_floats(width) * sizeof(float) + 140) +
                            64 * kMiB)),
          // The cache is so small that every pushed list is new to the table.
          table(make_table({.name = "rows",
                            .layout = Layout::kSparse,
                            .width = static_cast<uint32_t>(width),
                            .key_count = count,
                            .rule = pushed.rule.name,
                            .parameters = pushed.rule.parameters},
                           arena, kRuleListKeys * sizeof(uint32_t))),
          plain({arena.array<limits::WideTable::Bucket>(limits::line_buckets_for(count)),
                 limits::line_buckets_for(count)},
                arena.array<float>(count * pushed.step.row_floats(width)), width, pushed.step),
          gradients(kRuleListKeys * pushed.step.pushed_floats(width)) {
        std::vector<uint64_t> keys = random_keys(count, 2);
        for (size_t i = 0; i < gradients.size(); ++i)
            gradients[i] = 1.0F / static_cast<float>(3 + i % 1021);
        for (const auto& list : lists_of(keys, kRuleListKeys))
            push(*table, list, gradients, pushed.step.pushed_floats(width));
        plain.insert(keys);
        Random random(3);
        std::ranges::shuffle(keys, random);
        lists = lists_of(keys, kRuleListKeys);
    }

    PushedRule pushed;
    size_t width;
    size_t count;
    Arena& arena;
    Made table;
    limits::WideTable plain;
    std::vector<float> gradients;
    std::vector<std::vector<uint64_t>> lists;
};

/// What `weir bench lookup` pushes, on one core and without messages.
void rule_push(benchmark::State& state) {
    auto& rows = prepared<RuleRows>(state.range(0), state.range(1), state.range(2));
    state.SetLabel(rows.pushed.rule.name);
    run_beside(
        state, static_cast<double>(rows.lists.size() * RuleRows::kRuleListKeys),
        [&] {
            for (const auto& list : rows.lists)
                push(*rows.table, list, rows.gradients, rows.pushed.step.pushed_floats(rows.width));
        },
        [&] {
            for (const auto& list : rows.lists)
                rows.plain.push(list, rows.gradients.data());
        });
}

/// Lists of keys for an empty table.
struct NewKeys {
    explicit NewKeys(int64_t key_count)
        : count(static_cast<size_t>(key_count)),
          list_keys(std::min(kListKeys, count / 10)),
          arena(arena_for_keys(count)),
          lists(lists_of(random_keys(count, 4), list_keys)),
          deltas(list_keys, 0.5F) {}

    size_t count;
    size_t list_keys;
    Arena& arena;
    std::vector<std::vector<uint64_t>> lists;
    std::vector<float> deltas;
};

/// `sized`: the table is created for this number of keys; else it grows.
void inserts(benchmark::State& state, bool sized) {
    auto& all = prepared<NewKeys>(state.range(0));
    Made made;
    run_beside(
        state, static_cast<double>(all.count),
        [&] {
            made = {};
            all.arena.reset();
            made = make_table(
                {.name = "new", .layout = Layout::kSparse, .key_count = sized ? all.count : 0},
                all.arena, all.list_keys * sizeof(uint32_t));
            for (const auto& list : all.lists)
                push(*made, list, all.deltas);
        },
        [&] {
            made = {};
            all.arena.reset();
            limits::LineTable plain = limit_table(all.arena, all.count);
            for (const auto& list : all.lists)
                plain.add(list, all.deltas.data());
        });
}

constexpr size_t kMovedRows = 4096;  ///< at a time

/// A table whose rows are listed, and what they are, for a table that takes them.
struct ListedTable {
    explicit ListedTable(int64_t key_count)
        : new_keys(key_count),
          table(make_table({.name = "listed", .layout = Layout::kSparse}, memory, 0)) {
        for (const auto& list : new_keys.lists)
            push(*table, list, new_keys.deltas);
        for (KeyCursor cursor; !cursor.at_end;) {
            table->list(cursor, PositionSet::whole_ring(), kMovedRows, listed);
            if (!listed.keys.empty()) chunks.push_back(listed.keys);
        }
    }

    [[nodiscard]] double count() const { return static_cast<double>(new_keys.count); }

    void insert_into_limit() {
        new_keys.arena.reset();
        limits::LineTable plain = limit_table(new_keys.arena, new_keys.count);
        for (const auto& list : new_keys.lists)
            plain.add(list, new_keys.deltas.data());
    }

    NewKeys new_keys;
    HeapMemory memory;
    Made table;
    ListedRows listed;
    std::vector<float> values = std::vector<float>(kMovedRows, 1.5F);
    std::vector<std::vector<uint64_t>> chunks;
};

/// The limit inserts as many keys.
void rows_list(benchmark::State& state) {
    auto& all = prepared<ListedTable>(state.range(0));
    run_beside(
        state, all.count(),
        [&] {
            for (KeyCursor cursor; !cursor.at_end;) {
                all.table->list(cursor, PositionSet::whole_ring(), kMovedRows, all.listed);
                all.table->copy_values(all.listed, std::as_writable_bytes(std::span(all.values))
                                                       .first(4 * all.listed.row_count()));
            }
        },
        [&] { all.insert_into_limit(); });
}

void rows_take(benchmark::State& state) {
    auto& all = prepared<ListedTable>(state.range(0));
    Made made;
    run_beside(
        state, all.count(),
        [&] {
            made = {};
            all.new_keys.arena.reset();
            made = make_table({.name = "taken", .layout = Layout::kSparse}, all.new_keys.arena, 0);
            for (const auto& keys : all.chunks)
                WEIR_CHECK(made->take(keys, bytes_of(all.values, keys.size()), {}));
        },
        [&] {
            made = {};
            all.insert_into_limit();
        });
}

/// From one dense table to another, as a shard does that holds both. The limit is memcpy.
void dense_move(benchmark::State& state) {
    auto& dense = prepared<Dense>(state.range(0));
    HeapMemory memory;
    const Made to = make_table({.name = "to", .key_count = dense.keys}, memory, 0);
    ListedRows listed;
    std::vector<float> chunk(1 << 16);
    std::vector<float> plain(dense.keys);
    run_beside(
        state, dense.bytes(),
        [&] {
            for (KeyCursor cursor; !cursor.at_end;) {
                dense.table->list(cursor, PositionSet::whole_ring(), chunk.size(), listed);
                if (listed.row_count() == 0) continue;
                const auto values =
                    std::as_writable_bytes(std::span(chunk)).first(4 * listed.row_count());
                dense.table->copy_values(listed, values);
                WEIR_CHECK(to->take(listed.range, values, {}));
            }
        },
        [&] {
            for (size_t key = 0; key < dense.keys; key += chunk.size())
                limits::copy_buffer(reinterpret_cast<std::byte*>(plain.data() + key),
                                    reinterpret_cast<const std::byte*>(dense.plain + key),
                                    chunk.size() * sizeof(float));
        });
}

/// The limit is memcpy.
void finite_check(benchmark::State& state) {
    const std::vector<float> values(1 << 16, 1.5F);
    std::vector<float> copy(1 << 16);
    constexpr int kTimes = 100;
    bool all = true;
    run_beside(
        state, kTimes * static_cast<double>(values.size() * sizeof(float)),
        [&] {
            for (int i = 0; i < kTimes; ++i)
                all &= all_finite(std::span(values));
        },
        [&] {
            for (int i = 0; i < kTimes; ++i)
                limits::copy_buffer(reinterpret_cast<std::byte*>(copy.data()),
                                    reinterpret_cast<const std::byte*>(values.data()),
                                    values.size() * sizeof(float));
        });
    WEIR_CHECK(all);
}

// Rates are keys per second; bytes per second if the work is dense or an argument is in MiB.
BENCHMARK(finite_check)->UseManualTime();
BENCHMARK(dense_add)->ArgName("table_MiB")->Arg(16)->Arg(512)->UseManualTime();
BENCHMARK(dense_values)->ArgName("table_MiB")->Arg(16)->Arg(512)->UseManualTime();

void key_counts(benchmark::internal::Benchmark* work) {
    work->ArgName("keys")->Arg(100'000)->Arg(1'000'000)->Arg(5'000'000)->UseManualTime();
    work->Unit(benchmark::kMillisecond);
}

BENCHMARK(known_list_add)->Apply(key_counts);
BENCHMARK(known_list_pull)->Apply(key_counts);
BENCHMARK(unseen_lists_add)->Apply(key_counts);
BENCHMARK(rule_push)
    ->ArgNames({"rule", "width", "keys"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 13, 1), {16, 64, 128}, {16384, 1'000'000}})
    ->UseManualTime();
BENCHMARK(rows_list)->Apply(key_counts);
BENCHMARK(rows_take)->Apply(key_counts);
BENCHMARK(dense_move)->ArgName("table_MiB")->Arg(16)->Arg(512)->UseManualTime();
BENCHMARK_CAPTURE(inserts, growing, false)->Apply(key_counts);
BENCHMARK_CAPTURE(inserts, sized, true)->Apply(key_counts);

}  // namespace
}  // namespace weir::bench

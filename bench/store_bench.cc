// SPDX-License-Identifier: Apache-2.0
// Tables against what one core can do at best, both measured in turn in the same run; no messages.
// Usage: store_bench [--brief]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/arena.h"
#include "bench/limits/line_table.h"
#include "bench/limits/memory_work.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/store/finite.h"
#include "lib/store/table.h"

namespace weir::bench {
namespace {

constexpr size_t kListKeys = 100'000;

double median(std::vector<double> numbers) {
    std::ranges::sort(numbers);
    return numbers[numbers.size() / 2];
}

/// The time this thread had a core: what others do on the machine counts as little as it can.
class CpuClock {
public:
    [[nodiscard]] static uint64_t now_ns() noexcept {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
    }
};

template <class Work>
double seconds(Work&& work) {
    const uint64_t begin = CpuClock::now_ns();
    work();
    return static_cast<double>(CpuClock::now_ns() - begin) * 1e-9;
}

/// Times `ours` and `limit` by turns, and prints both as units per second.
template <class Ours, class Limit>
void compare(const std::string& name, double units, const char* unit, int rounds, Ours&& ours,
             Limit&& limit) {
    std::vector<double> a;
    std::vector<double> b;
    for (int round = -1; round < rounds; ++round) {  // the first is for warming up
        const double mine = seconds(ours);
        const double best = seconds(limit);
        if (round < 0) continue;
        a.push_back(units / mine);
        b.push_back(units / best);
    }
    std::vector<double> ratios;
    for (size_t i = 0; i < a.size(); ++i)
        ratios.push_back(a[i] / b[i]);
    fmt::print("{:<38} {:>10.2f} {:>10.2f} {:<8} {:>6.2f}\n", name, median(a), median(b), unit,
               median(ratios));
    std::fflush(stdout);
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

/// Random sorted lists that together hold every key `times` times at most.
std::vector<std::vector<uint64_t>> lists_of(const std::vector<uint64_t>& keys, size_t list_keys) {
    std::vector<std::vector<uint64_t>> lists;
    for (size_t begin = 0; begin + list_keys <= keys.size(); begin += list_keys) {
        lists.emplace_back(keys.begin() + static_cast<ptrdiff_t>(begin),
                           keys.begin() + static_cast<ptrdiff_t>(begin + list_keys));
        std::ranges::sort(lists.back());
    }
    return lists;
}

/// A table, and the lists that it alone remembers.
struct Made {
    TableShard* operator->() const { return table.get(); }

    TableShard& operator*() const { return *table; }

    std::unique_ptr<KeyListCache> lists;
    std::unique_ptr<TableShard> table;
};

Made make_table(const TableSchema& schema, const RuleRegistry& rules, Memory& memory,
                size_t list_cache_bytes) {
    auto lists = std::make_unique<KeyListCache>(memory, list_cache_bytes);
    auto table = *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, *lists);
    return {std::move(lists), std::move(table)};
}

void push(TableShard& table, const std::vector<uint64_t>& list, const std::vector<float>& deltas) {
    WEIR_CHECK(table.push(*table.rows_for_push(list), bytes_of(deltas, list.size())));
}

void dense_add(const RuleRegistry& rules, Arena& arena, bool brief) {
    arena.reset();
    const size_t keys = brief ? 1 << 22 : 1 << 27;  // 512 MiB
    constexpr size_t kPush = 1 << 18;               // 1 MiB
    const auto table = make_table({.name = "dense", .key_count = keys}, rules, arena, 0);
    auto* plain = arena.array<float>(keys);
    const std::vector<float> deltas(kPush, 0.5F);
    const double gigabytes = static_cast<double>(keys) * 4e-9;
    const auto ours = [&] {
        for (size_t key = 0; key < keys; key += kPush)
            WEIR_CHECK(table->push({key, key + kPush}, bytes_of(deltas, kPush)));
    };
    const auto limit = [&] {
        for (size_t key = 0; key < keys; key += kPush)
            limits::add_buffer(plain + key, deltas.data(), kPush);
    };
    compare("dense add, 1 MiB pushes", gigabytes, "GB/s", 9, ours, limit);
    const auto pull = [&] {
        for (size_t key = 0; key < keys; key += kPush)
            limits::copy_buffer(reinterpret_cast<std::byte*>(plain),
                                table->values({key, key + kPush})->data(), kPush * sizeof(float));
    };
    const auto copy = [&] {
        for (size_t key = 0; key < keys; key += kPush)
            limits::copy_buffer(reinterpret_cast<std::byte*>(plain),
                                reinterpret_cast<std::byte*>(plain + key), kPush * sizeof(float));
    };
    compare("dense values, 1 MiB copied out", gigabytes, "GB/s", 9, pull, copy);
}

void known_list(const RuleRegistry& rules, Arena& arena, size_t count, int rounds) {
    arena.reset();
    const auto table =
        make_table({.name = "known", .layout = Layout::kSparse}, rules, arena, size_t{1} << 30);
    std::vector<uint64_t> keys = random_keys(count, 1);
    const std::vector<float> deltas(count, 0.5F);
    for (const auto& list : lists_of(keys, count / 100))
        push(*table, list, deltas);
    // The list that is pushed: all keys by order, so their rows are in none.
    std::ranges::sort(keys);
    const RowList list = *table->rows_for_push(keys);
    WEIR_CHECK(list.remembered != nullptr);
    auto* slots = arena.array<uint32_t>(count);
    std::ranges::copy(list.rows, slots);
    auto* values = arena.array<float>(count);
    const auto repeat = static_cast<int>(std::max<size_t>(1, 2'000'000 / count));
    const double millions = static_cast<double>(count) * repeat * 1e-6;
    compare(
        fmt::format("known list, add, {} keys", count), millions, "M/s", rounds,
        [&] {
            for (int i = 0; i < repeat; ++i)
                WEIR_CHECK(table->push(*table->known_rows(list.id), bytes_of(deltas, count)));
        },
        [&] {
            for (int i = 0; i < repeat; ++i)
                limits::add_through_slots(values, slots, deltas.data(), count);
        });
    std::vector<float> out(count);
    compare(
        fmt::format("known list, pull, {} keys", count), millions, "M/s", rounds,
        [&] {
            for (int i = 0; i < repeat; ++i)
                WEIR_CHECK(table->pull(*table->known_rows(list.id),
                                       std::as_writable_bytes(std::span(out))));
        },
        [&] {
            for (int i = 0; i < repeat; ++i)
                limits::read_through_slots(values, slots, out.data(), count);
        });
}

limits::LineTable limit_table(Arena& arena, size_t key_count) {
    const size_t buckets = limits::LineTable::buckets_for(key_count);
    return limits::LineTable({arena.array<limits::LineTable::Bucket>(buckets), buckets});
}

void unseen_lists(const RuleRegistry& rules, Arena& arena, size_t count, int rounds) {
    arena.reset();
    const size_t list_keys = std::min(kListKeys, count / 10);
    // A cache that holds a few lists: what is pushed is new to it each time.
    const auto table = make_table({.name = "unseen", .layout = Layout::kSparse}, rules, arena,
                                  list_keys * sizeof(uint32_t));
    limits::LineTable plain = limit_table(arena, count);
    std::vector<uint64_t> keys = random_keys(count, 2);
    const std::vector<float> deltas(list_keys, 0.5F);
    for (const auto& list : lists_of(keys, list_keys)) {
        push(*table, list, deltas);
        plain.add(list, deltas.data());
    }
    Random random(3);
    std::ranges::shuffle(keys, random);
    const auto lists = lists_of(keys, list_keys);
    const size_t some = std::min<size_t>(lists.size(), 10);
    size_t mine = 0;
    size_t other = 0;
    compare(
        fmt::format("unseen lists of {}, add, {} keys", list_keys, count),
        static_cast<double>(some * list_keys) * 1e-6, "M/s", rounds,
        [&] {
            for (size_t i = 0; i < some; ++i)
                push(*table, lists[mine++ % lists.size()], deltas);
        },
        [&] {
            for (size_t i = 0; i < some; ++i)
                plain.add(lists[other++ % lists.size()], deltas.data());
        });
}

void inserts(const RuleRegistry& rules, Arena& arena, size_t count, bool presized, int rounds) {
    const size_t list_keys = std::min(kListKeys, count / 10);
    const auto lists = lists_of(random_keys(count, 4), list_keys);
    const std::vector<float> deltas(list_keys, 0.5F);
    Made made;
    compare(
        fmt::format("inserts, {} keys{}", count, presized ? ", sized" : ", growing"),
        static_cast<double>(count) * 1e-6, "M/s", rounds,
        [&] {
            made = {};
            arena.reset();
            made = make_table(
                {.name = "new", .layout = Layout::kSparse, .key_count = presized ? count : 0},
                rules, arena, list_keys * sizeof(uint32_t));
            for (const auto& list : lists)
                push(*made, list, deltas);
        },
        [&] {
            made = {};
            arena.reset();
            limits::LineTable plain = limit_table(arena, count);
            for (const auto& list : lists)
                plain.add(list, deltas.data());
        });
}

void finite(bool brief) {
    const std::vector<float> values(1 << 16, 1.5F);
    std::vector<float> copy(1 << 16);
    const int repeat = brief ? 10 : 4000;
    bool all = true;
    compare(
        "finite check, 256 KiB (limit: memcpy)", repeat * 262144e-9, "GB/s", 9,
        [&] {
            for (int i = 0; i < repeat; ++i)
                all &= all_finite(std::span(values));
        },
        [&] {
            for (int i = 0; i < repeat; ++i)
                limits::copy_buffer(reinterpret_cast<std::byte*>(copy.data()),
                                    reinterpret_cast<const std::byte*>(values.data()), 262144);
        });
    WEIR_CHECK(all);
}

void run(bool brief) {
    const RuleRegistry rules = RuleRegistry::with_builtin_rules();
    Arena arena(brief ? size_t{256} << 20 : size_t{2} << 30);
    fmt::print("{:<38} {:>10} {:>10} {:<8} {:>6}\n", "work, one core", "table", "limit", "",
               "ratio");
    finite(brief);
    dense_add(rules, arena, brief);
    for (const size_t count : {size_t{100'000}, size_t{1'000'000}, size_t{5'000'000}}) {
        if (brief && count > kListKeys) break;
        const int rounds = brief ? 1 : 9;
        known_list(rules, arena, count, rounds);
        unseen_lists(rules, arena, count, rounds);
        inserts(rules, arena, count, false, rounds);
        inserts(rules, arena, count, true, rounds);
    }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
    const bool brief = argc > 1 && std::strcmp(argv[1], "--brief") == 0;
    weir::bench::run(brief);
    return 0;
}

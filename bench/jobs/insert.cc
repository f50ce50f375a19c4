// SPDX-License-Identifier: Apache-2.0
// weir bench insert: pushes to sparse tables, of new keys, of lists that the server remembers,
// and of lists that it has not seen.
#include <algorithm>

#include <fmt/core.h>

#include "bench/jobs/keys.h"
#include "bench/limits/line_table.h"
#include "bench/limits/memory_work.h"
#include "bench/micro/arena.h"
#include "lib/base/random.h"

namespace weir::bench {
namespace {

using limits::LineTable;

/// Random keys in sorted lists of one size, in registered memory, with values for one list.
struct Lists {
    Buffer<uint64_t> keys;  ///< list after list
    Buffer<float> values;
    size_t list_keys = 0;

    [[nodiscard]] size_t count() const { return keys.size() / list_keys; }

    [[nodiscard]] std::span<const uint64_t> list(size_t i) const {
        return keys.span().subspan(i * list_keys, list_keys);
    }

    /// Puts the same keys into other lists.
    void shuffle(Random& random) {
        std::ranges::shuffle(keys.span(), random);
        sort();
    }

    void sort() {
        for (size_t i = 0; i < count(); ++i)
            std::ranges::sort(keys.span().subspan(i * list_keys, list_keys));
    }
};

Result<Lists> make_lists(Client& client, size_t key_count, size_t list_keys, uint64_t seed) {
    const size_t whole = key_count / list_keys * list_keys;
    WEIR_ASSIGN(Buffer<uint64_t> keys, client.make_buffer<uint64_t>(whole));
    WEIR_ASSIGN(Buffer<float> values, client.make_buffer<float>(list_keys));
    for (size_t i = 0; i < whole; ++i)
        keys[i] = mix64(i + 1 + (seed << 40));
    fill_with_updates(values.span());
    Lists lists{std::move(keys), std::move(values), list_keys};
    lists.sort();
    return lists;
}

/// Pushes all lists `times` times and returns the keys per second.
Result<double> push_lists(Table<float>& table, const Lists& lists, size_t times, Flight& flight) {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    for (size_t i = 0; i < lists.count() * times; ++i) {
        WEIR_TRY(flight.room());
        const uint64_t now_ns = clock.now_ns();
        flight.add(table.push(lists.list(i % lists.count()), lists.values.span()), now_ns);
    }
    WEIR_TRY(flight.finish());
    return static_cast<double>(lists.keys.size() * times) * 1e9 /
           static_cast<double>(clock.now_ns() - begin_ns);
}

class InsertBench {
public:
    InsertBench(Client& client, const BenchFlags& flags, BenchReport& report)
        : client_(client),
          flags_(flags),
          report_(report),
          arena_(flags.brief ? size_t{64} << 20 : size_t{512} << 20),
          in_flight_(flags.in_flight == 0 ? 4 : flags.in_flight) {}

    /// `sized`: the table is created for `key_count` keys; otherwise it grows.
    Status new_keys(size_t key_count, size_t list_keys, bool sized);
    Status known_list(size_t key_count);
    Status unseen_lists(size_t key_count, size_t list_keys);

private:
    Result<Table<float>> table(std::string_view name, size_t expected_keys = 0) {
        return client_.create_table<float>(
            name,
            {.layout = Layout::kSparse, .key_count = expected_keys, .filters = flags_.filters});
    }

    /// A table with room for `key_count` keys, in memory that was touched before.
    LineTable limit_table(size_t key_count) {
        const size_t buckets = limits::line_buckets_for(key_count);
        return LineTable({arena_.array<LineTable::Bucket>(buckets), buckets});
    }

    Client& client_;
    const BenchFlags& flags_;
    BenchReport& report_;
    bench::Arena arena_;
    uint32_t in_flight_;
    Random random_{3};
};

Status InsertBench::new_keys(size_t key_count, size_t list_keys, bool sized) {
    WEIR_ASSIGN(const Lists lists, make_lists(client_, key_count, list_keys, 1));
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    const std::string work =
        fmt::format("new keys, {}{}", short_number(key_count), sized ? ", sized" : "");
    Turns turns(work, list_keys, sizeof(float), in_flight_);
    for (int i = 0; i < (flags_.brief ? 1 : 3); ++i) {
        WEIR_ASSIGN(Table<float> fresh,
                    table(fmt::format("{} {}", work, i), sized ? key_count : 0));
        WEIR_ASSIGN(const double ours, push_lists(fresh, lists, 1, turns.flight));
        arena_.reset();
        LineTable plain = limit_table(key_count);
        const double limit = keys_per_s(flags_, lists.keys.size(), [&] {
            for (size_t list = 0; list < lists.count(); ++list)
                plain.add(lists.list(list), lists.values.data());
        });
        turns.add(ours, limit);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    report_.add(turns.row(copied_after - copied_before));
    return {};
}

Status InsertBench::known_list(size_t key_count) {
    // The keys are inserted in short lists. Otherwise the rows of the long list would lie in a
    // few rising runs.
    WEIR_ASSIGN(Lists lists, make_lists(client_, key_count, 8, 2));
    WEIR_ASSIGN(Table<float> table, this->table(fmt::format("known {}", key_count)));
    Flight loading(in_flight_);
    WEIR_TRY(push_lists(table, lists, 1, loading));
    // The row of each key in a table that appends its rows.
    std::vector<std::pair<uint64_t, uint32_t>> places(key_count);
    for (size_t i = 0; i < key_count; ++i)
        places[i] = {lists.keys[i], static_cast<uint32_t>(i)};
    std::ranges::sort(places);
    WEIR_ASSIGN(const Lists all, make_lists(client_, key_count, key_count, 2));
    arena_.reset();
    auto* const slots = arena_.array<uint32_t>(key_count);
    auto* const values = arena_.array<float>(key_count);
    for (size_t i = 0; i < key_count; ++i)
        slots[i] = places[i].second;
    const size_t times =
        std::max<size_t>(2 * in_flight_, (flags_.brief ? 400'000 : 10'000'000) / key_count);
    WEIR_TRY(push_lists(table, all, 2, loading));  // from now on the server remembers the list
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Turns turns("known list", key_count, sizeof(float), in_flight_);
    for (int i = 0; i < flags_.repetitions(); ++i) {
        WEIR_ASSIGN(const double ours, push_lists(table, all, times, turns.flight));
        const double limit = keys_per_s(flags_, key_count * times, [&] {
            for (size_t time = 0; time < times; ++time)
                limits::add_through_slots(values, slots, all.values.data(), key_count);
        });
        turns.add(ours, limit);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    report_.add(turns.row(copied_after - copied_before));
    return {};
}

Status InsertBench::unseen_lists(size_t key_count, size_t list_keys) {
    WEIR_ASSIGN(Lists lists, make_lists(client_, key_count, list_keys, 4));
    const std::string work = fmt::format("unseen lists, {} held", short_number(key_count));
    WEIR_ASSIGN(Table<float> table, this->table(work));
    Flight loading(in_flight_);
    WEIR_TRY(push_lists(table, lists, 1, loading));
    arena_.reset();
    LineTable plain = limit_table(key_count);
    const auto add_all = [&] {
        for (size_t list = 0; list < lists.count(); ++list)
            plain.add(lists.list(list), lists.values.data());
    };
    add_all();
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Turns turns(work, list_keys, sizeof(float), in_flight_);
    for (int i = 0; i < flags_.repetitions(); ++i) {
        lists.shuffle(random_);
        WEIR_ASSIGN(const double ours, push_lists(table, lists, 1, turns.flight));
        turns.add(ours, keys_per_s(flags_, lists.keys.size(), add_all));
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    report_.add(turns.row(copied_after - copied_before));
    return {};
}

}  // namespace

Status bench_insert(Client& client, const BenchFlags& flags, BenchReport& report) {
    InsertBench bench(client, flags, report);
    const size_t few = flags.brief ? 100'000 : 1'000'000;
    const size_t many = flags.brief ? 200'000 : 5'000'000;
    const size_t list_keys = flags.brief ? 20'000 : 100'000;
    for (const size_t keys : {few, many}) {
        WEIR_TRY(bench.new_keys(keys, list_keys, false));
        WEIR_TRY(bench.new_keys(keys, list_keys, true));
    }
    WEIR_TRY(bench.known_list(100'000));
    WEIR_TRY(bench.known_list(many));
    WEIR_TRY(bench.unseen_lists(few, list_keys));
    return bench.unseen_lists(many, list_keys);
}

}  // namespace weir::bench

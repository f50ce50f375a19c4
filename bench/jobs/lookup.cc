// SPDX-License-Identifier: Apache-2.0
// weir bench lookup: wide rows, as in embedding tables, by lists that the server has not seen.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/keys.h"
#include "bench/jobs/pushed_rules.h"
#include "bench/jobs/unseen_lists.h"
#include "bench/limits/wide_table.h"
#include "bench/micro/arena.h"

namespace weir::bench {
namespace {

using limits::WideTable;

constexpr size_t kListKeys = UnseenLists::kListKeys;

class LookupBench {
public:
    LookupBench(Client& client, const BenchFlags& flags, BenchReport& report, size_t list_count)
        : client_(client),
          flags_(flags),
          report_(report),
          list_count_(list_count),
          in_flight_(flags.in_flight == 0 ? 4 : flags.in_flight) {}

    /// `kept`: the values in the table; the limit has float32.
    Status run(uint32_t width, const PushedRule& pushed, bool has_pulls,
               ValueType kept = ValueType::kFloat32);

private:
    template <class Operation, class Limit>
    Status measure(std::string work, size_t row_floats, Operation&& operation, Limit&& limit);

    Client& client_;
    const BenchFlags& flags_;
    BenchReport& report_;
    size_t list_count_;
    uint32_t in_flight_;
    UnseenLists lists_;
};

template <class Operation, class Limit>
Status LookupBench::measure(std::string work, size_t row_floats, Operation&& operation,
                            Limit&& limit) {
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Turns turns(std::move(work), kListKeys, row_floats * sizeof(float), in_flight_);
    for (int i = 0; i < flags_.repetitions(); ++i) {
        lists_.shuffle();
        WEIR_ASSIGN(const double ours, lists_.time(turns.flight, operation));
        turns.add(ours, keys_per_s(flags_, lists_.key_count(), [&] {
                      for (size_t at = 0; at < list_count_; ++at)
                          limit(at);
                  }));
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    report_.add(turns.row(copied_after - copied_before));
    return {};
}

Status LookupBench::run(uint32_t width, const PushedRule& pushed, bool has_pulls, ValueType kept) {
    WEIR_TRY(lists_.make(client_, list_count_));
    const size_t key_count = lists_.key_count();
    TableOptions options{.layout = Layout::kSparse, .key_count = key_count, .width = width};
    options.rule = pushed.rule;
    options.store_as = kept;
    const std::string of_kept = is_narrow(kept) ? fmt::format(", {}", to_string(kept)) : "";
    const std::string name = fmt::format("lookup {} {}{}", pushed.rule.name, width, of_kept);
    options.filters = flags_.filters;
    WEIR_ASSIGN(Table<float> table, client_.create_table<float>(name, options));
    const size_t list_values = kListKeys * width;
    const size_t pushed_floats = kListKeys * pushed.step.pushed_floats(width);
    WEIR_ASSIGN(Buffer<float> gradients, client_.make_buffer<float>(pushed_floats));
    WEIR_ASSIGN(Buffer<float> pulled, client_.make_buffer<float>(in_flight_ * list_values));
    fill_with_updates(gradients.span());
    const auto push = [&](size_t i) { return table.push(lists_.list(i), gradients.span()); };
    const auto pull = [&](size_t i) {
        return table.pull(lists_.list(i),
                          pulled.span().subspan(i % in_flight_ * list_values, list_values));
    };
    // The limit's table has the same keys, with rows in the order of their insertion.
    const size_t buckets = limits::line_buckets_for(key_count);
    const size_t row_floats = pushed.step.row_floats(width);
    bench::Arena arena(buckets * sizeof(WideTable::Bucket) +
                       key_count * row_floats * sizeof(float) + list_values * sizeof(float) +
                       (size_t{8} << 20));
    WideTable ready({arena.array<WideTable::Bucket>(buckets), buckets},
                    arena.array<float>(key_count * row_floats), width, pushed.step);
    auto* const out = arena.array<float>(list_values);
    lists_.shuffle();
    Flight loading(in_flight_);
    WEIR_TRY(lists_.time(loading, push));
    for (size_t i = 0; i < list_count_; ++i)
        ready.insert(lists_.list(i));
    if (has_pulls) {
        WEIR_TRY(measure(fmt::format("pull, width {}{}", width, of_kept), width, pull,
                         [&](size_t i) { ready.pull(lists_.list(i), out); }));
    }
    WEIR_TRY(measure(fmt::format("{} push, width {}{}", pushed.rule.name, width, of_kept),
                     pushed.step.pushed_floats(width), push,
                     [&](size_t i) { ready.push(lists_.list(i), gradients.data()); }));
    return client_.drop_table(name);
}

}  // namespace

Status bench_lookup(Client& client, const BenchFlags& flags, BenchReport& report) {
    LookupBench bench(client, flags, report, flags.brief ? 4 : 1'000'000 / kListKeys);
    const std::vector<PushedRule> rules = pushed_rules();
    for (const uint32_t width : {16, 64, 128}) {
        for (const PushedRule& pushed : rules)
            WEIR_TRY(bench.run(width, pushed, &pushed == &rules.front()));
        const auto sgd = std::ranges::find(
            rules, "sgd", [](const PushedRule& one) { return std::string_view(one.rule.name); });
        WEIR_TRY(bench.run(width, *sgd, true, ValueType::kBFloat16));
    }
    return {};
}

}  // namespace weir::bench

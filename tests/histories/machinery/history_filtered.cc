// SPDX-License-Identifier: Apache-2.0
/// \file
/// Pushes of a history through the selectors that come with Weir, alone and in chains: each worker pushes keys of
/// its own, and what it has pushed is what they show once all that was held back has travelled.

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

const std::vector<Filters>& HistoryWorkers::chains() {
    static const std::vector<Filters> all = [] {
        std::vector<Filters> parsed;
        for (const char* text :
             {"none", "significant=4", "significant-relative=0.5,zeros", "top=200000:400",
              "round=fixed8", "round=fixed16,integers", "round=bfloat16,zeros,compress",
              "significant=2,round=fixed8,integers", "significant-relative=1,top=100000:300,zeros",
              "top=400000:600,round=float16,compress"})
            parsed.push_back(*Filters::parse(text));
        return parsed;
    }();
    return all;
}

/// Of numbers whose sums are exact.
TableSchema HistoryWorkers::filtered_table() {
    const auto width = static_cast<uint32_t>(1 + filtered_random_.below(4));
    if (filtered_random_.below(2) == 0) return sparse_table("filtered", ValueType::kFloat32, width);
    return dense_table("filtered", CountedRounds::kWorkers * kFilteredKeys, ValueType::kFloat32,
                       width);
}

void HistoryWorkers::live_of_filtered(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    std::erase_if(worker.filtered, [&](Filtered& push) {
        if (!client.done(push.id)) return false;
        const Status ended = client.take(push.id);
        if (!has_thrown_) check(ended, "a push through selectors");
        return true;
    });
    if (is_draining_ || has_thrown_ || worker.is_leaving || only_pulls_.contains(number)) return;
    if (filtered_random_.below(is_slow_ ? 240 : 6) == 0) begin_filtered(number);
}

void HistoryWorkers::begin_filtered(uint32_t number) {
    constexpr size_t kOpen = 3;
    constexpr uint64_t kPushesMax = 200;
    Worker& worker = workers_[number];
    if (worker.filtered.size() >= kOpen || worker.pushed_filtered == kPushesMax) return;
    ++worker.pushed_filtered;
    const TableInfo& table = tables_[kFilteredTable];
    const size_t width = table.schema.width;
    Filtered& push = worker.filtered.emplace_back();
    const uint64_t of = 1 + filtered_random_.below(4);
    worker.filtered_sums.resize(kFilteredKeys * width);
    const auto size = static_cast<float>(uint64_t{1} << filtered_random_.below(4));
    for (uint64_t key = 0; key < kFilteredKeys; ++key) {
        if (filtered_random_.below(of) != 0) continue;
        push.keys.push_back(number * kFilteredKeys + key);
        for (size_t i = 0; i < width; ++i) {
            const auto drawn = static_cast<float>(filtered_random_.below(2001)) - 1000;
            push.values.push_back(filtered_random_.below(3) == 0 ? 0 : drawn * size * 0x1p-10F);
            worker.filtered_sums[key * width + i] += push.values.back();
        }
    }
    Operation operation;
    operation.table = &table;
    operation.keys = push.keys;
    operation.values = std::as_bytes(std::span(push.values));
    operation.row_bytes = table.pushed_row_bytes;
    operation.options.filters = &chains()[filtered_random_.below(chains().size())];
    push.id = cluster_.workers[number]->start({std::move(operation)});
    ++counts_.filtered;
    counts_.held_of_filters += cluster_.workers[number]->held_count(table.schema.id);
}

/// At the end, by the first worker: those of all that have not died, and hold nothing.
void HistoryWorkers::check_filtered() {
    const TableInfo& table = tables_[kFilteredTable];
    for (uint32_t number = 0; number < workers_.size(); ++number) {
        const Worker& worker = workers_[number];
        if (worker.has_died || worker.pushed_filtered == 0) continue;
        std::vector<uint64_t> keys(kFilteredKeys);
        for (uint64_t key = 0; key < kFilteredKeys; ++key)
            keys[key] = number * kFilteredKeys + key;
        std::vector<float> values(worker.filtered_sums.size());
        const auto call =
            cluster_.workers[0]->pull(table, keys, std::as_writable_bytes(std::span(values)), {});
        INFO("worker " << number << "\n" << events_.text());
        REQUIRE(cluster_.finish(0, call).has_value());
        for (size_t i = 0; i < values.size(); ++i) {
            INFO("value " << i % table.schema.width << " of key " << keys[i / table.schema.width]);
            REQUIRE(values[i] == worker.filtered_sums[i]);
        }
    }
}

}  // namespace weir::test

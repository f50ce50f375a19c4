// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows that end in a history: each worker pushes keys of its own, erases them and lets them expire, and looks
/// at them when none of its changes is open.

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

TableSchema HistoryWorkers::endings_table() {
    TableSchema schema = sparse_table("endings", ValueType::kUInt64,
                                      static_cast<uint32_t>(1 + endings_random_.below(3)));
    schema.erasable = true;
    schema.initial_value = static_cast<double>(EndingRows::kFirstValue);
    return schema;
}

void HistoryWorkers::live_of_endings(uint32_t number) {
    Worker& worker = workers_[number];
    std::erase_if(worker.endings, [&](Ending& ending) { return end(number, ending); });
    if (is_draining_ || has_thrown_ || worker.is_leaving || only_pulls_.contains(number)) return;
    if (endings_random_.below(is_slow_ ? 240 : 6) == 0) begin_ending(number);
}

void HistoryWorkers::begin_ending(uint32_t number) {
    using Kind = EndingRows::Kind;
    constexpr size_t kOpen = 3;
    Worker& worker = workers_[number];
    const bool looks = worker.endings.empty() && endings_random_.below(3) == 0;
    const bool is_looked_at = !worker.endings.empty() && worker.endings.front().looks;
    if (worker.endings.size() >= kOpen || is_looked_at) return;
    while (endings_.size() <= number)
        endings_.emplace_back(endings_.size() * EndingRows::kKeys);
    Ending& ending = worker.endings.emplace_back();
    ending.looks = looks;
    ending.asks_written = looks && endings_random_.below(2) == 0;
    const uint64_t of = endings_random_.below(2) == 0 ? 1 : 1 + endings_random_.below(8);
    for (uint64_t key = 0; key < EndingRows::kKeys; ++key) {
        if (endings_random_.below(of) == 0) ending.keys.push_back(number * EndingRows::kKeys + key);
    }
    const TableInfo& table = tables_[kEndingsTable];
    Operation operation;
    operation.table = &table;
    operation.keys = ending.keys;
    if (looks) {
        operation.kind = wire::Kind::kPull;
        operation.asks_written = ending.asks_written;
        operation.out_row_bytes = ending.asks_written ? 1 : table.row_bytes;
        ending.out.resize(ending.keys.size() * operation.out_row_bytes);
        operation.out = ending.out;
    } else {
        EndingRows::Change change;
        const uint64_t drawn = endings_random_.below(5);
        change.kind = drawn < 2 ? Kind::kPush : drawn < 3 ? Kind::kErase : Kind::kExpire;
        change.stamp = 1 + static_cast<uint32_t>(endings_random_.below(EndingRows::kStampsMax));
        ending.change = endings_[number].begin(ending.keys, change);
        if (change.kind == Kind::kPush) {
            ending.values.assign(ending.keys.size() * table.schema.width, 1);
            operation.values = std::as_bytes(std::span(ending.values));
            operation.row_bytes = table.pushed_row_bytes;
            operation.options.stamp = change.stamp;
        } else {
            operation.erases = true;
            if (change.kind == Kind::kExpire) operation.before = change.stamp;
            ++counts_.erasures;
        }
    }
    ending.id = cluster_.workers[number]->start({std::move(operation)});
}

bool HistoryWorkers::end(uint32_t number, Ending& ending) {
    ClientCore& client = *cluster_.workers[number];
    if (!client.done(ending.id)) return false;
    const Status ended = client.take(ending.id);
    if (has_thrown_ && !ended) return true;
    check(ended, ending.looks ? "a look at rows that end" : "a change of rows that end");
    if (ending.looks) {
        look_at(number, ending);
    } else {
        endings_[number].acknowledged(ending.change);
    }
    return true;
}

void HistoryWorkers::look_at(uint32_t number, const Ending& ending) {
    const EndingRows& rows = endings_[number];
    const size_t width = tables_[kEndingsTable].schema.width;
    const auto* const values = reinterpret_cast<const uint64_t*>(ending.out.data());
    INFO("worker " << number << "\n" << events_.text());
    for (size_t i = 0; i < ending.keys.size(); ++i) {
        if (ending.asks_written) {
            rows.check_written(ending.keys[i], ending.out[i] != std::byte{0});
            continue;
        }
        rows.check(ending.keys[i], values[i * width]);
        REQUIRE(values[i * width] == values[(i + 1) * width - 1]);
    }
}

/// At the end, by the first worker: those of all of them, whose changes have ended.
void HistoryWorkers::check_endings() {
    const TableInfo& table = tables_[kEndingsTable];
    for (uint32_t number = 0; number < endings_.size(); ++number) {
        for (const bool asks_written : {false, true}) {
            Ending ending;
            ending.asks_written = asks_written;
            for (uint64_t key = 0; key < EndingRows::kKeys; ++key)
                ending.keys.push_back(number * EndingRows::kKeys + key);
            Operation operation;
            operation.table = &table;
            operation.kind = wire::Kind::kPull;
            operation.keys = ending.keys;
            operation.asks_written = asks_written;
            operation.out_row_bytes = asks_written ? 1 : table.row_bytes;
            ending.out.resize(ending.keys.size() * operation.out_row_bytes);
            operation.out = ending.out;
            const auto call = cluster_.workers[0]->start({std::move(operation)});
            REQUIRE(cluster_.finish(0, call).has_value());
            look_at(number, ending);
        }
    }
}

}  // namespace weir::test

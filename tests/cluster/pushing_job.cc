// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/pushing_job.h"

#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include "tests/cluster/row_rules.h"

namespace weir::test {
namespace {

constexpr std::array<uint64_t, 2> kLogPeriods = {2, 100};  ///< in turns of the worker

TableSchema rounds_table(Layout layout, uint32_t max_delay) {
    TableSchema schema = table_of(layout, "rounds", kRoundKeys, ValueType::kUInt64);
    schema.max_delay = max_delay;
    schema.rule = "iterations_in_order";
    return schema;
}

TableSchema log_table(size_t log) {
    TableSchema schema = table_of(Layout::kSparse, kLogs[log], 0, ValueType::kFloat64);
    schema.rule = "assign";
    if (log > 0) schema.initial_value = kLogBegin;
    return schema;
}

TableSchema endings_table() {
    TableSchema schema = table_of(Layout::kSparse, kEndings, 0, ValueType::kBFloat16);
    schema.rule = "assign";
    schema.erasable = true;
    return schema;
}

struct Change {
    bool erases = false;
    uint64_t key = 0;  ///< of the worker's
};

/// A key that was pushed is erased 20 pushes later. At first they are erased that were never pushed.
Change change_of_endings(uint64_t number) {
    constexpr uint64_t kLater = 20;
    const bool erases = number % 2 == 1;
    const uint64_t turn = number / 2 + (erases ? kEndingKeys - kLater : 0);
    return {erases, turn % kEndingKeys};
}

/// As with_iteration().
struct IterationsInOrder : JudgedRow {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return sizeof(uint32_t);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext& context) {
        const uint32_t steps = ++*row.template state_at<uint32_t>(0);
        row.values[0] = 3 * row.values[0] + row.key * steps +
                        row.pushed[0] * static_cast<uint64_t>(context.arguments.value[0]);
    }
};

/// The argument of all parts of an iteration; 1: none is given.
uint64_t factor_of(uint64_t iteration) {
    return 1 + iteration % 3;
}

}  // namespace

uint64_t with_iteration(uint64_t value, uint64_t key, uint64_t iteration, uint64_t parts) {
    return 3 * value + key * iteration + parts * factor_of(iteration);
}

std::vector<bool> written_after(uint64_t changes) {
    std::vector<bool> written(kEndingKeys);
    for (uint64_t number = 0; number < changes; ++number) {
        const Change change = change_of_endings(number);
        written[change.key] = !change.erases;
    }
    return written;
}

size_t count_logged(size_t log, const std::vector<uint64_t>& keys,
                    const std::vector<uint64_t>& values) {
    const InitialRows begin(log > 0 ? kLogBegin : InitialValue(), ValueType::kFloat64, 1);
    size_t count = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        double untouched = 0;
        begin.fill(keys[i], reinterpret_cast<std::byte*>(&untouched));
        const bool is_logged = values[i] == std::bit_cast<uint64_t>(1.0);
        CAPTURE(i);
        CHECK((is_logged || values[i] == std::bit_cast<uint64_t>(untouched)));
        if (!is_logged) continue;
        CHECK(count == i);  // the worker has pushed one key after the other
        ++count;
    }
    return count;
}

uint64_t part(uint64_t worker, uint64_t iteration, uint64_t key) {
    return mix64(worker * 1'000'003 + iteration * 7919 + key) >> 20;
}

std::vector<uint64_t> all_keys(uint64_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i)
        keys[i] = i;
    return keys;
}

std::vector<uint64_t> pull(SimCluster& cluster, const TableInfo& table,
                           const std::vector<uint64_t>& keys) {
    std::vector<uint64_t> values(keys.size());
    const auto call =
        cluster.workers[0]->pull(table, keys, std::as_writable_bytes(std::span(values)), {});
    REQUIRE(cluster.finish(0, call));
    return values;
}

PushingJob::PushingJob(Random& random, const SimShape& shape,
                       const transport::sim::Options& network, Layout layout, uint32_t max_delay)
    : random_(random), cluster_(random(), shape, network) {
    REQUIRE(cluster_.rules.register_rule<IterationsInOrder>("iterations_in_order").has_value());
    REQUIRE(cluster_.start());
    for (uint32_t i = 0; i < shape.workers; ++i) {
        auto rounds = cluster_.make_table(i, rounds_table(layout, max_delay));
        REQUIRE_MESSAGE(rounds, rounds.error().text());
        Worker& worker = workers_.emplace_back();
        worker.rounds = *std::move(rounds);
        for (size_t log = 0; log < kLogs.size(); ++log) {
            auto table = cluster_.make_table(i, log_table(log));
            REQUIRE_MESSAGE(table, table.error().text());
            worker.logs[log].table = *std::move(table);
        }
        auto endings = cluster_.make_table(i, endings_table());
        REQUIRE_MESSAGE(endings, endings.error().text());
        worker.endings.table = *std::move(endings);
        worker.period = 1 + random.below(12);
        worker.next = *cluster_.workers[i]->next_iteration(worker.rounds.schema.id);
        worker.acknowledged = worker.next - 1;
        worker.window = worker.rounds.schema.window();
    }
}

void PushingJob::step() {
    for (uint32_t i = 0; i < workers_.size(); ++i) {
        settle(i);
        if (random_.below(workers_[i].period) == 0) push(i);
    }
    (void)cluster_.step();
}

void PushingJob::settle(uint32_t i) {
    Worker& worker = workers_[i];
    ClientCore& client = *cluster_.workers[i];
    while (!worker.open.empty() && client.done(worker.open.front().call)) {
        const Status pushed = client.take(worker.open.front().call);
        REQUIRE_MESSAGE(pushed, pushed.error().text());
        worker.open.pop_front();
        ++worker.acknowledged;
    }
    const auto settle_log = [&](Worker::Log& log) {
        if (!log.push || !client.done(log.push->call)) return;
        REQUIRE(client.take(log.push->call));
        log.push.reset();
        ++log.logged;
    };
    std::ranges::for_each(worker.logs, settle_log);
    settle_log(worker.endings);
}

void PushingJob::push(uint32_t i) {
    Worker& worker = workers_[i];
    for (size_t n = 0; n < kLogs.size(); ++n) {
        Worker::Log& log = worker.logs[n];
        if (log.push || random_.below(kLogPeriods[n]) != 0) continue;
        log.push = Worker::Open();  // not emplace(): clang 14 does not take it
        log.push->keys = {i * kLogKeys + log.started++};
        log.push->values = {std::bit_cast<uint64_t>(1.0)};
        log.push->call = cluster_.workers[i]->push(log.table, log.push->keys,
                                                   std::as_bytes(std::span(log.push->values)), {});
    }
    change_endings(i);
    push_iteration(i);
}

void PushingJob::change_endings(uint32_t i) {
    Worker::Log& log = workers_[i].endings;
    if (log.push) return;
    const Change change = change_of_endings(log.started++);
    log.push = Worker::Open();
    log.push->keys = {i * kEndingKeys + change.key};
    Operation operation;
    operation.table = &log.table;
    operation.keys = log.push->keys;
    operation.erases = change.erases;
    if (!change.erases) {
        log.push->values = {std::bit_cast<uint32_t>(kEndingValue)};
        operation.row_bytes = log.table.pushed_row_bytes;
        operation.values = std::as_bytes(std::span(log.push->values)).first(operation.row_bytes);
    }
    log.push->call = cluster_.workers[i]->start({std::move(operation)});
}

void PushingJob::push_iteration(uint32_t i) {
    Worker& worker = workers_[i];
    if (worker.open.size() >= worker.window) return;
    Worker::Open& open = worker.open.emplace_back();
    open.keys = all_keys(kRoundKeys);
    for (const uint64_t key : open.keys)
        open.values.push_back(part(i, worker.next, key));
    const NamedNumber factor{"factor", static_cast<double>(factor_of(worker.next))};
    CallOptions options{worker.next};
    if (factor.value != 1 || random_.below(2) == 0) options.arguments = std::span(&factor, 1);
    open.call = cluster_.workers[i]->push(worker.rounds, open.keys,
                                          std::as_bytes(std::span(open.values)), options);
    ++worker.next;
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_workers.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/cluster/equal_copies.h"
#include "tests/filter/shorn_codec.h"

namespace weir::test {
namespace {

constexpr size_t kCallsOpen = 3;  ///< of a worker in the counted tables
/// A call ends with its deadline, but when its memory is in reach of a server: that connection is closed
/// first, once it is 100 ms old, which takes a round trip and maybe its repetition.
constexpr uint64_t kLateNs = kSecond;
constexpr uint32_t kLateTurns = 20;  ///< and so often a worker must have been polled
constexpr uint64_t kGraveValue = 0x5a5a'5a5a'5a5a'5a5a;
constexpr size_t kGravesMax = 30;
constexpr uint64_t kSlowness = 40;  ///< so many times fewer calls begin while workers are slow

}  // namespace

void HistoryWorkers::start() {
    const auto width = static_cast<uint32_t>(1 + random_.below(3) * random_.below(20));
    TableSchema rounds = table_of(random_.below(2) == 0 ? Layout::kDense : Layout::kSparse,
                                  "rounds", kKeys, ValueType::kUInt64);
    rounds.rule = "rounds_in_order";
    if (cluster_.shape().replicas > 0 && random_.below(2) == 0) rounds.rule = "rounds_with_state";
    rounds.max_delay = static_cast<uint32_t>(random_.below(3));
    TableSchema dense = table_of(Layout::kDense, "dense", kKeys, ValueType::kUInt64, width);
    TableSchema sparse = table_of(Layout::kSparse, "sparse", kKeys, ValueType::kUInt64, width);
    if (random_.below(2) == 0) dense.rule = "add_with_state";
    if (random_.below(2) == 0) sparse.rule = "add_with_state";
    Random aside = random_;  // so that the others are the same histories
    if (aside.below(2) == 0) common_keys_ = some_keys(20 + aside.below(80));
    TableSchema steps = table_of(aside.below(2) == 0 ? Layout::kDense : Layout::kSparse, "steps",
                                 kKeys, ValueType::kFloat64, StepsByRow::kWidth);
    steps.rule = CountedTable::kByRow;
    const InitialValue initial[] = {0.5, uniform(-3, 5, aside()), normal(1, 0.25, aside())};
    steps.initial_value = initial[aside.below(std::size(initial))];
    if (aside.below(2) == 0) {
        rounds.rule = "rounds_by_row";
        rounds.width = RoundsByRow::kWidth;
    }
    if (aside.below(2) == 0) {
        NarrowCounts::make(aside.below(2) == 0 ? dense : sparse,
                           aside.below(2) == 0 ? ValueType::kBFloat16 : ValueType::kFloat16);
    }
    endings_random_ = Random(aside());
    filters_.emplace(aside());
    filtered_random_ = Random(aside());
    functions_random_ = Random(aside());
    functions_.emplace(cluster_, events_, counts_, aside());
    REQUIRE(cluster_.rules.register_codec(ShornCodec::kName, std::make_shared<ShornCodec>()));
    for (TableSchema schema : {dense, sparse, steps, rounds, endings_table(), filtered_table()}) {
        schema.codec = ShornCodec::kName;
        auto made = cluster_.make_table(0, schema);
        REQUIRE(made.has_value());
        tables_.push_back(*std::move(made));
        if (tables_.size() <= kRoundsTable) counted_.emplace_back(schema, kKeys);
    }
    functions_->start();
    workers_.resize(cluster_.workers.size());
    for (Worker& worker : workers_)
        worker.is_ready = true;
    if (cluster_.shape().replicas == 0) return;
    for (CountedTable& counted : counted_)
        counted.take_back();
}

void HistoryWorkers::add() {
    if (workers_.size() >= CountedRounds::kWorkers) return;
    Worker& worker = workers_.emplace_back();
    worker.has_iterations = random_.below(4) != 0;
    (void)cluster_.add_joining_worker(worker.has_iterations);
    events_.add("worker {} asks to join", workers_.size() - 1);
    ++counts_.workers_joined;
}

void HistoryWorkers::remove() {
    if (workers_.size() < 2) return;  // the first one looks at everything in the end
    const size_t number = 1 + random_.below(workers_.size() - 1);
    Worker& worker = workers_[number];
    if (!worker.is_ready || worker.is_leaving || worker.has_died) return;
    worker.is_leaving = true;
    worker.leaves_open = random_.below(2) == 0;
    events_.add("a worker is to leave{}", worker.leaves_open ? ", with what it has open" : "");
    ++counts_.workers_left;
    if (!worker.leaves_open || (worker.calls.empty() && worker.rounds.empty())) return;
    ++counts_.left_with_calls;
    drop_some(worker, *cluster_.workers[number]);
}

bool HistoryWorkers::kill(uint32_t number) {
    Worker& worker = workers_[number];
    if (worker.has_left || worker.has_died) return false;
    for (Call& call : worker.calls) {
        for (Call* one = &call; one != nullptr; one = one->also.get()) {
            if (!one->is_push) continue;
            CountedTable& counted = counted_[one->table];
            counted.give_up_push(one->pushed_keys(), one->pushed_values(counted.width()));
        }
    }
    for (const Round& round : worker.rounds) {
        if (round.is_push) rounds_.give_up_push(round.iteration, round.pushed_keys(), round.bits);
    }
    for (const FailedPart& part : worker.failed)
        rounds_.give_up_push(part.iteration, part.keys, part.bits);
    worker.has_died = true;
    events_.add("worker {} dies", number);
    ++counts_.workers_died;
    return true;
}

void HistoryWorkers::live(uint32_t number) {
    Worker& worker = workers_[number];
    if (worker.has_died) return;
    ClientCore& client = *cluster_.workers[number];
    if (worker.has_left || cluster_.stopped.contains(&client)) return;
    if (!worker.is_ready) {
        if (!client.ready()) return;
        worker.is_ready = true;
        events_.add("worker {} has joined as {}", number, client.worker());
    }
    std::erase_if(worker.calls, [&](Call& call) { return end(number, call); });
    std::erase_if(worker.rounds, [&](Round& round) { return end(number, round); });
    live_of_endings(number);
    live_of_filtered(number);
    live_of_functions(number);
    if (has_thrown_) return;
    if (worker.is_leaving) return leave(number);
    const uint64_t slowness = is_slow_ && !is_draining_ ? kSlowness : 1;
    const size_t calls_open = only_pulls_.contains(number) ? 4 * kCallsOpen : kCallsOpen;
    if (!is_draining_ && worker.calls.size() < calls_open && random_.below(4 * slowness) == 0) {
        begin(number, worker.calls.emplace_back());
    }
    if (only_pulls_.contains(number) && !is_draining_) return;
    if (is_draining_ && worker.calls.empty() && flush(number)) return;
    if (random_.below(12 * slowness) == 0 || is_draining_) begin_round(number);
}

void HistoryWorkers::live_of_functions(uint32_t number) {
    const Worker& worker = workers_[number];
    const bool may_begin =
        !is_draining_ && !has_thrown_ && !worker.is_leaving && !only_pulls_.contains(number);
    const bool begins = may_begin && functions_random_.below(is_slow_ ? 240 : 6) == 0;
    functions_->live(number, begins, !has_thrown_);
}

/// As Client::leave(): waits for its pushes and pulls, whether it asks for their outcomes or not.
void HistoryWorkers::leave(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    const bool has_calls = !worker.calls.empty() || !worker.rounds.empty() || has_others(number);
    if (worker.leave == 0) {
        if (worker.leaves_open ? client.has_open_values() : has_calls) return;
        if (flush(number)) return;
        worker.leave = client.leave({}, 0);
    }
    if (!client.done(worker.leave)) return;
    INFO(events_.text());
    REQUIRE_FALSE(has_calls);
    check(client.take(worker.leave), "a leave");
    worker.has_left = true;
    events_.add("worker {} has left", client.worker());
}

/// Who leaves may have forgotten its tasks. They count as if it had not.
void HistoryWorkers::drop_some(Worker& worker, ClientCore& client) {
    for (Call& call : worker.calls) {
        const bool pulls = !call.is_push || (call.also != nullptr && !call.also->is_push);
        if (pulls || call.is_hurried || call.after != 0 || random_.below(3) != 0) continue;
        client.drop(call.id);
        for (Call* one = &call; one != nullptr; one = one->also.get())
            one->is_dropped = true;
    }
}

std::vector<uint64_t> HistoryWorkers::some_keys(uint64_t count) {
    std::set<uint64_t> chosen;
    while (chosen.size() < count)
        chosen.insert(random_.below(kKeys));
    return {chosen.begin(), chosen.end()};
}

/// A range, if the table has some; one of the worker's long lists, again and again; or a new list.
void HistoryWorkers::choose_keys(Worker& worker, Layout layout, uint64_t count_max,
                                 Transfer& transfer) {
    transfer.is_range = layout == Layout::kDense && random_.below(2) == 0;
    if (transfer.is_range) {
        const uint64_t first = random_.below(kKeys);
        const uint64_t end = first + 1 + random_.below(kKeys - first);
        for (uint64_t key = first; key < end; ++key)
            transfer.keys.push_back(key);
    } else if (random_.below(2) == 0) {
        while (worker.lists.size() < 3)
            worker.lists.push_back(some_keys(20 + random_.below(80)));
        transfer.keys = worker.lists[random_.below(3)];
    } else {
        transfer.keys = some_keys(1 + random_.below(count_max));
    }
}

/// For a pull by one server, which must not answer without a lease: mostly one that was just pushed, maybe
/// to a server that has taken over.
void HistoryWorkers::choose_one_key(Call& call) {
    if (acknowledged_.empty() || random_.below(4) == 0) {
        call.keys = some_keys(1);
        return;
    }
    const auto [table, key] = acknowledged_[random_.below(acknowledged_.size())];
    call.table = table;
    call.keys = {key};
}

void HistoryWorkers::note_acknowledged(const Call& call) {
    constexpr size_t kSome = 16;
    if (call.keys.empty()) return;
    acknowledged_.emplace_back(call.table, call.keys[call.id % call.keys.size()]);
    if (acknowledged_.size() > kSome) acknowledged_.pop_front();
}

void HistoryWorkers::make_room(uint32_t number, Transfer& transfer, size_t count) {
    if (random_.below(3) == 0) {
        transfer.plain.resize(count);
    } else if (count > 0) {
        transfer.block = Block(cluster_.memory_of(number), count * sizeof(uint64_t));
    }
}

void HistoryWorkers::begin(uint32_t number, Call& call) {
    ClientCore& client = *cluster_.workers[number];
    call.table = random_.below(kRoundsTable);
    call.is_push = random_.below(5) != 0 && !only_pulls_.contains(number);
    choose(number, call);
    if (!only_pulls_.contains(number) && random_.below(4) == 0) choose_second(number, call);
    CallOptions options;
    call.is_hurried = random_.below(40) == 0;
    if (call.is_hurried) options.deadline_ns = (1 + random_.below(3000)) * kMicrosecond;
    call.due_ns = clock_of(number).now_ns() + options.deadline_ns;
    const TaskId before = some_call_before(number, call);
    if (before != kNoTask) options.after = std::span(&before, 1);
    call.is_alone = call.also == nullptr && !call.wants_values;
    if (call.is_alone) {
        const Operation one = operation_of(number, call, options);
        const size_t count = call.keys.size() * counted_[call.table].width();
        call.id = send(client, tables_[call.table], call, count, one.options);
        return;
    }
    std::vector<Operation> operations{operation_of(number, call, options)};
    if (call.also != nullptr) operations.push_back(operation_of(number, *call.also, options));
    call.id = client.start(std::move(operations));
    if (call.also == nullptr) return;
    call.also->id = call.id;
    call.also->due_ns = call.due_ns;
    call.also->is_hurried = call.is_hurried;
    call.also->after = call.after;
}

/// Its keys, and what a push brings. One that may not push pulls.
void HistoryWorkers::choose(uint32_t number, Call& call) {
    if (only_pulls_.contains(number)) {
        choose_one_key(call);
    } else {
        choose_keys(workers_[number], tables_[call.table].schema.layout, 6, call);
    }
    CountedTable& counted = counted_[call.table];
    call.is_push = call.is_push && counted.may_push(call.keys);
    call.wants_values = call.is_push && random_.below(4) == 0;
    const size_t count = call.keys.size() * counted.width();
    make_room(number, call, count);
    if (call.wants_values) make_room(number, call.out, count);
    events_.add("worker {}: a {}{} of {} keys from {} of table {}", number,
                call.is_push ? "push" : "pull", call.wants_values ? ", and pull," : "",
                call.keys.size(), call.keys[0], call.table);
}

/// In another table, which may be of another layout.
void HistoryWorkers::choose_second(uint32_t number, Call& call) {
    auto also = std::make_unique<Call>();
    also->table = (call.table + 1 + random_.below(kRoundsTable - 1)) % kRoundsTable;
    also->is_push = call.is_push;
    choose(number, *also);
    call.also = std::move(also);
    ++counts_.calls_of_two;
}

/// The call begins to count.
Operation HistoryWorkers::operation_of(uint32_t number, Call& call, const CallOptions& options) {
    CountedTable& counted = counted_[call.table];
    const size_t count = call.keys.size() * counted.width();
    CallOptions its = options;
    if (!call.is_push || call.wants_values) call.before = counted.begin_pull();
    if (call.is_push) {
        const uint64_t factor = counted.is_by_row() ? 1 + random_.below(3) : 1;
        if (counted.is_by_row()) its.arguments = some_factor(factor);
        its.filters = some_filters(number, call, factor);
        if (!call.is_selected) counted.begin_push(call.keys, call.values(count), factor);
        ++counts_.pushes;
    } else {
        its.filters = filters_->draw_lossless().filters;
        const ValueType type = tables_[call.table].schema.value_type;
        call.is_narrow = is_narrow(type) && call.keys.size() % 2 == 0;
        if (call.is_narrow) its.out_type = type;
        if (is_narrow(type)) ++counts_.narrow_pulls;
    }
    Operation operation = operation_of(tables_[call.table], call, count, its);
    if (!call.wants_values) return operation;
    operation.out = std::as_writable_bytes(call.out.values(count));
    operation.out_row_bytes = tables_[call.table].row_bytes;
    ++counts_.push_pulls;
    return operation;
}

/// Those of a push. If some of its keys stay behind, it is made here, and `sent_keys` are those that travel. What
/// does not travel is no number that the judge knows, or what it knows to be held.
const Filters* HistoryWorkers::some_filters(uint32_t number, Call& call, uint64_t factor) {
    CountedTable& counted = counted_[call.table];
    const bool is_alone = call.is_alone && call.after == 0;
    const HistoryFilters::Drawn drawn =
        filters_->draw(!call.wants_values, counted.is_plain() && is_alone);
    if (!drawn.choice) return drawn.filters;
    ++counts_.selected;
    call.is_selected = true;
    const size_t width = counted.width();
    const std::span<uint64_t> values = call.values(call.keys.size() * width);
    std::ranges::fill(values, kGraveValue);
    std::vector<uint64_t> issued;
    for (const uint64_t key : call.keys) {
        if (drawn.choice->holds || drawn.choice->travels(key)) issued.push_back(key);
    }
    std::vector<uint64_t> bits(issued.size() * width);
    counted.begin_push(issued, bits, factor);
    HeldBits& held = workers_[number].held[call.table];
    size_t next = 0;
    for (size_t i = 0; i < call.keys.size(); ++i) {
        const uint64_t key = call.keys[i];
        if (next == issued.size() || issued[next] != key) continue;
        const auto row = std::span(bits).subspan(next++ * width, width);
        std::ranges::copy(row, values.begin() + static_cast<ptrdiff_t>(i * width));
        if (drawn.choice->holds) row[0] |= std::exchange(held[key], 0);
        if (!drawn.choice->travels(key)) {
            held[key] = row[0];
            continue;
        }
        if (drawn.choice->holds) std::ranges::fill(row, row[0]);
        call.sent_keys.push_back(key);
        call.sent_values.insert(call.sent_values.end(), row.begin(), row.end());
    }
    return drawn.filters;
}

/// All that is held travels. False: nothing is held.
bool HistoryWorkers::flush(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    bool has_flushed = false;
    const bool holds_rounds = client.held_count(tables_[kRoundsTable].schema.id) > 0;
    const bool holds_filtered = client.held_count(tables_[kFilteredTable].schema.id) > 0;
    // Which part would take it along?
    if (holds_rounds && has_open_part(worker)) return false;
    std::vector<ClientCore::CallId> calls = client.flush();
    worker.takes_along = holds_rounds;
    auto next = calls.begin();
    for (size_t t = 0; t < kRoundsTable; ++t) {
        if (client.held_count(tables_[t].schema.id) > 0) FAIL("a flush that holds on");
        HeldBits held = std::exchange(worker.held[t], {});
        std::erase_if(held, [](const auto& one) { return one.second == 0; });
        if (held.empty()) continue;
        has_flushed = true;
        REQUIRE(next != calls.end());
        Call& call = worker.calls.emplace_back();
        call.table = t;
        call.is_push = call.is_selected = true;
        call.id = *next++;
        call.due_ns = ~uint64_t{0};
        for (const auto& [key, bits] : held) {
            call.sent_keys.push_back(key);
            call.sent_values.insert(call.sent_values.end(), counted_[t].width(), bits);
        }
        events_.add("worker {} flushes {} keys of table {}", number, held.size(), t);
        ++counts_.flushes;
    }
    if (holds_filtered) {
        has_flushed = true;
        REQUIRE(next != calls.end());
        worker.filtered.emplace_back().id = *next++;
    }
    REQUIRE(next == calls.end());
    return has_flushed;
}

Operation HistoryWorkers::operation_of(const TableInfo& table, Transfer& transfer, size_t count,
                                       const CallOptions& options) {
    Operation operation;
    operation.table = &table;
    operation.kind = transfer.is_push ? wire::Kind::kPush : wire::Kind::kPull;
    operation.by_range = transfer.is_range;
    if (transfer.is_range) operation.range = transfer.range();
    operation.keys = transfer.keys;
    operation.options = options;
    const std::span<uint64_t> values = transfer.values(count);
    if (transfer.is_push) {
        operation.values = std::as_bytes(values);
        operation.row_bytes = table.pushed_row_bytes;
    } else {
        operation.out = std::as_writable_bytes(values);
        if (options.out_type)
            operation.out = operation.out.first(transfer.keys.size() * table.row_bytes);
        operation.out_row_bytes = table.row_bytes;
    }
    return operation;
}

/// What is the table's own is mostly left out.
std::span<const NamedNumber> HistoryWorkers::some_factor(uint64_t factor) {
    if (factor == 1 && random_.below(4) != 0) return {};
    factor_.value = static_cast<double>(factor);
    return std::span(&factor_, 1);
}

/// Of those that are open, now and then.
TaskId HistoryWorkers::some_call_before(uint32_t number, Call& call) {
    Worker& worker = workers_[number];
    if (worker.calls.size() < 2 || random_.below(8) != 0) return kNoTask;
    call.after = worker.calls[random_.below(worker.calls.size() - 1)].id;
    ++counts_.waiting_calls;
    return cluster_.workers[number]->name_task(call.after);
}

ClientCore::CallId HistoryWorkers::send(ClientCore& client, const TableInfo& table,
                                        Transfer& transfer, size_t count,
                                        const CallOptions& options) {
    const std::span<uint64_t> values = transfer.values(count);
    if (transfer.is_push) {
        const auto bytes = std::as_bytes(values);
        return transfer.is_range ? client.push(table, transfer.range(), bytes, options)
                                 : client.push(table, transfer.keys, bytes, options);
    }
    auto bytes = std::as_writable_bytes(values);
    if (options.out_type) bytes = bytes.first(transfer.keys.size() * table.row_bytes);
    return transfer.is_range ? client.pull(table, transfer.range(), bytes, options)
                             : client.pull(table, transfer.keys, bytes, options);
}

bool HistoryWorkers::end(uint32_t number, Call& call) {
    ClientCore& client = *cluster_.workers[number];
    if (call.is_dropped ? client.has_open_values() : !client.done(call.id)) {
        check_not_late(number, call);
        return false;
    }
    const Status ended = call.is_dropped ? Status() : client.take(call.id);
    INFO("table " << call.table << ", worker " << number << "\n" << events_.text());
    for (Call* one = &call; one != nullptr; one = one->also.get()) {
        note_end(number, *one, ended);
        const size_t count = one->keys.size() * counted_[one->table].width();
        bury(*one, count);
        if (one->wants_values) bury(one->out, count);
    }
    return true;
}

void HistoryWorkers::check_not_late(uint32_t number, Call& call) {
    const uint64_t now_ns = clock_of(number).now_ns();
    if (call.is_hurried && now_ns >= call.due_ns) ++call.late_turns;
    if (call.late_turns <= kLateTurns || now_ns <= call.due_ns + kLateNs) return;
    INFO(events_.text());
    FAIL("worker " << number << " has a call past its deadline");
}

void HistoryWorkers::note_end(uint32_t number, Call& call, const Status& ended) {
    Worker& worker = workers_[number];
    CountedTable& counted = counted_[call.table];
    const std::span<const uint64_t> keys = call.is_push ? call.pushed_keys() : call.keys;
    const std::span<const uint64_t> values = call.pushed_values(counted.width());
    if (!ended) worker.failed_calls.insert(call.id);
    if (has_thrown_ && (!ended || call.throws || call.is_dropped))
        return note_end_by_exception(number, call, ended);
    const bool is_over = clock_of(number).now_ns() >= call.due_ns;
    const bool is_given_up = call.is_hurried && is_over && ended.code() == Errc::kDeadline;
    if (!is_given_up && worker.failed_calls.contains(call.after)) {
        REQUIRE_FALSE(ended.has_value());
        REQUIRE(ended.error().text().find("failed: ") != std::string::npos);
        if (call.is_push) counted.never_sent(keys, values);
        return;
    }
    if (is_given_up) ++counts_.given_up;
    if (!is_given_up) check(ended, call.is_push ? "a push" : "a pull");
    if (call.is_push) {
        if (is_given_up) return counted.give_up_push(keys, values);
        if (call.wants_values && !call.is_dropped) {
            counted.end_push_pull(call.keys, values, call.out.values(values.size()), call.before);
        } else {
            counted.end_push(keys, values);
        }
        note_acknowledged(call);
    } else if (!is_given_up) {
        note_pulled(call);
    }
}

void HistoryWorkers::note_pulled(Call& call) {
    CountedTable& counted = counted_[call.table];
    const auto values = call.values(call.keys.size() * counted.width());
    if (!call.is_narrow) return counted.end_pull(call.keys, values, call.before);
    const TableInfo& table = tables_[call.table];
    const auto kept = std::as_bytes(values).first(call.keys.size() * table.row_bytes);
    counted.end_pull(call.keys, NarrowCounts::widened(table.schema.value_type, kept), call.before);
}

void HistoryWorkers::let_throw() {
    has_thrown_ = true;
    CountedTable& counted = counted_[kStepsTable];
    Call& call = workers_[0].calls.emplace_back();
    call.table = kStepsTable;
    call.is_push = true;
    call.throws = true;
    do
        call.keys = some_keys(1 + random_.below(20));
    while (!counted.may_push(call.keys));
    const size_t count = call.keys.size() * counted.width();
    make_room(0, call, count);
    const std::span<uint64_t> values = call.values(count);
    counted.begin_push(call.keys, values, 1);
    const size_t last = call.keys.size() - 1;
    for (size_t i = 0; i < call.keys.size(); ++i) {
        if (i != last && random_.below(2) == 0) continue;
        counted.refuse(call.keys[i], values.subspan(i * counted.width(), counted.width()));
    }
    call.due_ns = ~uint64_t{0};
    events_.add("the rule is to throw at a push of {} keys up to {}", call.keys.size(),
                call.keys.back());
    call.id = send(*cluster_.workers[0], tables_[kStepsTable], call, count, {});
    ++counts_.throws;
}

void HistoryWorkers::note_end_by_exception(uint32_t number, Call& call, const Status& ended) {
    const bool is_late = call.is_hurried && ended.code() == Errc::kDeadline;
    const bool waited = workers_[number].failed_calls.contains(call.after);
    INFO("at " << clock_of(number).now_ns() / kMicrosecond
               << " us: " << (ended ? "ok" : ended.error().text()));
    REQUIRE((ended.code() == Errc::kException || is_late || waited || call.is_dropped));
    if (!call.is_push) return;
    CountedTable& counted = counted_[call.table];
    counted.give_up_push(call.pushed_keys(), call.pushed_values(counted.width()));
}

bool HistoryWorkers::have_ended_by_exception() {
    for (size_t number = 0; number < workers_.size(); ++number) {
        const Worker& worker = workers_[number];
        if (worker.has_left || worker.has_died || !worker.is_ready) continue;
        const ClientCore& client = *cluster_.workers[number];
        if (!client.finished() || !worker.calls.empty() || !worker.rounds.empty() ||
            has_others(static_cast<uint32_t>(number)))
            return false;
        INFO(client.name() << ": " << client.failure().error().message() << "\n" << events_.text());
        REQUIRE(client.failure().code() == Errc::kException);
        REQUIRE(client.failure().error().text().find(
                    "rule 'steps_by_row' of table 'steps' threw") != std::string::npos);
    }
    return true;
}

void HistoryWorkers::note_copies(const Shard& shard, PositionRange range, bool may_take_over) {
    for (size_t t = 0; t < tables_.size(); ++t) {
        const TableSchema& schema = tables_[t].schema;
        if (t == kEndingsTable || t == kFilteredTable) continue;
        const bool is_rounds = t == kRoundsTable;
        if (is_rounds && (schema.width == 1 || !may_take_over)) continue;
        if (schema.id >= shard.tables().size() || shard.tables()[schema.id] == nullptr) continue;
        for (const auto& [key, bytes] : rows_of(*shard.tables()[schema.id], range)) {
            std::vector<uint64_t> row(schema.width);
            if (is_narrow(schema.value_type)) {
                const auto kept = std::span(bytes).first(schema.width * size_of(schema.value_type));
                row = NarrowCounts::widened(schema.value_type, kept);
            } else {
                std::memcpy(row.data(), bytes.data(), row.size() * sizeof(uint64_t));
            }
            INFO("table " << t << " of " << shard.name() << "\n" << events_.text());
            is_rounds ? rounds_.check_row(key, row)
                      : counted_[t].note_copy(key, row, may_take_over);
        }
    }
}

void HistoryWorkers::check_copies() const {
    INFO(events_.text());
    for (const CountedTable& counted : counted_)
        counted.check_copies();
}

/// From now on nobody reads or writes its values.
void HistoryWorkers::bury(Transfer& transfer, size_t count) {
    const std::span<uint64_t> values = transfer.values(count);
    std::ranges::fill(values, kGraveValue);
    graves_.push_back({std::move(transfer.plain), std::move(transfer.block), values.size()});
    if (graves_.size() > kGravesMax) check_oldest_grave();
}

void HistoryWorkers::check_oldest_grave() {
    INFO("a buffer was written after its call had ended\n" << events_.text());
    REQUIRE(std::ranges::all_of(graves_.front().values(),
                                [](uint64_t value) { return value == kGraveValue; }));
    graves_.pop_front();
}

void HistoryWorkers::check(const Status& ended, const char* what) const {
    if (ended) return;
    INFO(what << ": " << ended.error().message() << "\n" << events_.text());
    REQUIRE(ended.has_value());
}

bool HistoryWorkers::has_rounds_left(size_t number) const {
    const Worker& worker = workers_[number];
    return worker.has_iterations && worker.pushed < CountedRounds::kRounds &&
           cluster_.workers[number]->first_iteration(tables_[kRoundsTable].schema.id) <=
               CountedRounds::kRounds;
}

bool HistoryWorkers::is_at_rest() const {
    for (size_t number = 0; number < workers_.size(); ++number) {
        const Worker& worker = workers_[number];
        if (worker.has_left || worker.has_died) continue;
        if (!worker.is_ready || worker.is_leaving || !worker.calls.empty() ||
            !worker.rounds.empty() || has_others(static_cast<uint32_t>(number)) ||
            has_rounds_left(number)) {
            return false;
        }
        for (size_t t = 0; t < tables_.size(); ++t) {
            const size_t held = cluster_.workers[number]->held_count(tables_[t].schema.id);
            if (held > 0 && t != kRoundsTable) return false;
        }
    }
    return true;
}

std::string HistoryWorkers::text() const {
    std::string text;
    for (size_t i = 0; i < workers_.size(); ++i) {
        const Worker& worker = workers_[i];
        text += fmt::format(
            "worker {}: ready {}, leaving {}, left {}, {} calls, {} rounds, pushed {}\n", i,
            worker.is_ready, worker.is_leaving, worker.has_left, worker.calls.size(),
            worker.rounds.size(), worker.pushed);
    }
    const View view = cluster_.managers_view();
    text += fmt::format("view {}:", view.epoch());
    for (const ViewServer& server : view.servers())
        text += fmt::format(" server {}", server.number);
    for (const ViewWorker& worker : view.workers())
        text += fmt::format(" worker {} from {}", worker.number,
                            view.first_iteration(worker.number, tables_[kRoundsTable].schema.id));
    for (const auto& shard : cluster_.shards) {
        if (shard == nullptr || !shard->finished()) continue;
        text += fmt::format("\n{} has ended: {}", shard->name(),
                            shard->outcome() ? "ok" : shard->outcome().error().message());
    }
    for (const auto& worker : cluster_.workers) {
        if (worker == nullptr) continue;
        text += fmt::format("\n{} epoch {}: {}", worker->name(), worker->epoch(),
                            worker->failure() ? "ok" : worker->failure().error().message());
    }
    return text;
}

void HistoryWorkers::check_all() {
    while (!graves_.empty())
        check_oldest_grave();
    std::vector<uint64_t> keys(kKeys);
    for (uint64_t key = 0; key < kKeys; ++key)
        keys[key] = key;
    for (size_t table = 0; table < kRoundsTable; ++table) {
        std::vector<uint64_t> values(kKeys * counted_[table].width());
        const auto call = cluster_.workers[0]->pull(tables_[table], keys,
                                                    std::as_writable_bytes(std::span(values)), {});
        INFO("table " << table << "\n" << events_.text());
        REQUIRE(cluster_.finish(0, call).has_value());
        counted_[table].check_all(values);
    }
    const size_t width = tables_[kRoundsTable].schema.width;
    std::vector<uint64_t> values(kKeys * width);
    const auto call = cluster_.workers[0]->pull(tables_[kRoundsTable], keys,
                                                std::as_writable_bytes(std::span(values)),
                                                {CountedRounds::kRounds});
    INFO(events_.text());
    REQUIRE(cluster_.finish(0, call).has_value());
    for (uint64_t key = 0; key < kKeys; ++key) {
        rounds_.check(key, values[key * width], CountedRounds::kRounds);
        if (width > 1) rounds_.check_row(key, std::span(values).subspan(key * width, width));
    }
    check_endings();
    check_filtered();
    functions_->check_all();
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/server/history_workers.h"

#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

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
constexpr size_t kRoundsTable = 2;  ///< the table of iterations; those before it are counted

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
    for (const TableSchema& schema : {dense, sparse, rounds}) {
        auto made = cluster_.make_table(0, schema);
        REQUIRE(made.has_value());
        tables_.push_back(*std::move(made));
    }
    workers_.resize(cluster_.workers.size());
    for (Worker& worker : workers_)
        worker.is_ready = true;
    counted_ = {CountedPushes(kKeys, width), CountedPushes(kKeys, width)};
    if (cluster_.shape().replicas == 0) return;
    for (CountedPushes& counted : counted_)
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
    Worker& worker = workers_[1 + random_.below(workers_.size() - 1)];
    if (!worker.is_ready || worker.is_leaving || worker.has_died) return;
    worker.is_leaving = true;
    events_.add("a worker is to leave");
    ++counts_.workers_left;
}

bool HistoryWorkers::kill(uint32_t number) {
    Worker& worker = workers_[number];
    if (worker.has_left || worker.has_died) return false;
    for (Call& call : worker.calls) {
        if (!call.is_push) continue;
        CountedPushes& counted = counted_[call.table];
        counted.give_up_push(call.keys, call.values(call.keys.size() * counted.width()));
    }
    for (const Round& round : worker.rounds) {
        if (round.is_push) rounds_.give_up_push(round.iteration, round.keys, round.values);
    }
    for (const Round& round : worker.failed)
        rounds_.give_up_push(round.iteration, round.keys, round.values);
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
    if (worker.is_leaving) return leave(worker, client);
    const uint64_t slowness = is_slow_ && !is_draining_ ? kSlowness : 1;
    const size_t calls_open = only_pulls_.contains(number) ? 4 * kCallsOpen : kCallsOpen;
    if (!is_draining_ && worker.calls.size() < calls_open && random_.below(4 * slowness) == 0) {
        begin(number, worker.calls.emplace_back());
    }
    if (only_pulls_.contains(number) && !is_draining_) return;
    if (random_.below(12 * slowness) == 0 || is_draining_) begin_round(number);
}

void HistoryWorkers::leave(Worker& worker, ClientCore& client) {
    if (!worker.calls.empty() || !worker.rounds.empty()) return;
    if (worker.leave == 0) worker.leave = client.leave({}, 0);
    if (!client.done(worker.leave)) return;
    check(client.take(worker.leave), "a leave");
    worker.has_left = true;
    events_.add("worker {} has left", client.worker());
}

std::vector<uint64_t> HistoryWorkers::some_keys(uint64_t count) {
    std::set<uint64_t> chosen;
    while (chosen.size() < count)
        chosen.insert(random_.below(kKeys));
    return {chosen.begin(), chosen.end()};
}

void HistoryWorkers::begin(uint32_t number, Call& call) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    call.table = random_.below(2);
    CountedPushes& counted = counted_[call.table];
    const bool is_single = only_pulls_.contains(number);  // by one server, if it has a lease
    const bool is_range = !is_single && call.table == 0 && random_.below(2) == 0;
    if (is_single) {
        call.keys = some_keys(1);
    } else if (is_range) {
        const uint64_t first = random_.below(kKeys);
        const uint64_t end = first + 1 + random_.below(kKeys - first);
        for (uint64_t key = first; key < end; ++key)
            call.keys.push_back(key);
    } else if (random_.below(2) == 0) {  // the same long lists again and again
        while (worker.lists.size() < 3)
            worker.lists.push_back(some_keys(20 + random_.below(80)));
        call.keys = worker.lists[random_.below(3)];
    } else {
        call.keys = some_keys(1 + random_.below(6));
    }
    call.is_push =
        random_.below(5) != 0 && counted.may_push(call.keys) && !only_pulls_.contains(number);
    const size_t count = call.keys.size() * counted.width();
    if (random_.below(3) == 0) {
        call.plain.resize(count);
    } else {
        call.block = Block(cluster_.memory_of(number), count * sizeof(uint64_t));
    }
    const std::span<uint64_t> values = call.values(count);
    const KeyRange range{call.keys.front(), call.keys.back() + 1};
    CallOptions options;
    call.is_hurried = random_.below(40) == 0;
    if (call.is_hurried) options.deadline_ns = (1 + random_.below(3000)) * kMicrosecond;
    call.due_ns = clock_of(number).now_ns() + options.deadline_ns;
    events_.add("worker {}: a {} of {} keys from {} of table {}", number,
                call.is_push ? "push" : "pull", call.keys.size(), call.keys[0], call.table);
    const TableInfo& table = tables_[call.table];
    if (call.is_push) {
        counted.begin_push(call.keys, values);
        const auto bytes = std::as_bytes(values);
        call.id = is_range ? client.push(table, range, bytes, options)
                           : client.push(table, call.keys, bytes, options);
        ++counts_.pushes;
    } else {
        call.before = counted.begin_pull();
        const auto bytes = std::as_writable_bytes(values);
        call.id = is_range ? client.pull(table, range, bytes, options)
                           : client.pull(table, call.keys, bytes, options);
    }
}

bool HistoryWorkers::end(uint32_t number, Call& call) {
    ClientCore& client = *cluster_.workers[number];
    const uint64_t now_ns = clock_of(number).now_ns();
    const bool is_over = call.is_hurried && now_ns >= call.due_ns;
    if (!client.done(call.id)) {
        if (is_over) ++call.late_turns;
        const bool is_late = call.late_turns > kLateTurns && now_ns > call.due_ns + kLateNs;
        INFO("worker " << number << " has a call past its deadline\n" << events_.text());
        REQUIRE_FALSE(is_late);
        return false;
    }
    const Status ended = client.take(call.id);
    const bool is_given_up = call.is_hurried && ended.code() == Errc::kDeadline;
    if (is_given_up) REQUIRE(is_over);
    if (!is_given_up) check(ended, call.is_push ? "a push" : "a pull");
    CountedPushes& counted = counted_[call.table];
    const auto values = call.values(call.keys.size() * counted.width());
    INFO("table " << call.table << ", worker " << number << "\n" << events_.text());
    if (is_given_up) ++counts_.given_up;
    if (call.is_push) {
        is_given_up ? counted.give_up_push(call.keys, values) : counted.end_push(call.keys, values);
    } else if (!is_given_up) {
        counted.end_pull(call.keys, values, call.before);
    }
    std::ranges::fill(values, kGraveValue);
    graves_.push_back({std::move(call.plain), std::move(call.block), values.size()});
    if (graves_.size() > kGravesMax) check_oldest_grave();
    return true;
}

void HistoryWorkers::check_oldest_grave() {
    INFO("a buffer was written after its call had ended\n" << events_.text());
    REQUIRE(std::ranges::all_of(graves_.front().values(),
                                [](uint64_t value) { return value == kGraveValue; }));
    graves_.pop_front();
}

void HistoryWorkers::begin_round(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    const TableInfo& table = tables_[kRoundsTable];
    if (!worker.has_iterations || worker.rounds.size() >= 4) return;
    const uint64_t first = client.first_iteration(table.schema.id);
    if (first > CountedRounds::kRounds) return;
    worker.pushed = std::max(worker.pushed, first - 1);
    const auto oldest =
        std::ranges::find_if(worker.rounds, [](const Round& round) { return round.is_push; });
    const uint64_t open = oldest == worker.rounds.end() ? 0 : worker.pushed - oldest->iteration + 1;
    if (worker.pushed < CountedRounds::kRounds && open <= table.schema.max_delay) {
        Round& round = worker.rounds.emplace_back();
        round.is_push = true;
        round.iteration = ++worker.pushed;
        if (random_.below(8) != 0) round.keys = some_keys(1 + random_.below(kKeys));
        round.values = rounds_.begin_push(round.iteration, number, round.keys);
        CallOptions options{round.iteration};
        // The last one is what is looked at in the end.
        round.is_hurried = !is_draining_ && !worker.is_leaving &&
                           round.iteration < CountedRounds::kRounds && random_.below(40) == 0;
        if (round.is_hurried) {
            options.deadline_ns = (1 + random_.below(3000)) * kMicrosecond;
            rounds_.let_fail(round.iteration);
        }
        round.id = client.push(table, round.keys, std::as_bytes(std::span(round.values)), options);
        ++counts_.rounds;
    } else if (worker.pushed > 0 && !is_draining_) {
        Round& round = worker.rounds.emplace_back();
        round.iteration = 1 + random_.below(worker.pushed);
        round.keys = some_keys(1 + random_.below(kKeys));
        round.values.resize(round.keys.size());
        round.before = rounds_.begin_pull();
        round.id = client.pull(table, round.keys, std::as_writable_bytes(std::span(round.values)),
                               {round.iteration});
    }
}

bool HistoryWorkers::end(uint32_t number, Round& round) {
    ClientCore& client = *cluster_.workers[number];
    if (!client.done(round.id)) return false;
    const std::optional<uint64_t> shown = client.iteration_shown(round.id);
    const Status ended = client.take(round.id);
    if (round.is_push) {
        events_.add("worker {}: its part of iteration {} has ended: {}", number, round.iteration,
                    ended ? "ok" : ended.error().message());
    }
    if (!ended && rounds_.may_fail(round.iteration)) {
        if (!round.is_push) return true;
        ++counts_.failed_parts;
        workers_[number].failed.push_back(round);
        return true;
    }
    check(ended, round.is_push ? "a part" : "a pull of an iteration");
    if (round.is_push) {
        rounds_.end_push(round.keys, round.values);
        return true;
    }
    INFO("worker " << number << " asked for iteration " << round.iteration << "\n"
                   << events_.text());
    REQUIRE(shown.has_value());
    REQUIRE(*shown >= round.iteration);
    for (size_t i = 0; i < round.keys.size(); ++i) {
        const uint64_t key = round.keys[i];
        rounds_.end_pull(key, round.values[i], *shown, round.before[key]);
    }
    return true;
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
            !worker.rounds.empty() || has_rounds_left(number)) {
            return false;
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
    for (const size_t table : {0, 1}) {
        std::vector<uint64_t> values(kKeys * counted_[table].width());
        const auto call = cluster_.workers[0]->pull(tables_[table], keys,
                                                    std::as_writable_bytes(std::span(values)), {});
        INFO("table " << table << "\n" << events_.text());
        REQUIRE(cluster_.finish(0, call).has_value());
        counted_[table].check_all(values);
    }
    std::vector<uint64_t> values(kKeys);
    const auto call = cluster_.workers[0]->pull(tables_[kRoundsTable], keys,
                                                std::as_writable_bytes(std::span(values)),
                                                {CountedRounds::kRounds});
    INFO(events_.text());
    REQUIRE(cluster_.finish(0, call).has_value());
    for (uint64_t key = 0; key < kKeys; ++key)
        rounds_.check(key, values[key], CountedRounds::kRounds);
}

}  // namespace weir::test

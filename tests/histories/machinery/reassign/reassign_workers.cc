// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/reassign/reassign_workers.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/cluster/pushing_job.h"

namespace weir::test {
namespace {

constexpr uint32_t kPieces = 12;
constexpr uint64_t kNever = 1'000'000 * kSecond;
constexpr size_t kWindow = 3;  ///< of iterations

}  // namespace

void ReassignWorkers::add() {
    constexpr size_t kActiveMax = 5;
    if (workers_.size() >= ReassignTables::kWorkersMax || is_draining_) return;
    if (active_count() >= kActiveMax) return;
    (void)cluster_.add_joining_worker();
    workers_.emplace_back();
    ++changes_;
    ++counts_.workers_joined;
    events_.add("worker {} asks to join", workers_.size() - 1);
}

/// Whether it takes part in rounds, and goes on to.
bool ReassignWorkers::is_active(const Worker& worker) const {
    return worker.does != Does::kJoins && worker.does != Does::kIsGone && !worker.is_to_leave;
}

size_t ReassignWorkers::active_count() const {
    return static_cast<size_t>(
        std::ranges::count_if(workers_, [&](const Worker& worker) { return is_active(worker); }));
}

void ReassignWorkers::remove(uint32_t except) {
    if (active_count() < 2 || is_draining_) return;
    const uint32_t number = some_that_may_die(except);
    if (number == ~uint32_t{0} || !is_active(workers_[number])) return;
    workers_[number].is_to_leave = true;
    events_.add("worker {} is to give its work back", number);
}

uint32_t ReassignWorkers::some_that_may_die(uint32_t except) {
    const auto number = static_cast<uint32_t>(random_.below(workers_.size()));
    if (number == except) return ~uint32_t{0};
    const Worker& worker = workers_[number];
    const bool others_go_on = active_count() > (is_active(worker) ? 1U : 0U);
    return others_go_on && worker.does != Does::kIsGone ? number : ~uint32_t{0};
}

uint32_t ReassignWorkers::some_that_lives() {
    REQUIRE(active_count() > 0);
    for (;;) {
        const auto number = static_cast<uint32_t>(random_.below(workers_.size()));
        if (is_active(workers_[number])) return number;
    }
}

void ReassignWorkers::note_death(uint32_t number) {
    workers_[number].does = Does::kIsGone;
    ++changes_;
    ++counts_.workers_died;
}

void ReassignWorkers::live() {
    for (uint32_t number = 0; number < workers_.size(); ++number) {
        if (workers_[number].does != Does::kIsGone) live(number);
    }
}

void ReassignWorkers::live(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    INFO(events_.text());
    if (worker.does == Does::kJoins) {
        if (!client.ready()) {
            REQUIRE_MESSAGE(client.failure(), client.failure().error().text());
            return;
        }
        events_.add("worker {} is worker {} of the job", number, client.worker());
        worker.does = Does::kTakes;
    }
    settle(number);
    if (worker.does == Does::kIsGone) return;
    if (worker.call == 0) go_on(number);
    if (worker.has_log && !worker.is_to_leave && !is_draining_ && !is_waiting_ &&
        random_.below(8) == 0)
        push_to_log(number);
}

/// Takes what has ended.
void ReassignWorkers::settle(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    settle_round(number);
    if (worker.push && client.done(worker.push->call)) {
        const Status pushed = client.take(worker.push->call);
        REQUIRE_MESSAGE(pushed, pushed.error().text());  // no round ends it
        worker.push.reset();
        ++tables_.log_of(number).acknowledged;
    }
    if (worker.call == 0 || !client.done(worker.call)) return;
    const CallId call = std::exchange(worker.call, 0);
    switch (worker.does) {
        case Does::kTakes: {
            auto share = client.take_share(call);
            REQUIRE_MESSAGE(share, share.error().text());
            return note_share(number, *std::move(share));
        }
        case Does::kOpensLog:
        case Does::kOpens: return note_table(number, client.take_table(call));
        case Does::kMeets:
            check(number, client.take(call), "a barrier");
            worker.does = Does::kTrains;
            return;
        case Does::kGivesBack: {
            const Status given = client.take(call);
            REQUIRE_MESSAGE(given, given.error().text());
            worker.does = Does::kLeaves;
            return;
        }
        case Does::kLeaves: {
            const Status left = client.take(call);
            REQUIRE_MESSAGE(left, left.error().text());
            worker.does = Does::kIsGone;
            ++counts_.workers_left;
            events_.add("worker {} has left", number);
            return;
        }
        default: FAIL("a worker waits for nothing");
    }
}

void ReassignWorkers::settle_round(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    while (!worker.parts.empty() && client.done(worker.parts.front().call)) {
        const Status pushed = client.take(worker.parts.front().call);
        check(number, pushed, "a part");
        uint64_t& acknowledged = tables_.round_of(worker.share).acknowledged;
        if (pushed) acknowledged = std::max(acknowledged, worker.parts.front().iteration);
        worker.parts.pop_front();
    }
    if (!worker.pull || !client.done(worker.pull->call)) return;
    const std::optional<uint64_t> shown = client.iteration_shown(worker.pull->call);
    const Status pulled = client.take(worker.pull->call);
    check(number, pulled, "a pull of an iteration");
    if (pulled) {
        REQUIRE(shown.has_value());
        REQUIRE(*shown >= worker.pull->iteration);
        ++counts_.pulls_of_iterations;
        const ReassignTables::Round& round = tables_.round_of(worker.share);
        ReassignTables::check_round(round, worker.pull->values, std::max(worker.pull_least, *shown),
                                    *std::ranges::min_element(round.begun));
    }
    worker.pull.reset();
}

/// Nobody is told to begin anew for another reason than that workers came or went.
void ReassignWorkers::check(uint32_t number, const Status& ended, const char* what) {
    if (ended) return;
    Worker& worker = workers_[number];
    INFO("worker " << number << ", " << what << " of round " << worker.share.round << ": "
                   << ended.error().text());
    REQUIRE(ended.code() == Errc::kReassigned);
    REQUIRE(changes_ >= worker.share.round);
    ++counts_.reassigned;
    worker.is_reassigned = true;
}

void ReassignWorkers::note_share(uint32_t number, WorkShare share) {
    Worker& worker = workers_[number];
    events_.add("worker {} is {} of {} in round {}", number, share.index, share.worker_count,
                share.round);
    REQUIRE(share.round > worker.share.round);
    REQUIRE(share.round <= changes_ + 1);
    REQUIRE(share.index < share.worker_count);
    std::vector<uint32_t>& pieces = pieces_[share.round];
    pieces.insert(pieces.end(), share.pieces.begin(), share.pieces.end());
    if (++shares_[share.round] == share.worker_count) {
        std::ranges::sort(pieces);
        std::vector<uint32_t> all(kPieces);
        std::iota(all.begin(), all.end(), 0U);
        REQUIRE(pieces == all);
    }
    if (shares_[share.round] == 1 && share.round > 1) ++counts_.rounds;
    worker.share = std::move(share);
    worker.is_reassigned = false;
    (void)tables_.round_of(worker.share);
    worker.does = worker.has_log ? Does::kOpens : Does::kOpensLog;
}

void ReassignWorkers::note_table(uint32_t number, Result<TableInfo> table) {
    Worker& worker = workers_[number];
    check(number, table ? Status() : Status(table.error()), "a table");
    if (!table) return;
    if (worker.does == Does::kOpensLog) {
        worker.log = *std::move(table);
        worker.has_log = true;
        worker.does = Does::kOpens;
        return;
    }
    worker.table = *std::move(table);
    worker.does = Does::kTrains;
}

void ReassignWorkers::go_on(uint32_t number) {
    Worker& worker = workers_[number];
    ClientCore& client = *cluster_.workers[number];
    const bool has_open = !worker.parts.empty() || worker.pull.has_value();
    if (worker.is_reassigned) {
        if (has_open) return;  // it ends, too
        worker.does = Does::kTakes;
        worker.is_reassigned = false;
    }
    switch (worker.does) {
        case Does::kTakes:
            if (worker.is_to_leave && worker.share.round > 0) return leave(number);
            worker.call = client.take_work(kPieces, kNever);
            return;
        case Does::kOpensLog:
            worker.call = client.create_table(ReassignTables::log_schema());
            return;
        case Does::kOpens: {
            TableSchema schema = tables_.round_of(worker.share).schema;
            schema.max_delay = kWindow - 1;
            worker.call = client.create_table(schema);
            return;
        }
        case Does::kTrains: return worker.is_to_leave ? leave(number) : train(number);
        case Does::kLeaves: worker.call = client.leave({}, 0); return;
        default: FAIL("a worker has nothing to do");
    }
}

/// Once it has nothing open: as Client::leave() does.
void ReassignWorkers::leave(uint32_t number) {
    Worker& worker = workers_[number];
    if (!worker.parts.empty() || worker.pull || worker.push) return;
    worker.does = Does::kGivesBack;
    ++changes_;
    worker.call = cluster_.workers[number]->ask_about_work(WorkAsk::kGiveBack);
}

void ReassignWorkers::train(uint32_t number) {
    Worker& worker = workers_[number];
    const uint64_t begun = tables_.round_of(worker.share).begun[worker.share.index];
    const uint64_t slowness = is_waiting_ ? 60 : is_draining_ ? 1 : 6;
    if (begun < ReassignTables::kIterations) {
        if (worker.parts.size() < kWindow && random_.below(slowness) == 0) push_part(number);
        if (!worker.pull && begun > 0 && random_.below(40) == 0) pull_iteration(number);
    } else if (worker.parts.empty() && !worker.pull && random_.below(is_waiting_ ? 200 : 20) == 0) {
        worker.does = Does::kMeets;
        worker.call = cluster_.workers[number]->barrier(kNever);
    }
}

void ReassignWorkers::push_part(uint32_t number) {
    Worker& worker = workers_[number];
    Open& open = worker.parts.emplace_back();
    open.iteration = ++tables_.round_of(worker.share).begun[worker.share.index];
    open.keys = all_keys(ReassignTables::kKeys);
    open.values = ReassignTables::part(worker.share.index, open.iteration);
    CallOptions options{open.iteration};
    options.deadline_ns = kNever;
    open.call = cluster_.workers[number]->push(worker.table, open.keys,
                                               std::as_bytes(std::span(open.values)), options);
}

void ReassignWorkers::pull_iteration(uint32_t number) {
    Worker& worker = workers_[number];
    const ReassignTables::Round& round = tables_.round_of(worker.share);
    worker.pull = Open();  // not emplace(): clang 14 does not take it
    Open& open = *worker.pull;
    open.iteration = 1 + random_.below(round.begun[worker.share.index]);
    open.keys = all_keys(ReassignTables::kKeys);
    open.values.resize(open.keys.size());
    worker.pull_least = round.acknowledged;
    CallOptions options{open.iteration};
    options.deadline_ns = kNever;
    open.call = cluster_.workers[number]->pull(
        worker.table, open.keys, std::as_writable_bytes(std::span(open.values)), options);
}

void ReassignWorkers::push_to_log(uint32_t number) {
    Worker& worker = workers_[number];
    if (worker.push) return;
    worker.push = Open();
    worker.push->keys = {number * ReassignTables::kLogKeys + tables_.log_of(number).begun++};
    worker.push->values = {1};
    worker.push->call = cluster_.workers[number]->push(
        worker.log, worker.push->keys, std::as_bytes(std::span(worker.push->values)), {});
}

bool ReassignWorkers::is_at_rest() const {
    uint64_t round = 0;
    uint32_t count = 0;
    for (const Worker& worker : workers_) {
        if (worker.does == Does::kIsGone) continue;
        if (worker.does != Does::kTrains && worker.does != Does::kMeets) return false;
        if (worker.is_to_leave || worker.is_reassigned || worker.push || worker.pull) return false;
        if (!worker.parts.empty() || (count > 0 && worker.share.round != round)) return false;
        round = worker.share.round;
        ++count;
        const auto& begun = tables_.round_of(worker.share).begun;
        if (begun[worker.share.index] < ReassignTables::kIterations) return false;
    }
    return std::ranges::all_of(workers_, [&](const Worker& worker) {
        return worker.does == Does::kIsGone || worker.share.worker_count == count;
    });
}

void ReassignWorkers::finish() {
    cluster_.run_idle(10);  // who does not wait any more knows it
    for (uint32_t number = 0; number < workers_.size(); ++number) {
        Worker& worker = workers_[number];
        if (worker.does == Does::kIsGone) continue;
        settle(number);
        if (worker.call == 0) worker.call = cluster_.workers[number]->barrier(kNever);
    }
    for (uint32_t number = 0; number < workers_.size(); ++number) {
        Worker& worker = workers_[number];
        if (worker.does == Does::kIsGone) continue;
        const Status met = cluster_.finish(number, std::exchange(worker.call, 0));
        REQUIRE_MESSAGE(met, met.error().text());
    }
    const uint32_t some = some_that_lives();
    const Status finished =
        cluster_.finish(some, cluster_.workers[some]->ask_about_work(WorkAsk::kFinish));
    REQUIRE_MESSAGE(finished, finished.error().text());
}

std::string ReassignWorkers::text() const {
    std::string text;
    for (size_t i = 0; i < workers_.size(); ++i) {
        const Worker& worker = workers_[i];
        const WorkShare& share = worker.share;
        const uint64_t begun = share.round == 0 ? 0 : tables_.round_of(share).begun[share.index];
        text += fmt::format(
            "worker {}: does {}, call {}, to leave {}, reassigned {}, round {} ({} of "
            "{}), iteration {}, {} parts, pull {}, push {}\n",
            i, static_cast<int>(worker.does), worker.call, worker.is_to_leave, worker.is_reassigned,
            share.round, share.index, share.worker_count, begun, worker.parts.size(),
            worker.pull.has_value(), worker.push.has_value());
    }
    return text;
}

}  // namespace weir::test

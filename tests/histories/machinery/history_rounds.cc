// SPDX-License-Identifier: Apache-2.0
/// \file
/// The iterations of a history's workers: their parts, and the pulls that name an iteration.

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

#include "tests/histories/machinery/history_workers.h"

namespace weir::test {

void HistoryWorkers::begin_round(uint32_t number) {
    Worker& worker = workers_[number];
    const TableInfo& table = tables_[kRoundsTable];
    if (!worker.has_iterations || worker.rounds.size() >= 4) return;
    const uint64_t first = cluster_.workers[number]->first_iteration(table.schema.id);
    if (first > CountedRounds::kRounds) return;
    worker.pushed = std::max(worker.pushed, first - 1);
    const auto oldest =
        std::ranges::find_if(worker.rounds, [](const Round& round) { return round.is_push; });
    const uint64_t open = oldest == worker.rounds.end() ? 0 : worker.pushed - oldest->iteration + 1;
    if (worker.pushed < CountedRounds::kRounds && open <= table.schema.max_delay) {
        begin_part(number);
    } else if (worker.pushed > 0 && !is_draining_) {
        begin_pull_of_round(number);
    }
}

void HistoryWorkers::begin_part(uint32_t number) {
    Worker& worker = workers_[number];
    const TableInfo& table = tables_[kRoundsTable];
    const bool flushes = random_.below(8) == 0 && !has_open_part(worker);
    if (flushes) (void)flush(number);
    Round& round = worker.rounds.emplace_back();
    round.is_push = true;
    round.iteration = ++worker.pushed;
    if (!common_keys_.empty() && random_.below(8) != 0) {
        round.keys = common_keys_;
    } else if (random_.below(8) != 0) {
        choose_keys(worker, table.schema.layout, kKeys, round);
    }
    // The last one is what is looked at in the end.
    round.is_hurried = !is_draining_ && !worker.is_leaving && !worker.takes_along &&
                       round.iteration < CountedRounds::kRounds && random_.below(40) == 0;
    const size_t width = table.schema.width;
    if (worker.takes_along) {
        add_held_keys(worker, round);
        ++counts_.flushes_of_rounds;
    }
    CallOptions options{round.iteration};
    const HistoryFilters::Drawn drawn = filters_->draw(true, width == 1 && !round.is_hurried);
    options.filters = drawn.filters;
    round.is_selected = drawn.choice && !worker.takes_along;
    if (round.is_selected) {
        ++counts_.selected;
        std::ranges::copy_if(round.keys, std::back_inserter(round.sent_keys),
                             [&](uint64_t key) { return drawn.choice->travels(key); });
    }
    round.bits = rounds_.begin_push(round.iteration, number,
                                    round.is_selected ? round.sent_keys : round.keys);
    const size_t count = round.keys.size() * width;
    make_room(number, round, count);
    const bool holds = drawn.choice && drawn.choice->holds;
    size_t next = 0;  // of what travels
    for (size_t i = 0; i < round.keys.size(); ++i) {
        const uint64_t key = round.keys[i];
        uint64_t value = ~uint64_t{0} >> 1;  // would be noticed
        if (!round.is_selected || drawn.choice->travels(key)) {
            value = round.bits[next++];
            // What travels with what was held is what the judge knows.
            if (holds || worker.takes_along) value -= std::exchange(worker.held_of_rounds[key], 0);
        } else if (holds) {
            value = mix64(value + key + round.iteration);
            worker.held_of_rounds[key] += value;
            ++counts_.held_of_rounds;
        }
        std::ranges::fill(round.values(count).subspan(i * width, width), value);
    }
    worker.takes_along = false;
    if (width > 1) {
        const bool differs = !is_draining_ && !worker.is_leaving &&
                             round.iteration < CountedRounds::kRounds && random_.below(40) == 0;
        if (differs) rounds_.let_differ(round.iteration, number);
        options.arguments = some_factor(rounds_.factor(round.iteration, number));
    }
    if (round.is_hurried) {
        options.deadline_ns = (1 + random_.below(3000)) * kMicrosecond;
        rounds_.let_fail(round.iteration);
    }
    ++counts_.rounds;
    round.wants_values = random_.below(4) == 0;
    if (!round.wants_values) {
        round.id = send(*cluster_.workers[number], table, round, count, options);
        return;
    }
    make_room(number, round.out, count);
    round.out.keys = round.keys;
    round.out.is_range = round.is_range;
    round.before = rounds_.begin_pull();
    std::vector<Operation> operations{operation_of(table, round, count, options)};
    options.arguments = {};
    options.filters = filters_->draw_lossless().filters;
    operations.push_back(operation_of(table, round.out, count, options));
    operations.back().follows_part = true;
    round.id = cluster_.workers[number]->start(std::move(operations));
}

bool HistoryWorkers::has_open_part(const Worker& worker) {
    return std::ranges::any_of(worker.rounds, [](const Round& round) { return round.is_push; });
}

/// All that is held travels, whatever the filters of the part choose. (That other keys travel, too, is tested
/// elsewhere: the judge of rounds would not know their values.)
void HistoryWorkers::add_held_keys(const Worker& worker, Round& round) {
    std::set<uint64_t> all(round.keys.begin(), round.keys.end());
    for (const auto& [key, value] : worker.held_of_rounds) {
        if (value != 0) all.insert(key);
    }
    if (all.size() == round.keys.size()) return;
    round.keys.assign(all.begin(), all.end());
    round.is_range = false;
}

void HistoryWorkers::begin_pull_of_round(uint32_t number) {
    Worker& worker = workers_[number];
    const TableInfo& table = tables_[kRoundsTable];
    Round& round = worker.rounds.emplace_back();
    round.iteration = 1 + random_.below(worker.pushed);
    choose_keys(worker, table.schema.layout, kKeys, round);
    const size_t count = round.keys.size() * table.schema.width;
    make_room(number, round, count);
    round.before = rounds_.begin_pull();
    round.id = send(*cluster_.workers[number], table, round, count, {round.iteration});
}

bool HistoryWorkers::end(uint32_t number, Round& round) {
    ClientCore& client = *cluster_.workers[number];
    if (!client.done(round.id)) return false;
    const size_t count = round.keys.size() * tables_[kRoundsTable].schema.width;
    const std::optional<uint64_t> shown = client.iteration_shown(round.id);
    const Status ended = client.take(round.id);
    if (round.is_push) {
        events_.add("worker {}: its part of iteration {} has ended: {}", number, round.iteration,
                    ended ? "ok" : ended.error().message());
    }
    if (ended.code() == Errc::kDifferentArguments) {
        REQUIRE(rounds_.may_differ(round.iteration));
        ++counts_.different_arguments;
    }
    if (!ended && has_thrown_) {
        if (round.is_push) rounds_.give_up_push(round.iteration, round.pushed_keys(), round.bits);
    } else if (!ended && rounds_.may_fail(round.iteration)) {
        note_failed(number, round);
    } else {
        check(ended, round.is_push ? "a part" : "a pull of an iteration");
        if (round.is_push) rounds_.end_push(round.pushed_keys(), round.bits);
        if (!round.is_push) end_pull(number, round, round, shown);
        if (round.wants_values && !round.keys.empty()) end_pull(number, round, round.out, shown);
    }
    bury(round, count);
    if (round.wants_values) bury(round.out, count);
    return true;
}

/// `out`: where the values are.
void HistoryWorkers::end_pull(uint32_t number, Round& round, Transfer& out,
                              std::optional<uint64_t> shown) {
    INFO("worker " << number << " asked for iteration " << round.iteration << "\n"
                   << events_.text());
    REQUIRE(shown.has_value());
    REQUIRE(*shown >= round.iteration);
    const size_t width = tables_[kRoundsTable].schema.width;
    const std::span<const uint64_t> values = out.values(round.keys.size() * width);
    for (size_t i = 0; i < round.keys.size(); ++i) {
        const uint64_t key = round.keys[i];
        rounds_.end_pull(key, values[i * width], *shown, round.before[key]);
        if (width > 1) rounds_.check_row(key, values.subspan(i * width, width));
    }
}

void HistoryWorkers::note_failed(uint32_t number, Round& round) {
    if (!round.is_push) return;
    ++counts_.failed_parts;
    workers_[number].failed.push_back({round.iteration,
                                       std::move(round.is_selected ? round.sent_keys : round.keys),
                                       std::move(round.bits)});
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_functions.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <doctest/doctest.h>

#include "lib/store/functions/builtin_functions.h"
#include "lib/wire/call_message.h"

namespace weir::test {
namespace {

/// As axpy, in pieces of few rows.
struct SlowAxpy : functions::Axpy {
    static constexpr double kCost = 1 << 14;
};

/// As sum and count, a few rows at a time: views change in between.
struct SlowSum : functions::Sum {
    static constexpr double kCost = 1 << 16;
};

struct SlowCount : functions::Count {
    static constexpr double kCost = 1 << 16;
};

constexpr double kAssigned = 3;
constexpr double kMost = 20;

}  // namespace

void HistoryFunctions::start() {
    REQUIRE(cluster_.rules.register_function<SlowAxpy>("slow_axpy"));
    REQUIRE(cluster_.rules.register_function<SlowSum>("slow_sum"));
    REQUIRE(cluster_.rules.register_function<SlowCount>("slow_count"));
    is_dense_ = random_.below(2) == 0;
    width_ = 1 + random_.below(3);
    constexpr uint64_t kAll = CountedRounds::kWorkers * kKeys;
    for (TableInfo* const info : {&table_, &other_}) {
        const char* const name = info == &table_ ? "changed" : "read";
        TableSchema schema = table_of(is_dense_ ? Layout::kDense : Layout::kSparse, name, kAll,
                                      ValueType::kFloat64, static_cast<uint32_t>(width_));
        schema.initial_value = info == &table_ ? kFirst : kFirstOther;
        auto made = cluster_.make_table(0, schema);
        REQUIRE(made.has_value());
        *info = *std::move(made);
    }
}

HistoryFunctions::State HistoryFunctions::after(State state, Kind kind) {
    if (kind != Kind::kPushOther) state.has_row = true;
    switch (kind) {
        case Kind::kPush: ++state.value; break;
        case Kind::kPushOther: ++state.other; break;
        case Kind::kAxpy: state.value += state.other; break;
        case Kind::kScale: state.value *= 2; break;
        case Kind::kCopy: state.value = state.other; break;
        case Kind::kAssign: state.value = kAssigned; break;
        case Kind::kClip: state.value = std::min(state.value, kMost); break;
    }
    return state;
}

std::vector<HistoryFunctions::State> HistoryFunctions::states_of(uint64_t key) const {
    std::vector<State> states{State()};
    const Changes& changes = changes_[key / kKeys];
    for (const size_t number : changes.of_key[key % kKeys]) {
        const Change& change = changes.all[number];
        std::vector<State> next;
        const auto add = [&](const State& state) {
            if (std::ranges::find(next, state) == next.end()) next.push_back(state);
        };
        for (const State& state : states) {
            add(after(state, change.kind));
            if (!change.is_certain) add(state);
        }
        states = std::move(next);
    }
    return states;
}

void HistoryFunctions::live(uint32_t worker, bool begins, bool errors_count) {
    while (calls_.size() <= worker) {
        calls_.emplace_back();
        changes_.emplace_back();
    }
    std::erase_if(calls_[worker], [&](Call& call) { return end(worker, call, errors_count); });
    if (begins) begin(worker);
}

bool HistoryFunctions::has_open_change(uint32_t worker) const {
    return std::ranges::any_of(calls_[worker],
                               [](const Call& call) { return call.look == Call::Look::kNone; });
}

void HistoryFunctions::begin(uint32_t worker) {
    constexpr size_t kOpen = 3;
    std::deque<Call>& calls = calls_[worker];
    const bool is_looked_at = std::ranges::any_of(calls, [](const Call& call) {
        return call.look == Call::Look::kValues || call.look == Call::Look::kSum;
    });
    if (calls.size() >= kOpen) return;
    Call& call = calls.emplace_back();
    if (random_.below(4) == 0) {
        call.look = Call::Look::kCount;
    } else if (is_looked_at) {
        calls.pop_back();
        return;
    } else if (calls.size() == 1 && random_.below(3) == 0) {
        call.look = random_.below(2) == 0 ? Call::Look::kValues : Call::Look::kSum;
    }
    call.look == Call::Look::kNone ? begin_change(worker, call) : begin_look(worker, call);
    if (call.id == 0) calls.pop_back();
}

/// What other changes read is pushed while none is open.
void HistoryFunctions::begin_change(uint32_t worker, Call& call) {
    constexpr Kind kKinds[] = {Kind::kPush, Kind::kPushOther, Kind::kAxpy,
                               Kind::kAxpy, Kind::kAxpy,      Kind::kScale,
                               Kind::kCopy, Kind::kAssign,    Kind::kClip};
    constexpr uint32_t kScalesMax = 30;
    Changes& changes = changes_[worker];
    Kind kind = kKinds[random_.below(std::size(kKinds))];
    const bool pushes_other = std::ranges::any_of(calls_[worker], [&](const Call& one) {
        return &one != &call && one.look == Call::Look::kNone &&
               changes.all[one.change].kind == Kind::kPushOther;
    });
    if (pushes_other || (kind == Kind::kPushOther && calls_[worker].size() > 1)) return;
    if (kind == Kind::kScale && changes.scales++ >= kScalesMax) kind = Kind::kAssign;
    const bool by_range = is_dense_ && random_.below(2) == 0;
    const uint64_t first_key = worker * kKeys;
    if (by_range) {
        const uint64_t begin = random_.below(kKeys);
        call.keys.resize(1 + random_.below(kKeys - begin));
        std::iota(call.keys.begin(), call.keys.end(), first_key + begin);
    } else {
        const uint64_t of = random_.below(2) == 0 ? 1 : 1 + random_.below(8);
        for (uint64_t key = 0; key < kKeys; ++key) {
            if (random_.below(of) == 0) call.keys.push_back(first_key + key);
        }
    }
    if (call.keys.empty()) return;
    changes.all.push_back({kind, false});
    call.change = changes.all.size() - 1;
    for (const uint64_t key : call.keys)
        changes.of_key[key - first_key].push_back(call.change);
    Operation operation;
    operation.table = kind == Kind::kPushOther ? &other_ : &table_;
    operation.by_range = by_range;
    if (by_range)
        operation.range = {call.keys.front(), call.keys.back() + 1};
    else
        operation.keys = call.keys;
    if (kind == Kind::kPush || kind == Kind::kPushOther) {
        call.values.assign(call.keys.size() * width_, 1);
        operation.values = std::as_bytes(std::span(call.values));
        operation.row_bytes = operation.table->pushed_row_bytes;
    } else {
        const bool is_slow = random_.below(3) == 0;
        const auto [name, numbers] = [&]() -> std::pair<std::string_view, std::vector<double>> {
            switch (kind) {
                case Kind::kAxpy: return {is_slow ? "slow_axpy" : "axpy", {1}};
                case Kind::kScale: return {"scale", {2}};
                case Kind::kCopy: return {"copy", {}};
                case Kind::kAssign: return {"assign", {kAssigned}};
                default: return {"clip", {-kMost, kMost}};
            }
        }();
        const FunctionEntry* const function = *cluster_.rules.find_function(name);
        CallMessage message{.function = function->id, .numbers = numbers, .tables = {}};
        if (function->tables > 0) message.tables = {other_.schema.id};
        PushExtras& extras = operation.own_extras();
        extras.function = function;
        extras.arguments = message.encode_with_count();
        ++counts_.functions;
    }
    call.id = cluster_.workers[worker]->start({std::move(operation)});
}

ClientCore::CallId HistoryFunctions::reduce(uint32_t worker, std::string_view name,
                                            std::optional<KeyRange> keys, CallResult& result) {
    const FunctionEntry* const function = *cluster_.rules.find_function(name);
    ++counts_.reductions;
    return cluster_.workers[worker]->reduce(
        {.table = &table_,
         .function = function,
         .call = {.function = function->id, .numbers = *function->all_numbers({}), .tables = {}},
         .keys = keys,
         .result = &result},
        0, {});
}

void HistoryFunctions::begin_look(uint32_t worker, Call& call) {
    const uint64_t first_key = worker * kKeys;
    switch (call.look) {
        case Call::Look::kValues: {
            call.keys.resize(kKeys);
            std::iota(call.keys.begin(), call.keys.end(), first_key);
            call.values.resize(kKeys * width_);
            call.id = cluster_.workers[worker]->pull(
                table_, call.keys, std::as_writable_bytes(std::span(call.values)), {});
            break;
        }
        case Call::Look::kSum:
            call.id = reduce(worker, random_.below(2) == 0 ? "slow_sum" : "sum",
                             KeyRange{first_key, first_key + kKeys}, *call.result);
            break;
        default:
            call.id =
                reduce(worker, random_.below(2) == 0 ? "slow_count" : "count", {}, *call.result);
    }
}

bool HistoryFunctions::end(uint32_t worker, Call& call, bool errors_count) {
    ClientCore& client = *cluster_.workers[worker];
    if (!client.done(call.id)) return false;
    const Status ended = client.take(call.id);
    if (!ended && !errors_count) return true;
    INFO("a function, or a look at what it did, of worker "
         << worker << ": " << (ended ? std::string("ok") : ended.error().message()) << "\n"
         << events_.text());
    REQUIRE(ended.has_value());
    switch (call.look) {
        case Call::Look::kNone: changes_[worker].all[call.change].is_certain = true; break;
        case Call::Look::kValues: check_values(call); break;
        case Call::Look::kSum: check_sum(worker, call); break;
        case Call::Look::kCount: {
            const double most = static_cast<double>(CountedRounds::kWorkers * kKeys * width_);
            REQUIRE(call.result->numbers.size() == 1);
            if (is_dense_) REQUIRE(call.result->numbers[0] == most);
            REQUIRE(call.result->numbers[0] <= most);
        }
    }
    return true;
}

void HistoryFunctions::check_values(const Call& call) const {
    for (size_t i = 0; i < call.keys.size(); ++i) {
        const std::vector<State> states = states_of(call.keys[i]);
        const std::span row = std::span(call.values).subspan(i * width_, width_);
        INFO("key " << call.keys[i] << " has " << row[0] << "; " << states.size()
                    << " states are possible, " << states.front().value << " and others");
        REQUIRE(
            std::ranges::any_of(states, [&](const State& state) { return state.value == row[0]; }));
        REQUIRE(std::ranges::all_of(row, [&](double value) { return value == row[0]; }));
    }
}

/// All that this worker has changed has ended well.
void HistoryFunctions::check_sum(uint32_t worker, const Call& call) const {
    double sum = 0;
    for (uint64_t key = worker * kKeys; key < (worker + 1) * kKeys; ++key) {
        const std::vector<State> states = states_of(key);
        REQUIRE(states.size() == 1);
        if (is_dense_ || states[0].has_row) sum += states[0].value * static_cast<double>(width_);
    }
    REQUIRE(call.result->numbers.size() == 1);
    REQUIRE(call.result->numbers[0] == sum);
}

void HistoryFunctions::check_all() {
    for (uint32_t worker = 0; worker < changes_.size(); ++worker) {
        Call call;
        call.keys.resize(kKeys);
        std::iota(call.keys.begin(), call.keys.end(), worker * kKeys);
        call.values.resize(kKeys * width_);
        const auto id = cluster_.workers[0]->pull(
            table_, call.keys, std::as_writable_bytes(std::span(call.values)), {});
        INFO("worker " << worker << "\n" << events_.text());
        REQUIRE(cluster_.finish(0, id).has_value());
        check_values(call);
    }
}

}  // namespace weir::test

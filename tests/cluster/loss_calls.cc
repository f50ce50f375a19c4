// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/loss_calls.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/equal_copies.h"

namespace weir::test {
namespace {

constexpr uint64_t kHour = 3600 * kSecond;
constexpr uint64_t kOpenMax = 12;  ///< calls of all workers

}  // namespace

void LossCalls::start() {
    REQUIRE(cluster_.rules.register_rule<RoundsInOrder>("rounds_in_order").has_value());
    REQUIRE(cluster_.start());
    TableSchema rounds = dense_table("rounds", kKeyCount, ValueType::kUInt64);
    rounds.rule = "rounds_in_order";
    rounds.max_delay = static_cast<uint32_t>(random_.below(3));
    auto made = cluster_.make_table(0, dense_table("sums", kKeyCount, ValueType::kUInt64));
    REQUIRE(made.has_value());
    sums_ = *std::move(made);
    made = cluster_.make_table(0, rounds);
    REQUIRE(made.has_value());
    sums_of_rounds_ = *std::move(made);
    pushed_.resize(cluster_.workers.size());
    if (cluster_.shape().replicas > 0) counted_.take_back();
}

std::vector<uint64_t> LossCalls::some_keys() {
    uint64_t first = 0;
    uint64_t count = kKeyCount;
    if (random_.below(8) != 0) {
        first = random_.below(kKeyCount);
        count = 1 + random_.below(std::min<uint64_t>(kKeyCount - first, 20));
    }
    std::vector<uint64_t> keys(count);
    std::iota(keys.begin(), keys.end(), first);
    return keys;
}

void LossCalls::begin(uint32_t worker) {
    if (open_.size() >= kOpenMax) return;
    Open& call = open_.emplace_back();
    call.worker = worker;
    call.keys = some_keys();
    random_.below(4) == 0 ? begin_round(call) : begin_counted(call);
    if (call.keys.empty()) return open_.pop_back();
    send(call);
}

void LossCalls::begin_counted(Open& call) {
    call.values.resize(call.keys.size());
    call.is_push = random_.below(4) != 0 && counted_.may_push(call.keys);
    call.is_push ? counted_.begin_push(call.keys, call.values)
                 : void(call.before = counted_.begin_pull());
}

/// From the oldest part that is open on there are no more than the table's delay allows.
void LossCalls::begin_round(Open& call) {
    uint64_t& last = pushed_[call.worker];
    const auto oldest = std::ranges::find_if(open_, [&](const Open& other) {
        return other.worker == call.worker && other.is_push && other.iteration != 0;
    });
    const uint64_t open = oldest == open_.end() ? 0 : last - oldest->iteration + 1;
    call.is_push = last < CountedRounds::kRounds && open <= sums_of_rounds_.schema.max_delay;
    if (call.is_push) {
        call.iteration = ++last;
        call.values = rounds_.begin_push(call.iteration, call.worker, call.keys);
    } else if (last > 0) {
        call.iteration = 1 + random_.below(last);
        call.values.resize(call.keys.size());
        call.before = rounds_.begin_pull();
    } else {
        call.keys.clear();
    }
}

void LossCalls::send(Open& call) {
    ClientCore& client = *cluster_.workers[call.worker];
    const TableInfo& table = call.iteration == 0 ? sums_ : sums_of_rounds_;
    CallOptions options{.deadline_ns = kHour};
    if (call.iteration != 0) options.iteration = call.iteration;
    const std::span values(call.values);
    call.id = call.is_push
                  ? client.push(table, call.range(), std::as_bytes(values), options)
                  : client.pull(table, call.range(), std::as_writable_bytes(values), options);
}

void LossCalls::begin_in_vain() {
    for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker) {
        Open& call = open_.emplace_back();
        call.worker = worker;
        call.must_fail = true;
        call.keys.resize(kKeyCount);
        std::iota(call.keys.begin(), call.keys.end(), 0);
        begin_counted(call);
        send(call);
    }
}

void LossCalls::live(bool has_silent) {
    has_silent_ = has_silent;
    std::erase_if(open_, [&](Open& call) {
        if (!cluster_.workers[call.worker]->done(call.id)) return false;
        take(call);
        return true;
    });
}

void LossCalls::take(Open& call) {
    ClientCore& client = *cluster_.workers[call.worker];
    const std::optional<uint64_t> shown = client.iteration_shown(call.id);
    const Status ended = client.take(call.id);
    if (ended) {
        CHECK_FALSE(call.must_fail);
        if (cluster_.has_loss() && needs_what_is_lost(call)) ++late_answers_;
        return note_end(call, shown);
    }
    check_reason(ended.error());
    note_failure(call);
}

/// Of one server that is gone, or of several; or it was silent for half of the time that calls may take.
void LossCalls::check_reason(const Error& error) const {
    const std::string text = error.text();
    const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
    INFO(text);
    if (has_silent_ && says("withdrew its part")) return;
    if (has_silent_ && error.code() == Errc::kDeadline) {
        CHECK(says("gave no sign of life"));
        return;
    }
    CHECK(error.code() == Errc::kPeerLost);
    // A part whose call has ended so is missing to the others.
    const bool says_so = says("is gone") || says("are gone") ||
                         (has_silent_ && says("died or gave up before its part of iteration"));
    CHECK(says_so);
}

void LossCalls::note_end(const Open& call, std::optional<uint64_t> shown) {
    if (call.iteration == 0) {
        return call.is_push ? counted_.end_push(call.keys, call.values)
                            : counted_.end_pull(call.keys, call.values, call.before);
    }
    if (call.is_push) {
        ++parts_acknowledged_;
        return rounds_.end_push(call.keys, call.values);
    }
    REQUIRE(shown.has_value());
    REQUIRE(*shown >= call.iteration);
    for (size_t i = 0; i < call.keys.size(); ++i)
        rounds_.end_pull(call.keys[i], call.values[i], *shown, call.before[call.keys[i]]);
}

/// A part may count where it arrived, and its iteration fail elsewhere.
void LossCalls::note_failure(const Open& call) {
    if (!call.is_push) return;
    if (call.iteration == 0) return counted_.give_up_push(call.keys, call.values);
    rounds_.let_fail(call.iteration);
    rounds_.give_up_push(call.iteration, call.keys, call.values);
}

bool LossCalls::needs_what_is_lost(const Open& call) const {
    const View& view = cluster_.managers_view();
    const PositionMap map = PositionMap::dense(kKeyCount);
    return std::ranges::any_of(
        call.keys, [&](uint64_t key) { return view.owner(map.position(key)) == kNoShard; });
}

void LossCalls::check_copy(const Shard& shard, PositionRange range) {
    const PositionMap map = PositionMap::dense(kKeyCount);
    const std::vector<uint64_t> certain = rounds_.begin_pull();
    for (size_t t = 0; t < shard.tables().size(); ++t) {
        const ShardTable& table = *shard.tables()[t];
        const bool is_counted = table.rows->schema().id == sums_.schema.id;
        const CopiedRows rows = rows_of(table, range);
        for (uint64_t key = 0; key < kKeyCount; ++key) {
            if (map.position(key) < range.first || map.position(key) > range.last) continue;
            uint64_t value = 0;
            const auto row = rows.find(key);
            if (row != rows.end()) std::memcpy(&value, row->second.data(), sizeof(value));
            ++keys_checked_;
            if (is_counted) {
                counted_.check(key, value);
                continue;
            }
            rounds_.check(key, value, 0);
            INFO("key " << key << " has " << value << ", certain was " << certain[key]);
            REQUIRE((value & certain[key]) == certain[key]);
        }
    }
}

std::string LossCalls::text() const {
    std::string all;
    for (const Open& call : open_) {
        all += fmt::format("\nworker {}, call {}, {} of iteration {}: {}", call.worker, call.id,
                           call.is_push ? "push" : "pull", call.iteration,
                           cluster_.workers[call.worker]->done(call.id) ? "over" : "open");
    }
    return all;
}

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/elastic_history.h"

#include <algorithm>
#include <array>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/equal_copies.h"
#include "tests/histories/machinery/history_shape.h"

namespace weir::test {
namespace {

bool is_there(const Shard* shard) {
    return shard != nullptr && !shard->finished();
}

}  // namespace

std::string ElasticHistory::run() {
    REQUIRE(cluster_.rules.register_rule<AddWithState>("add_with_state").has_value());
    REQUIRE(cluster_.rules.register_rule<AddNarrow>(AddNarrow::kName).has_value());
    REQUIRE(cluster_.rules.register_rule<RoundsInOrder>("rounds_in_order").has_value());
    REQUIRE(cluster_.rules.register_rule<RoundsWithState>("rounds_with_state").has_value());
    REQUIRE(cluster_.rules.register_rule<RoundsByRow>("rounds_by_row").has_value());
    REQUIRE(cluster_.rules.register_rule<StepsByRow>(CountedTable::kByRow).has_value());
    REQUIRE(cluster_.start());
    workers_.start();
    if (random_.below(2) == 0) network_faults_->broken = 0.002;
    network_faults_->not_now = random_.below(3) == 0 ? 0.05 : 0;
    if (random_.below(3) == 0) faults_.slow_down();
    has_silences_ = has_backups() && random_.below(2) == 0;
    // Until each segment has its backup, many turns pass.
    const uint64_t turns = (600 + random_.below(1500)) * (has_silences_   ? 6
                                                          : has_backups() ? 4
                                                                          : 1);
    Random aside = random_;  // so that the others are the same histories
    const uint64_t throws_at = aside.below(6) == 0 ? aside.below(turns) : turns;
    for (uint64_t turn = 0; turn < turns; ++turn) {
        if (turn == throws_at) {
            end_by_exception();
            return digest();
        }
        if (random_.below(60) == 0) wish();
        live();
        (void)cluster_.step();
        check_primaries();
    }
    events_.add("no more wishes");
    workers_.drain();
    faults_.drain();
    deaths_.drain();
    silence_.drain();
    managers_.drain();
    finish();
    workers_.check_all();
    if (has_backups()) check_copies();
    return digest();
}

std::string ElasticHistory::digest() const {
    counts_.views += cluster_.managers_view().epoch();
    counts_.breaks += network_faults_->broken_count;
    return fmt::format("{}{:016x} {:016x}: {} packets in {} ns\n", events_.text(), events_.digest(),
                       cluster_.network.trace_hash(), cluster_.network.counters().packets,
                       cluster_.clock.now_ns());
}

SimShape ElasticHistory::make_shape(uint32_t replicas, std::shared_ptr<ManagerRecord> record,
                                    uint32_t managers) {
    SimShape shape = moving_shape(random_, network_faults_);
    shape.managers = managers;
    shape.record = std::move(record);
    shape.replicas = replicas;
    if (replicas > 0) {
        shape.servers += replicas;
        constexpr std::array<uint32_t, 4> kPoints{1, 3, 6, 16};
        shape.points = kPoints[random_.below(kPoints.size())];
        shape.lease_ns = 500 * kMillisecond;
        shape.clock_skew = 0.1;
    }
    shape.workers = static_cast<uint32_t>(1 + random_.below(3));
    shape.message_bytes_max = random_.below(2) == 0 ? 8192 : 1024;
    shape.fetch_bytes_max = random_.below(2) == 0 ? 512 : 1 << 20;
    shape.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
    if (random_.below(4) == 0) shape.waiting_bytes_max = 4096;  // shards are busy often
    if (random_.below(4) == 0) shape.list_cache_bytes = 2048;   // lists are forgotten often
    if (random_.below(2) == 0) shape.on_worker_loss = OnWorkerLoss::kContinue;
    return shape;
}

transport::sim::Options ElasticHistory::make_options() {
    transport::sim::Options options;
    options.maps_memory = random_.below(2) == 0;
    options.delay_ns_max = kMicrosecond * (2 + random_.below(100));
    options.loss = random_.below(4) == 0 ? 0.01 : 0;
    options.step_bytes = 64;
    return options;
}

void ElasticHistory::wish() {
    // After a manager has failed no server falls silent for a while.
    if (shape_.managers > 1 && random_.below(has_silences_ ? 12 : 3) == 0) return managers_.wish();
    if (has_backups() && random_.below(3) == 0) return deaths_.wish();
    if (has_silences_ && random_.below(3) == 0)
        return random_.below(3) == 0 ? silence_.part() : silence_.wish();
    switch (random_.below(9)) {
        case 0: return faults_.add_server();
        case 1: return faults_.remove_server();
        case 2: return workers_.add();
        case 3: return workers_.remove();
        case 4: return faults_.kill_worker();
        case 5:
        case 6: return faults_.cut_from_manager();
        default: return faults_.pause();
    }
}

void ElasticHistory::live() {
    const uint64_t epoch = cluster_.managers_view().epoch();
    if (std::exchange(epoch_seen_, epoch) != epoch) events_.add("view {}", epoch);
    faults_.live();
    managers_.live();
    if (has_backups()) {
        deaths_.live();
        silence_.live();
        check_losses();
    }
    workers_.live();
}

void ElasticHistory::check_primaries() {
    std::vector<uint64_t> epochs;
    for (const auto& shard : cluster_.shards)
        epochs.push_back(is_there(shard.get()) ? shard->epoch() : 0);
    if (epochs == epochs_) return;
    epochs_ = std::move(epochs);
    std::vector<PositionRange> ranges;
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        const auto& shard = cluster_.shards[i];
        if (!is_there(shard.get()) || !may_answer(i)) continue;
        const auto own = shard->primary().ranges();
        ranges.insert(ranges.end(), own.begin(), own.end());
    }
    std::ranges::sort(ranges, {}, &PositionRange::first);
    for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i - 1].last < ranges[i].first) continue;
        INFO("two shards answer for position " << ranges[i].first << "\n" << events_.text());
        REQUIRE(ranges[i - 1].last < ranges[i].first);
    }
    ++counts_.primaries_checked;
}

/// Others may have taken over from one that has no lease.
bool ElasticHistory::may_answer(size_t shard) {
    return !has_backups() || cluster_.has_lease(cluster_.host_of_shard(shard));
}

void ElasticHistory::check_losses() const {
    const auto is_lost = [](const ViewSegment& segment) { return segment.primary == kNoShard; };
    const View view = cluster_.managers_view();
    bool has_failed = std::ranges::any_of(view.segments(), is_lost) || cluster_.is_managed_to_end();
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        const auto& shard = cluster_.shards[i];
        const bool is_replaced = silence_.was_replaced(cluster_.host_of_shard(i));
        has_failed |= shard != nullptr && shard->finished() && !shard->outcome() && !is_replaced;
    }
    if (!has_failed) return;
    INFO(events_.text());
    INFO(text());
    REQUIRE_FALSE(has_failed);
}

void ElasticHistory::finish() {
    const bool over = cluster_.run_until([&] {
        live();
        check_primaries();
        return faults_.is_at_rest() && workers_.is_at_rest() && deaths_.is_at_rest() &&
               silence_.is_at_rest() && managers_.is_at_rest();
    });
    INFO(events_.text());
    INFO(text());
    REQUIRE(over);
    network_faults_->broken = 0;
}

void ElasticHistory::end_by_exception() {
    workers_.let_throw();
    workers_.drain();
    faults_.drain();
    deaths_.drain();
    silence_.drain();
    managers_.drain();
    const bool over = cluster_.run_until([&] {
        faults_.live();
        managers_.live();
        if (has_backups()) {
            deaths_.live();
            silence_.live();
        }
        workers_.live();
        const auto is_over = [](const auto& shard) {
            return shard == nullptr || shard->finished();
        };
        return workers_.have_ended_by_exception() && cluster_.is_managed_to_end() &&
               std::ranges::all_of(cluster_.shards, is_over);
    });
    INFO(events_.text());
    INFO(text());
    REQUIRE(over);
    check_after_exception();
}

/// Of who threw, rows may be half changed; of who is amid a move, some are on their way.
void ElasticHistory::check_after_exception() {
    const View view = cluster_.managers_view();
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const ViewSegment& segment = view.segments()[i];
        for (const auto& shard : cluster_.shards) {
            if (shard == nullptr) continue;
            const bool is_backup = std::ranges::any_of(
                std::span(segment.backups).first(segment.backup_count()), [&](uint32_t backup) {
                    return cluster_.find_shard(*view.shard(backup)) == shard.get();
                });
            if (is_backup) ++counts_.copies_after_exceptions;
            workers_.note_copies(*shard, view.range(i), is_backup && !shard->has_thrown());
        }
    }
    workers_.check_copies();
}

void ElasticHistory::check_copies() {
    cluster_.run_idle(200);  // what dead workers have sent may still be on its way to the backups
    const View view = cluster_.managers_view();
    INFO(events_.text());
    INFO(text());
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const ViewSegment& segment = view.segments()[i];
        for (size_t b = 0; b < segment.backup_count(); ++b) {
            const Shard* const primary = cluster_.find_shard(*view.shard(segment.primary));
            const Shard* const backup = cluster_.find_shard(*view.shard(segment.backups[b]));
            REQUIRE(primary != nullptr);
            REQUIRE(backup != nullptr);
            check_equal_copies(*primary, *backup, view.range(i));
            ++counts_.equal_segments;
        }
    }
}

std::string ElasticHistory::text() const {
    std::string all = fmt::format(
        "{} shards per server, messages of {} bytes, {} bytes may wait, {} of fetches, eager "
        "{}, maps {}, breaks {}\n{}",
        shape_.shards, shape_.message_bytes_max, shape_.waiting_bytes_max, shape_.fetch_bytes_max,
        shape_.eager_bytes, options_.maps_memory, network_faults_->broken_count, workers_.text());
    if (!has_backups()) return all;
    const View view = cluster_.managers_view();
    for (const ViewShard& listed : view.shards()) {
        const Shard* const shard = cluster_.find_shard(listed);
        all += fmt::format("\nshard {} of server {}, since {}, epoch {}", listed.number,
                           listed.server, listed.since, shard == nullptr ? 0 : shard->epoch());
    }
    for (const ViewSegment& segment : view.segments()) {
        all += fmt::format("\n{:#x}: primary {}, {} backups, first {}, learner {}", segment.first,
                           segment.primary, segment.backup_count(), segment.backups[0],
                           segment.learner.shard);
    }
    return all;
}

}  // namespace weir::test

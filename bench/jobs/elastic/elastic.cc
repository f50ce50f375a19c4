// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/elastic.h"

#include <array>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/elastic/elastic_load.h"
#include "bench/jobs/elastic/elastic_report.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

constexpr std::array<std::string_view, 6> kPhaseNames = {"fewer", "start, end", "join",
                                                         "usual", "leave",      "loss"};

/// How long pushes took, by kind and by phase.
using Times = std::array<std::array<std::vector<uint32_t>, kPhaseNames.size()>, kPushKinds.size()>;

/// Servers that join have the same memory as those that are there, touched as early.
std::vector<std::string> memory_variables(const Config& config) {
    return {fmt::format("WEIR_PREFAULT={}", config.text("WEIR_PREFAULT")),
            fmt::format("WEIR_POOL_MIB={}", config.text("WEIR_POOL_MIB"))};
}

bool is_move(ElasticPhase phase) {
    return phase == ElasticPhase::kJoins || phase == ElasticPhase::kLeaves ||
           phase == ElasticPhase::kLost;
}

/// Pushes in turns until the moves are over.
Status run(ElasticLoad& load, const ElasticMoves* moves, Times& times) {
    std::vector<uint32_t> turn_ns;
    bool has_stopped = false;
    while (true) {
        for (size_t kind = 0; kind < kPushKinds.size(); ++kind) {
            turn_ns.clear();
            const ElasticPhase before = moves != nullptr ? moves->phase() : ElasticPhase::kBefore;
            WEIR_TRY(load.push(kPushKinds[kind], turn_ns));
            if (moves == nullptr) continue;
            // a push that began or ended during a move counts as one of the move
            const ElasticPhase phase = is_move(before) ? before : moves->phase();
            std::vector<uint32_t>& all = times[kind][static_cast<size_t>(phase)];
            all.insert(all.end(), turn_ns.begin(), turn_ns.end());
        }
        WEIR_ASSIGN(const bool is_last, load.end_turn());
        if (is_last) return {};
        if (moves == nullptr || !moves->is_over() || has_stopped) continue;
        WEIR_TRY(moves->outcome());
        WEIR_TRY(load.stop());
        has_stopped = true;
    }
}

void report_times(Times& times, bool has_losses, ElasticReport& report) {
    constexpr auto kUsual = static_cast<size_t>(ElasticPhase::kBetween);
    for (size_t kind = 0; kind < kPushKinds.size(); ++kind) {
        BenchRow usual;
        set_percentiles(usual, times[kind][kUsual]);
        for (const size_t phase : {0, 3, 1, 2, 4, 5}) {
            if (phase == 5 && !has_losses) continue;
            std::vector<uint32_t>& all = times[kind][phase];
            BenchRow row;
            set_percentiles(row, all);
            report.add({.push = kPushKinds[kind].name,
                        .when = kPhaseNames[phase],
                        .pushes = all.size(),
                        .p50_us = row.p50_us,
                        .p99_us = row.p99_us,
                        .max_us = all.empty() ? 0 : all.back() * 1e-3,
                        .p99_ratio = usual.p99_us > 0 ? row.p99_us / usual.p99_us : 0});
        }
    }
}

}  // namespace

Status bench_elastic(Client& client, const BenchFlags& flags, const JobShape& shape,
                     const Config& config, std::optional<ElasticMoves>& moves) {
    const bool reports = client.worker() == 0;
    if (reports && !flags.json.empty()) WEIR_TRY(data::check_output(flags.json));
    const uint64_t key_count = flags.brief ? 20'000 : 1'000'000;
    const uint32_t rounds = flags.rounds;
    const bool has_copies = flags.job.replicas > 0;
    ElasticLoad load(client, flags.table_mib, key_count);
    WEIR_TRY(load.prepare());
    std::optional<ElasticReport> report;
    if (reports) {
        report.emplace(
            fmt::format("{} workers push while {} servers join{}; a dense table of {} "
                        "MiB and a sparse one of {} keys",
                        client.worker_count(), has_copies ? 2 * rounds : rounds,
                        has_copies ? fmt::format(", {0} leave and {0} are killed", rounds)
                                   : fmt::format(" and {} leave", rounds),
                        flags.table_mib, key_count),
            shape);
        moves.emplace(ElasticPlan{.contact_file = flags.job.contact_file,
                                  .rounds = rounds,
                                  .shards = flags.job.shards_per_server,
                                  .variables = memory_variables(config),
                                  .pause_seconds = flags.seconds,
                                  .kills = has_copies,
                                  .cpu = flags.cpus.empty() ? -1 : flags.cpus[0]},
                      config);
    }
    Times times;
    WEIR_TRY(run(load, moves ? &*moves : nullptr, times));
    WEIR_ASSIGN(const uint64_t wrong, load.count_wrong_values());
    if (!reports) return {};
    report_times(times, has_copies, *report);
    report->set_totals({.rounds = rounds,
                        .acknowledged = load.push_count(),
                        .wrong_values = wrong,
                        .join_seconds = median(moves->joins_seconds()),
                        .leave_seconds = median(moves->leaves_seconds()),
                        .loss_seconds = median(moves->losses_seconds())});
    if (!flags.json.empty()) WEIR_TRY(report->write_json(flags.json));
    if (wrong == 0) return {};
    return Error(Errc::kProtocol,
                 fmt::format("{} values are not the sum of what was pushed to them", wrong));
}

}  // namespace weir::bench

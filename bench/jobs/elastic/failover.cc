// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/failover.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/elastic/elastic_load.h"
#include "bench/jobs/elastic/failover_kills.h"
#include "bench/jobs/json.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

/// What is pushed all the time, and the push by which a recovery is seen: its keys lie on all servers.
constexpr std::array<PushKindInfo, 4> kLoad = {{
    {PushKind::kKey, "1 key", 1, 8},
    {PushKind::kPage, "4 KiB", 8, 8},
    {PushKind::kBulk, "256 KiB", 2, 2},
    {PushKind::kIteration, "4 KiB, iteration", 1, 1},
}};
constexpr PushKindInfo kProbe = {PushKind::kList, "list of 1000 keys", 1, 1};

/// Memory that no server has to wait for; what was given for this process is given to them, too.
std::vector<std::string> variables_of(const Config& config) {
    return {fmt::format("WEIR_POOL_MIB={}", config.text("WEIR_POOL_MIB")),
            fmt::format("WEIR_LEASE_MS={}", config.text("WEIR_LEASE_MS"))};
}

/// Pushes in turns until the kills are over.
Status run(ElasticLoad& load, FailoverKills* kills) {
    const SteadyClock clock;
    std::vector<uint32_t> times_ns;
    bool has_stopped = false;
    while (true) {
        for (const PushKindInfo& kind : kLoad) {
            times_ns.clear();
            WEIR_TRY(load.push(kind, times_ns));
            const uint64_t begin_ns = clock.now_ns();
            WEIR_TRY(load.push(kProbe, times_ns));
            if (kills == nullptr) continue;
            const uint64_t failed_ns = kills->failed_ns();
            if (failed_ns != 0 && begin_ns > failed_ns) kills->recovered(clock.now_ns());
        }
        WEIR_ASSIGN(const bool is_last, load.end_turn());
        if (is_last) return {};
        if (kills == nullptr || !kills->is_over() || has_stopped) continue;
        WEIR_TRY(kills->outcome());
        WEIR_TRY(load.stop());
        has_stopped = true;
    }
}

struct FailoverResult {
    std::vector<double> times_ms;
    uint64_t acknowledged = 0;
    uint64_t wrong_values = 0;
    uint32_t kept = 0;  ///< servers that were cut off and are still members
};

FailoverFault fault_of(const BenchFlags& flags) {
    if (!flags.cut.empty()) return FailoverFault::kCut;
    return flags.stops ? FailoverFault::kStop : FailoverFault::kKill;
}

struct FaultText {
    const char* sentence;  ///< what servers do
    const char* name;
};

FaultText text_of(FailoverFault fault) {
    switch (fault) {
        case FailoverFault::kKill: return {"are killed", "KILL"};
        case FailoverFault::kStop: return {"are stopped", "STOP"};
        case FailoverFault::kCut: return {"are cut off", "CUT"};
    }
    return {};
}

/// Between two results, in proportion.
double quantile(std::vector<double> sorted, double q) {
    if (sorted.empty()) return 0;
    std::ranges::sort(sorted);
    const double place = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Status report(const FailoverResult& result, const BenchFlags& flags, const JobShape& shape) {
    const double median_ms = quantile(result.times_ms, 0.5);
    const double p90_ms = quantile(result.times_ms, 0.9);
    const double max_ms = quantile(result.times_ms, 1);
    const FaultText fault = text_of(fault_of(flags));
    fmt::print(
        "# Weir failover: {} times {} of the servers {} while a worker pushes; {}, {}; seed {}\n"
        "# From then to the first push to all servers that began later and was acknowledged:\n"
        "{:>10} {:>12} {:>12} {:>12}\n{:>10} {:>12.1f} {:>12.1f} {:>12.1f}\n"
        "# {} pushes of the first worker, none of which failed; {} wrong values, after all "
        "servers\n"
        "# that had joined were killed, too, so that what they held comes from copies.\n",
        result.times_ms.size(), flags.at_once, fault.sentence, shape.transports, shape.launcher,
        flags.seed, "rounds", "median ms", "90 % ms", "max ms", result.times_ms.size(), median_ms,
        p90_ms, max_ms, result.acknowledged, result.wrong_values);
    if (flags.heal_ms > 0)
        fmt::print("# {} of the cuts healed before the server was replaced.\n", result.kept);
    std::fflush(stdout);
    if (flags.json.empty()) return {};
    nlohmann::json rows = nlohmann::json::array();
    for (const double time_ms : result.times_ms)
        rows.push_back({{"milliseconds", time_ms}});
    nlohmann::json json = bench_json("failover", shape);
    json["seed"] = flags.seed;
    json["fault"] = fault.name;
    json["at_once"] = flags.at_once;
    json["kept"] = result.kept;
    json["rounds"] = result.times_ms.size();
    json["acknowledged"] = result.acknowledged;
    json["wrong_values"] = result.wrong_values;
    json["median_ms"] = median_ms;
    json["p90_ms"] = p90_ms;
    json["max_ms"] = max_ms;
    json["rows"] = std::move(rows);
    return data::write_whole_file(flags.json, json_text(json));
}

}  // namespace

Status bench_failover(Client& client, const BenchFlags& flags, const JobShape& shape,
                      const Config& config) {
    const bool reports = client.worker() == 0;
    if (reports && !flags.json.empty()) WEIR_TRY(data::check_output(flags.json));
    ElasticLoad load(client, flags.table_mib, flags.brief ? 20'000 : 200'000);
    WEIR_TRY(load.prepare());
    std::optional<FailoverKills> kills;
    if (reports) {
        const uint32_t needed = flags.at_once + 1;
        kills.emplace(
            FailoverPlan{.contact_file = flags.job.contact_file,
                         .rounds = flags.rounds,
                         .at_once = flags.at_once,
                         .servers = std::max(needed, static_cast<uint32_t>(flags.within.size())),
                         .shards = flags.job.shards_per_server,
                         .variables = variables_of(config),
                         .pause_seconds = flags.seconds,
                         .seed = flags.seed,
                         .fault = fault_of(flags),
                         .within = flags.within,
                         .cut = flags.cut,
                         .heal_ms = flags.heal_ms,
                         .cpu = flags.cpus.empty() ? -1 : flags.cpus[0]},
            config);
    }
    WEIR_TRY(run(load, kills ? &*kills : nullptr));
    WEIR_TRY(client.barrier());
    // Before anything is pushed again: then all that these servers held comes from copies, as the pushes
    // have left them.
    if (reports) WEIR_TRY(kills->kill_the_rest());
    WEIR_TRY(client.barrier());  // copies are made again in between
    FailoverResult result;
    WEIR_ASSIGN(result.wrong_values, load.count_wrong_values());
    if (!reports) return {};
    result.times_ms = kills->times_ms();
    result.kept = kills->kept();
    result.acknowledged = load.push_count();
    WEIR_TRY(report(result, flags, shape));
    if (result.wrong_values == 0) return {};
    return Error(
        Errc::kProtocol,
        fmt::format("{} values are not the sum of what was pushed to them", result.wrong_values));
}

}  // namespace weir::bench

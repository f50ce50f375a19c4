// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/traffic/traffic.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/local_ranks.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/apps/lr/lr_solver.h"
#include "lib/base/clock.h"
#include "lib/data/examples.h"
#include "lib/data/output_file.h"
#include "lib/data/synth.h"

namespace weir::bench {
namespace {

/// As text: what is there more than before, the codecs, and whether features are left out.
struct Step {
    const char* name;
    const char* filters;
    bool kkt;
};

constexpr Step kSteps[] = {{"key cache", "none", false},
                           {"+ zeros", "zeros", false},
                           {"+ compress", "zeros,compress", false},
                           {"+ KKT", "zeros,compress", true}};

/// What servers have sent and received, and the keys that this worker has not sent, as servers knew the list.
struct Counted {
    double worker_bytes = 0;
    double server_bytes = 0;
    double key_bytes = 0;
};

Result<Counted> count(Client& client) {
    WEIR_TRY(client.barrier());  // nothing else is under way
    WEIR_ASSIGN(const ClientStats stats, client.stats());
    WEIR_TRY(client.barrier());
    const FilterBytes& keys = stats.filters.key_cache;
    return Counted{static_cast<double>(stats.servers_bytes_received),
                   static_cast<double>(stats.servers_bytes_sent),
                   static_cast<double>(keys.before - keys.after)};
}

/// Trainings of the same examples, one after the other.
class TrafficBench {
public:
    TrafficBench(Client& client, const BenchFlags& flags, std::vector<std::string> files)
        : client_(client), flags_(flags), files_(std::move(files)) {}

    /// `unsent`: gets the bytes of keys that all workers would have sent without the servers' cache of lists.
    Result<TrafficRow> train(const Step& step, double& unsent) {
        const data::Part place{client_.worker(), client_.worker_count()};
        const std::string name = fmt::format("traffic{}", ++training_count_);
        WEIR_ASSIGN(const Filters filters, Filters::parse(step.filters));
        WEIR_ASSIGN(const std::unique_ptr<apps::ClientExchange> exchange,
                    apps::ClientExchange::make(client_, name, flags_.l1, place, filters));
        data::ReadOptions read;
        read.parts = {place};
        WEIR_ASSIGN(data::Examples examples, data::read_libsvm(files_, read));
        apps::LrOptions options;
        options.l1 = flags_.l1;
        options.kkt = step.kkt;
        if (flags_.brief) options.pass_count_max = 6;
        WEIR_ASSIGN(const Counted before, count(client_));
        const SteadyClock clock;
        const uint64_t begun_ns = clock.now_ns();
        WEIR_ASSIGN(apps::LrSolver solver,
                    apps::LrSolver::create(*exchange, std::move(examples), std::move(options)));
        WEIR_ASSIGN(const apps::LrResult trained, solver.solve());
        WEIR_ASSIGN(const Counted after, count(client_));
        TrafficRow row{.filters = step.name,
                       .worker_bytes = after.worker_bytes - before.worker_bytes,
                       .server_bytes = after.server_bytes - before.server_bytes,
                       .passes = trained.pass_count,
                       .objective = trained.objective,
                       .seconds = static_cast<double>(clock.now_ns() - begun_ns) * 1e-9,
                       .filtered = {}};
        for (const apps::LrProgress& pass : trained.history)
            row.filtered.push_back(pass.filtered_share);
        unsent = after.key_bytes - before.key_bytes;
        WEIR_TRY(client_.allreduce(std::span(&unsent, 1)));
        if (client_.worker() == 0) WEIR_TRY(apps::ClientExchange::drop(client_, name, false));
        return row;
    }

private:
    Client& client_;
    const BenchFlags& flags_;
    std::vector<std::string> files_;
    uint32_t training_count_ = 0;
};

}  // namespace

Status bench_traffic(Client& client, const BenchFlags& flags, const JobShape& shape) {
    const bool reports = client.worker() == 0;
    for (const std::string& path : {flags.json, flags.plot}) {
        if (reports && !path.empty()) WEIR_TRY(data::check_output(path));
    }
    std::optional<ScratchFolder> folder;
    std::vector<std::string> files = flags.data;
    std::string data = fmt::format("{} files", files.size());
    if (files.empty()) {  // each worker makes the same one
        WEIR_ASSIGN(ScratchFolder made, ScratchFolder::make());
        folder.emplace(std::move(made));
        files.push_back(folder->path() + "/clicks.svm");
        const uint64_t examples = flags.brief ? 1000 : 100'000;
        WEIR_ASSIGN([[maybe_unused]] const data::SynthReport report,
                    data::write_click_log(
                        files[0], {.example_count = examples, .feature_count = 10 * examples}));
        data = fmt::format("a click log of {} examples and {} features", examples, 10 * examples);
    }
    std::optional<TrafficReport> report;
    if (reports) report.emplace(shape, data, flags.l1);
    WEIR_TRY(measure_traffic(client, flags, files, report ? &*report : nullptr));
    if (!report) return {};
    report->print_legend();
    if (!flags.plot.empty()) WEIR_TRY(report->write_plot(flags.plot));
    return flags.json.empty() ? Status() : report->write_json(flags.json);
}

Status measure_traffic(Client& client, const BenchFlags& flags,
                       const std::vector<std::string>& files, TrafficReport* report) {
    TrafficBench bench(client, flags, files);
    for (const Step& step : kSteps) {
        double unsent = 0;
        WEIR_ASSIGN(const TrafficRow row, bench.train(step, unsent));
        if (report == nullptr) continue;
        if (&step == &kSteps[0]) {
            TrafficRow none = row;
            none.filters = "none";
            none.worker_bytes += unsent;
            report->add(none);
        }
        report->add(row);
    }
    return {};
}

}  // namespace weir::bench

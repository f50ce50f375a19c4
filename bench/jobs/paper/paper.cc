// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/paper/paper.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/local_ranks.h"
#include "bench/jobs/paper/paper_report.h"
#include "bench/jobs/slowdown.h"
#include "bench/jobs/traffic/traffic.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/apps/lr/make_solver.h"
#include "lib/apps/metrics.h"
#include "lib/apps/model.h"
#include "lib/apps/online/online_run.h"
#include "lib/base/clock.h"
#include "lib/data/examples.h"
#include "lib/data/output_file.h"
#include "lib/data/synth.h"

namespace weir::bench {
namespace {

constexpr std::array<uint32_t, 6> kTaus{0, 1, 2, 4, 8, 16};
constexpr uint32_t kEpochs = 5;  ///< of the online solver

/// A block takes so long where nothing is slowed; asleep, so that it does on a machine with few cores.
constexpr uint64_t kBlockNs = 2 * kMillisecond;
constexpr uint64_t kBurstNs = 8 * kBlockNs;

/// Trainings, one after the other. All workers make the same ones.
class PaperBench {
public:
    PaperBench(Client& client, const BenchFlags& flags) : client_(client), flags_(flags) {}

    [[nodiscard]] Result<apps::LrResult> train(const std::vector<std::string>& files,
                                               apps::LrOptions options);
    [[nodiscard]] Result<SolverRun> run(apps::BatchKind kind, double l1,
                                        const std::vector<std::string>& files);
    [[nodiscard]] Result<SolverRun> run_ftrl(const std::vector<std::string>& files);
    [[nodiscard]] Result<TauRow> slowed(uint32_t tau, double l1, double best,
                                        const std::vector<std::string>& files);

    [[nodiscard]] bool is_first() const { return client_.worker() == 0; }

private:
    [[nodiscard]] apps::LrOptions options(apps::BatchKind kind, double l1) const;
    [[nodiscard]] Result<double> objective_of(const apps::Model& model,
                                              const std::vector<std::string>& files) const;

    Client& client_;
    const BenchFlags& flags_;
    uint32_t training_count_ = 0;
};

apps::LrOptions PaperBench::options(apps::BatchKind kind, double l1) const {
    apps::LrOptions options;
    options.kind = kind;
    options.l1 = l1;
    options.tolerance = 1e-5;
    options.pass_count_max = 200;
    return options;
}

Result<apps::LrResult> PaperBench::train(const std::vector<std::string>& files,
                                         apps::LrOptions options) {
    const data::Part place{client_.worker(), client_.worker_count()};
    const std::string name = fmt::format("paper{}", ++training_count_);
    WEIR_ASSIGN(const std::unique_ptr<apps::ClientExchange> exchange,
                apps::make_exchange(client_, name, place, options, {}));
    data::ReadOptions read;
    read.parts = {place};
    WEIR_ASSIGN(data::Examples examples, data::read_libsvm(files, read));
    WEIR_TRY(client_.barrier());
    WEIR_ASSIGN(const std::unique_ptr<apps::BatchSolver> solver,
                apps::make_solver(client_, name, *exchange, {}, std::move(examples), options));
    WEIR_ASSIGN(apps::LrResult trained, solver->solve());
    WEIR_TRY(client_.barrier());
    if (is_first()) WEIR_TRY(apps::drop_tables(client_, name, false));
    return trained;
}

Result<SolverRun> PaperBench::run(apps::BatchKind kind, double l1,
                                  const std::vector<std::string>& files) {
    WEIR_ASSIGN(const apps::LrResult trained, train(files, options(kind, l1)));
    SolverRun run{.solver = std::string(name_of(kind)), .seconds = {}, .objectives = {}};
    for (const apps::LrProgress& pass : trained.history) {
        run.seconds.push_back(pass.seconds);
        run.objectives.push_back(pass.objective);
    }
    return run;
}

Result<double> PaperBench::objective_of(const apps::Model& model,
                                        const std::vector<std::string>& files) const {
    WEIR_ASSIGN(apps::Evaluation evaluation, apps::evaluate(model, files));
    const apps::Metrics metrics = measure(evaluation.scores);
    const double size = std::accumulate(model.weights.begin(), model.weights.end(), 0.0,
                                        [](double sum, double w) { return sum + std::abs(w); });
    return metrics.log_loss * static_cast<double>(metrics.example_count) + flags_.l1 * size;
}

/// An epoch is a stream under another name: how far a stream was learned goes by that. The penalty counts once beside the
/// losses of all epochs.
Result<SolverRun> PaperBench::run_ftrl(const std::vector<std::string>& files) {
    WEIR_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
    SolverRun run{.solver = "ftrl", .seconds = {}, .objectives = {}};
    const SteadyClock clock;
    const uint32_t epochs = flags_.brief ? 2 : kEpochs;
    double seconds = 0;
    for (uint32_t epoch = 1; epoch <= epochs; ++epoch) {
        apps::OnlineOptions options;
        options.l1 = flags_.l1 * epochs;
        for (size_t i = 0; i < files.size(); ++i) {
            const std::string name = fmt::format("{}/{}-{}.svm", folder.path(), epoch, i);
            std::filesystem::create_symlink(std::filesystem::absolute(files[i]), name);
            options.stream.push_back(name);
        }
        WEIR_TRY(client_.barrier());
        const uint64_t begun_ns = clock.now_ns();
        apps::OnlineRounds rounds;
        WEIR_ASSIGN(const apps::OnlineRun learned, apps::run_online(client_, options, rounds));
        seconds += static_cast<double>(clock.now_ns() - begun_ns) * 1e-9;
        double objective = 0;
        if (is_first()) {
            WEIR_ASSIGN(objective, objective_of(learned.model, files));
        }
        run.seconds.push_back(seconds);
        run.objectives.push_back(objective);
    }
    return run;
}

Result<TauRow> PaperBench::slowed(uint32_t tau, double l1, double best,
                                  const std::vector<std::string>& files) {
    const SteadyClock clock;
    WEIR_TRY(client_.barrier());
    const Slowdown slowdown{.begin_ns = clock.now_ns(),
                            .burst_ns = kBurstNs,
                            .factor = flags_.factor,
                            .worker_count = client_.worker_count()};
    apps::LrOptions options = this->options(apps::BatchKind::kDelayed, l1);
    options.tau = tau;
    options.tolerance = 0;
    bool is_near = false;
    options.computed = [&] {
        const uint64_t now_ns = clock.now_ns();
        const uint64_t end_ns = slowdown.end_of(client_.worker(), now_ns, kBlockNs);
        std::this_thread::sleep_for(std::chrono::nanoseconds(end_ns - now_ns));
    };
    options.progress = [&](const apps::LrProgress& pass) {
        is_near = is_near || pass.objective <= best * (1 + PaperReport::kNear);
    };
    options.stop = [&]() -> Result<int> { return is_near ? 1 : 0; };
    WEIR_ASSIGN(const apps::LrResult trained, train(files, options));
    TauRow row{.tau = tau};
    for (const apps::LrProgress& pass : trained.history) {
        if (pass.objective > best * (1 + PaperReport::kNear)) continue;
        row.seconds = pass.seconds;
        row.passes = pass.pass;
        break;
    }
    row.waiting_share = trained.waiting_share / client_.worker_count();
    WEIR_TRY(client_.allreduce(std::span(&row.waiting_share, 1)));
    return row;
}

/// Files of --data, or those that are made.
struct Files {
    std::vector<std::string> paths;
    std::string text;
};

Result<Files> make_clicks(const ScratchFolder& folder, const char* name, uint64_t examples,
                          uint64_t features) {
    Files files{{folder.path() + name}, {}};
    files.text = fmt::format("a click log of {} examples and {} features", examples, features);
    WEIR_ASSIGN([[maybe_unused]] const data::SynthReport report,
                data::write_click_log(files.paths[0],
                                      {.example_count = examples, .feature_count = features}));
    return files;
}

}  // namespace

Status bench_paper(Client& client, const BenchFlags& flags, const JobShape& shape) {
    WEIR_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
    PaperBench bench(client, flags);
    for (const std::string& path : {flags.json, flags.plot_file()}) {
        if (bench.is_first() && !path.empty()) WEIR_TRY(data::check_output(path));
    }
    Files files{flags.data, data::files_text(flags.data)};
    if (files.paths.empty()) {
        const uint64_t examples = flags.brief ? 1000 : 100'000;
        WEIR_ASSIGN(files, make_clicks(folder, "/clicks.svm", examples, 10 * examples));
    }
    std::optional<PaperReport> report;
    if (bench.is_first()) report.emplace(shape, files.text, flags.l1);

    if (report) report->begin_solvers();
    double best = std::numeric_limits<double>::infinity();
    for (const apps::BatchKind kind :
         {apps::BatchKind::kProx, apps::BatchKind::kDelayed, apps::BatchKind::kLbfgs}) {
        WEIR_ASSIGN(const SolverRun run, bench.run(kind, flags.l1, files.paths));
        for (const double objective : run.objectives)
            best = std::min(best, objective);
        if (report) report->add(run);
    }
    WEIR_ASSIGN(const SolverRun ftrl, bench.run_ftrl(files.paths));
    if (report) {
        report->add(ftrl);
        report->end_solvers(best);
    }

    // Of few examples, so that simulated computing is all that takes time; with a penalty that fits them.
    const double few_l1 = flags.brief ? flags.l1 : flags.l1 / 10;
    WEIR_ASSIGN(const Files few, make_clicks(folder, "/few.svm", flags.brief ? 500 : 10'000,
                                             flags.brief ? 5000 : 100'000));
    if (report)
        report->begin_delays(
            fmt::format("{}, l1 {}", few.text, few_l1),
            fmt::format("{} workers that compute for {} ms per block (asleep), by turns {} times "
                        "slower for {} ms",
                        client.worker_count(), kBlockNs / kMillisecond, flags.factor,
                        kBurstNs / kMillisecond));
    WEIR_ASSIGN(const SolverRun exact, bench.run(apps::BatchKind::kProx, few_l1, few.paths));
    const double few_best = *std::ranges::min_element(exact.objectives);
    for (const uint32_t tau : kTaus) {
        WEIR_ASSIGN(const TauRow row, bench.slowed(tau, few_l1, few_best, few.paths));
        if (report) report->add(row);
    }

    std::optional<TrafficReport> traffic;
    if (report) traffic.emplace(shape, files.text, flags.l1);
    WEIR_TRY(measure_traffic(client, flags, files.paths, traffic ? &*traffic : nullptr));
    if (!report) return {};
    traffic->print_legend();
    if (!flags.plot.empty()) WEIR_TRY(report->write_plots(flags.plot, *traffic));
    return flags.json.empty() ? Status() : report->write_json(flags.json, *traffic);
}

}  // namespace weir::bench

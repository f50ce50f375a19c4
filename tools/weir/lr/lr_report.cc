// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "lib/apps/plot_svg.h"
#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"
#include "lib/data/input_file.h"
#include "lib/data/output_file.h"
#include "tools/weir/lr/lr_traffic.h"
#include "tools/weir/lr/metrics_text.h"
#include "tools/weir/paths.h"
#include "tools/weir/stop_signals.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

std::string to_text(const apps::LrResult& r) {
    switch (r.end) {
        case apps::LrEnd::kGap: return "the gap is within the tolerance";
        case apps::LrEnd::kNoProgress: return "no more progress";
        case apps::LrEnd::kStopped: return fmt::format("stopped by {}", signal_name(r.stop_reason));
        case apps::LrEnd::kPassCount: break;
    }
    return "all passes are done";
}

/// Text about the proven distance to the optimum. With very many rare features beside a few that
/// most examples have, the bound stays loose although the objective has long settled.
std::string proof(const apps::LrResult& r) {
    if (!std::isfinite(r.gap)) return "";
    if (r.gap <= kTellingGap)
        return fmt::format("  (proven within {} of the optimum)", percent(r.gap));
    const char* settled = r.end == apps::LrEnd::kNoProgress ? "settled; " : "";
    return fmt::format("  ({}the distance to the optimum is not proven)", settled);
}

nlohmann::json parameters(const LrFlags& flags) {
    const apps::LrOptions& solver = flags.run.solver;
    const JobOptions& job = flags.job.options;
    const bool is_lbfgs = solver.kind == apps::BatchKind::kLbfgs;
    return {
        {"solver", flags.solver_name()},
        {"loss", apps::name_of(solver.loss)},
        {"classes", or_null(solver.classes.text())},
        {"l1", solver.l1},
        {"l2", solver.l2},
        {"history", is_lbfgs ? nlohmann::json(solver.pairs_max) : nullptr},
        {"passes", solver.pass_count_max},
        {"tolerance", solver.tolerance},
        {"blocks", solver.block_count},
        {"kkt", solver.kkt},
        {"tau", solver.kind == apps::BatchKind::kDelayed ? nlohmann::json(solver.tau) : nullptr},
        {"seed", solver.seed},
        {"threads", flags.run.threads},
        {"skip_bad", flags.run.skip_bad},
        {"labels", or_null(flags.run.labels.text())},
        {"filters", flags.run.filters.text()},
        {"servers", job.servers},
        {"shards", job.shards_per_server},
        {"workers", job.workers},
        {"colocate", job.colocate}};
}

nlohmann::json files(const LrFlags& flags) {
    return {{"train", flags.run.train},    {"test", flags.run.test},
            {"init", or_null(flags.init)}, {"model", or_null(flags.model)},
            {"json", or_null(flags.json)}, {"plot", or_null(flags.plot)}};
}

std::string_view name_of(JobEvent::Kind kind) {
    switch (kind) {
        case JobEvent::Kind::kServerJoined: return "server joined";
        case JobEvent::Kind::kServerLeft: return "server left";
        case JobEvent::Kind::kServerLost: return "server lost";
        case JobEvent::Kind::kWorkerJoined: return "worker joined";
        case JobEvent::Kind::kWorkerLeft: return "worker left";
        case JobEvent::Kind::kWorkerLost: return "worker lost";
        case JobEvent::Kind::kCheckpointFailed: return "checkpoint failed";
        case JobEvent::Kind::kManagerLeads: return "manager leads";
        case JobEvent::Kind::kCheckpoint: break;
    }
    return "checkpoint";
}

nlohmann::json to_json(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    const apps::LrResult& r = run.result;
    nlohmann::json json{{"version", WEIR_VERSION},
                        {"parameters", parameters(flags)},
                        {"files", files(flags)},
                        {"objective", r.objective},
                        {"nonzeros", r.nonzero_count},
                        {"test_features", nullptr},
                        {"test_features_unseen", nullptr},
                        {"passes", r.pass_count},
                        {"seconds", r.seconds},
                        {"bytes_sent", run.traffic.server_bytes + run.traffic.worker_bytes},
                        {"traffic", traffic_json(run.traffic)},
                        {"bytes_copied", run.traffic.bytes_copied},
                        {"registered_bytes", run.traffic.registered_bytes},
                        {"examples", r.example_count},
                        {"features", r.feature_count},
                        {"gap", nullptr},
                        {"blocks", r.block_count},
                        {"waiting_share", r.waiting_share},
                        {"bad_lines", run.bad_lines.count},
                        {"test_bad_lines", run.bad_test_lines.count},
                        {"read_bytes", run.read.text_bytes},
                        {"read_seconds", run.read.seconds},
                        {"data_bytes", run.data_bytes},
                        {"peak_bytes", peak_bytes()},
                        {"ended_because", to_text(r)},
                        {"servers", shape.server_count},
                        {"workers", shape.worker_count},
                        {"launcher", shape.launcher},
                        {"transports", shape.transports},
                        {"warnings", run.warnings}};
    if (std::isfinite(r.gap)) json["gap"] = r.gap;
    add_metrics(json, "train_", run.train);
    add_metrics(json, "test_", run.test);
    if (run.test) {
        json["test_features"] = run.unseen.feature_count;
        json["test_features_unseen"] = run.unseen.unseen_count;
    }
    nlohmann::json history = nlohmann::json::array();
    for (const apps::LrProgress& p : r.history) {
        history.push_back({{"pass", p.pass},
                           {"seconds", p.seconds},
                           {"objective", p.objective},
                           {"nonzeros", p.nonzero_count},
                           {"filtered", p.filtered_share}});
    }
    json["history"] = std::move(history);
    json["restarts"] = run.restarts;
    json["events"] = events_json(run.events);
    return json;
}

void print_filtered(std::FILE* to, const std::vector<apps::LrProgress>& history) {
    double sum = 0;
    double most = 0;
    for (const apps::LrProgress& pass : history) {
        sum += pass.filtered_share;
        most = std::max(most, pass.filtered_share);
    }
    if (most == 0) return;
    fmt::print(to, "filtered        {} of the features in an average pass, {} at most\n",
               share_text(sum / static_cast<double>(history.size())), share_text(most));
}

void print_summary(std::FILE* to, const apps::LrRun& run) {
    const apps::LrResult& r = run.result;
    fmt::print(to, "objective       {:.6g}{}\n", r.objective, proof(r));
    fmt::print(to, "non-zeros       {} of {} features\n", r.nonzero_count, r.feature_count);
    fmt::print(to, "train           {}\n", metrics_text(run.train));
    if (run.test) fmt::print(to, "test            {}\n", metrics_text(*run.test));
    fmt::print(to, "passes          {} in {:.3g} s: {}\n", r.pass_count, r.seconds, to_text(r));
    if (!run.restarts.empty())
        fmt::print(to, "workers         came or went {}; the work was dealt out anew\n",
                   counted(run.restarts.size(), "time"));
    print_filtered(to, r.history);
    fmt::print(to, "moved           {}; {:.4g} MB copied\n", traffic_text(run.traffic),
               static_cast<double>(run.traffic.bytes_copied) / 1e6);
    for (const apps::BadLines* const bad : {&run.bad_lines, &run.bad_test_lines}) {
        if (bad->count > 0)
            fmt::print(to, "left out        {}; the first: {}\n", counted(bad->count, "bad line"),
                       bad->first);
    }
}

/// The title of the plot: the training, in one line.
std::string plot_title(const LrFlags& flags, const JobShape& shape) {
    const apps::LrOptions& solver = flags.run.solver;
    std::string penalty = fmt::format("l1 = {}", solver.l1);
    if (solver.kind == apps::BatchKind::kLbfgs) penalty += fmt::format(", l2 = {}", solver.l2);
    return fmt::format("{}, {}, {}: {}, {}", titled_files(flags.run.train), penalty,
                       counted(shape.size, "rank"), counted(shape.server_count, "server"),
                       counted(shape.worker_count, "worker"));
}

apps::PlotMark::Kind mark_kind_of(JobEvent::Kind kind) {
    using Mark = apps::PlotMark::Kind;
    switch (kind) {
        case JobEvent::Kind::kServerLost:
        case JobEvent::Kind::kWorkerLost: return Mark::kFailure;
        case JobEvent::Kind::kCheckpoint: return Mark::kCheckpoint;
        case JobEvent::Kind::kCheckpointFailed: return Mark::kFailedCheckpoint;
        case JobEvent::Kind::kManagerLeads: return Mark::kManager;
        default: return Mark::kMove;
    }
}

apps::PlotMark mark_of(const TrainingEvent& event) {
    std::string text(name_of(event.kind));  // "server lost", "checkpoint"
    const bool has_number = event.kind != JobEvent::Kind::kCheckpointFailed || event.number != 0;
    const char* const of = event.kind == JobEvent::Kind::kManagerLeads ? " of rank" : "";
    if (has_number)
        text.insert(std::min(text.find(' '), text.size()), fmt::format("{} {}", of, event.number));
    if (!event.why.empty()) text += ": " + event.why;
    return {event.seconds, mark_kind_of(event.kind), std::move(text)};
}

std::string plot(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    std::vector<apps::PlotPoint> points;
    for (const apps::LrProgress& p : run.result.history)
        points.push_back({p.seconds, p.objective, p.filtered_share});
    std::string note = fmt::format("{}, {}", counted(run.result.example_count, "example"),
                                   counted(run.result.pass_count, "pass"));
    if (run.result.gap <= kTellingGap)
        note +=
            fmt::format(", the result proven within {} of the optimum", percent(run.result.gap));
    return apps::plot_descent(points, {plot_title(flags, shape), note, traffic_text(run.traffic)},
                              marks_of(run.events));
}

Results results_of(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    return {run.warnings, run.model, [&] { return json_text(to_json(flags, run, shape)); },
            [&] { return plot(flags, run, shape); }};
}

std::FILE* summary_of(const LrFlags& flags) {
    const std::string* const outputs[] = {&flags.model, &flags.json, &flags.plot};
    const bool taken = std::any_of(std::begin(outputs), std::end(outputs),
                                   [](const std::string* path) { return is_stdout(*path); });
    return taken ? stderr : stdout;
}

}  // namespace

nlohmann::json or_null(const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json events_json(const std::vector<TrainingEvent>& events) {
    nlohmann::json json = nlohmann::json::array();
    for (const TrainingEvent& event : events) {
        json.push_back({{"seconds", event.seconds},
                        {"what", name_of(event.kind)},
                        {"number", event.number},
                        {"why", or_null(event.why)}});
    }
    return json;
}

std::vector<apps::PlotMark> marks_of(const std::vector<TrainingEvent>& events) {
    std::vector<apps::PlotMark> marks;
    for (const TrainingEvent& event : events)
        marks.push_back(mark_of(event));
    return marks;
}

std::string titled_files(const std::vector<std::string>& paths) {
    std::vector<std::string> names;
    for (const std::string& path : paths) {
        const std::string name = std::filesystem::path(path).filename().string();
        names.push_back(path == data::kStandardInput || name.empty() ? data::input_name(path)
                                                                     : name);
    }
    return data::files_text(names);
}

uint64_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::string percent(double share) {
    return fmt::format("{:.2g} %", 100 * share);
}

std::string share_text(double share) {
    return fmt::format("{:.3g} %", 100 * share);
}

Status write_results(const LrFlags& flags, const Results& results,
                     const std::function<void(std::FILE*)>& print_summary) {
    std::FILE* const to = summary_of(flags);
    for (const std::string& warning : results.warnings)
        log(LogLevel::kWarning, "{}", warning);
    print_summary(to);
    (void)std::fflush(to);
    if (!flags.model.empty()) WEIR_TRY(apps::write_model(flags.model, results.model));
    if (!flags.json.empty()) WEIR_TRY(data::write_whole_file(flags.json, results.json()));
    if (!flags.plot.empty()) WEIR_TRY(data::write_whole_file(flags.plot, results.plot()));
    for (const std::string* const path : {&flags.model, &flags.json, &flags.plot}) {
        if (!path->empty() && !is_stdout(*path)) fmt::print(to, "written         {}\n", *path);
    }
    (void)std::fflush(to);  // main() checks the state of stdout
    return {};
}

Status rewrite_events(const LrFlags& flags, const Results& results) {
    const auto is_there = [](const std::string& path) {
        return !path.empty() && data::is_replaceable(path);
    };
    if (is_there(flags.json)) WEIR_TRY(data::write_whole_file(flags.json, results.json()));
    if (is_there(flags.plot)) WEIR_TRY(data::write_whole_file(flags.plot, results.plot()));
    return {};
}

Status report(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    return write_results(flags, results_of(flags, run, shape),
                         [&](std::FILE* to) { print_summary(to, run); });
}

Status report_events(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    return rewrite_events(flags, results_of(flags, run, shape));
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/online_report.h"

#include <cstdio>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/apps/plot_svg.h"
#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"
#include "lib/data/output_file.h"
#include "tools/weir/lr/lr_report.h"
#include "tools/weir/lr/lr_traffic.h"
#include "tools/weir/stop_signals.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

const char* loss_name(apps::Loss loss) {
    return loss == apps::Loss::kSquared ? "squared error" : "log loss";
}

/// A log loss has about the same size whatever the data; a squared error has not.
std::string loss_text(apps::Loss loss, double value) {
    return loss == apps::Loss::kSquared ? fmt::format("{:.4g}", value)
                                        : fmt::format("{:.4f}", value);
}

std::string measures_text(const apps::OnlineProgress& p) {
    std::string text;
    if (p.accuracy) text += fmt::format("  accuracy {:.4f}", *p.accuracy);
    if (p.auc) text += fmt::format("  AUC {:.4f}", *p.auc);
    return text;
}

/// What this job has learned, without what a checkpoint had.
struct Learned {
    double examples;
    double features;
    double seconds;

    explicit Learned(const apps::OnlineRun& run)
        : examples(static_cast<double>(run.total.examples - run.resumed.examples)),
          features(static_cast<double>(run.total.features - run.resumed.features)),
          seconds(run.total.seconds) {}

    [[nodiscard]] double per_second(double count) const {
        return seconds > 0 ? count / seconds : 0;
    }
};

nlohmann::json number_or_null(const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json online_parameters(const LrFlags& flags) {
    const apps::OnlineOptions& online = flags.online;
    const JobOptions& job = flags.job.options;
    nlohmann::json json{{"solver", apps::name_of(online.solver)},
                        {"loss", apps::name_of(online.loss)},
                        {"classes", or_null(online.classes.text())},
                        {"alpha", online.rate()},
                        {"batch", online.batch},
                        {"skip_bad", online.skip_bad},
                        {"labels", or_null(online.labels.text())},
                        {"filters", online.filters.text()},
                        {"servers", job.servers},
                        {"shards", job.shards_per_server},
                        {"workers", job.workers},
                        {"colocate", job.colocate}};
    if (online.solver != apps::OnlineSolver::kFtrl) return json;
    json["beta"] = online.beta;
    json["l1"] = online.l1;
    json["l2"] = online.l2;
    return json;
}

nlohmann::json to_json(const LrFlags& flags, const apps::OnlineRun& run, const JobShape& shape) {
    const Learned learned(run);
    nlohmann::json json{
        {"version", WEIR_VERSION},
        {"parameters", online_parameters(flags)},
        {"files",
         {{"stream", flags.online.stream},
          {"model", or_null(flags.model)},
          {"json", or_null(flags.json)},
          {"plot", or_null(flags.plot)}}},
        {"loss", run.total.loss},
        {"accuracy", number_or_null(run.total.accuracy)},
        {"auc", number_or_null(run.total.auc)},
        {"examples", run.total.examples},
        {"resumed_examples", run.resumed.examples},
        {"values", run.total.features},
        {"seconds", run.total.seconds},
        {"examples_per_s", learned.per_second(learned.examples)},
        {"features_per_s", learned.per_second(learned.features)},
        {"nonzeros", run.model.keys.size()},
        {"features", run.feature_count},
        {"bad_lines", run.total.bad_lines},
        {"bytes_sent", run.traffic.server_bytes + run.traffic.worker_bytes},
        {"traffic", traffic_json(run.traffic)},
        {"bytes_copied", run.traffic.bytes_copied},
        {"registered_bytes", run.traffic.registered_bytes},
        {"peak_bytes", peak_bytes()},
        {"ended_because", run.stop_reason == 0
                              ? std::string("the stream is at its end")
                              : fmt::format("stopped by {}", signal_name(run.stop_reason))},
        {"servers", shape.server_count},
        {"workers", shape.worker_count},
        {"launcher", shape.launcher},
        {"transports", shape.transports},
        {"warnings", run.warnings}};
    nlohmann::json history = nlohmann::json::array();
    for (const apps::OnlineProgress& p : run.history) {
        history.push_back({{"seconds", p.seconds},
                           {"examples", p.examples},
                           {"values", p.features},
                           {"loss", p.loss},
                           {"recent_loss", p.recent_loss},
                           {"accuracy", number_or_null(p.accuracy)},
                           {"auc", number_or_null(p.auc)}});
    }
    json["history"] = std::move(history);
    json["restarts"] = run.restarts;
    json["events"] = events_json(run.events);
    return json;
}

void print_summary(std::FILE* to, const LrFlags& flags, const apps::OnlineRun& run) {
    const Learned learned(run);
    fmt::print(to, "progressive     {} {}{}  ({} examples)\n", loss_name(flags.online.loss),
               loss_text(flags.online.loss, run.total.loss), measures_text(run.total),
               run.total.examples);
    if (run.resumed.examples > 0)
        fmt::print(to, "of these        {} were learned before this job, or this rank, began\n",
                   run.resumed.examples);
    fmt::print(to, "non-zeros       {} of {} features\n", run.model.keys.size(), run.feature_count);
    fmt::print(to, "speed           {:.3g} s, {:.4g} examples/s, {:.4g} features/s\n",
               learned.seconds, learned.per_second(learned.examples),
               learned.per_second(learned.features));
    if (!run.restarts.empty())
        fmt::print(to, "workers         came or went {}; the work was dealt out anew\n",
                   counted(run.restarts.size(), "time"));
    fmt::print(to, "moved           {}; {:.4g} MB copied\n", traffic_text(run.traffic),
               static_cast<double>(run.traffic.bytes_copied) / 1e6);
    if (run.total.bad_lines > 0) {
        fmt::print(to, "left out        {}{}{}\n", counted(run.total.bad_lines, "bad line"),
                   run.first_bad_line.empty() ? "" : "; one of them: ", run.first_bad_line);
    }
}

std::string plot(const LrFlags& flags, const apps::OnlineRun& run, const JobShape& shape) {
    std::vector<apps::LossPoint> points;
    for (const apps::OnlineProgress& p : run.history)
        points.push_back({p.seconds, p.loss, p.recent_loss});
    const std::string title =
        fmt::format("{}, {}, {}: {}, {}", titled_files(flags.online.stream),
                    apps::name_of(flags.online.solver), counted(shape.size, "rank"),
                    counted(shape.server_count, "server"), counted(shape.worker_count, "worker"));
    const std::string note = fmt::format(
        "{} {}{} of {}", loss_name(flags.online.loss), loss_text(flags.online.loss, run.total.loss),
        measures_text(run.total), counted(run.total.examples, "example"));
    return apps::plot_losses(points, fmt::format("progressive {}", loss_name(flags.online.loss)),
                             {title, note, traffic_text(run.traffic)}, marks_of(run.events));
}

Results results_of(const LrFlags& flags, const apps::OnlineRun& run, const JobShape& shape) {
    return {run.warnings, run.model, [&] { return json_text(to_json(flags, run, shape)); },
            [&] { return plot(flags, run, shape); }};
}

}  // namespace

std::string progress_text(apps::Loss loss, const apps::OnlineProgress& p) {
    return fmt::format("{:9} examples {:8.2f} s  {} {}, now {}{}  {:.3g} features/s", p.examples,
                       p.seconds, loss_name(loss), loss_text(loss, p.loss),
                       loss_text(loss, p.recent_loss), measures_text(p), p.features_per_s);
}

Status report_online(const LrFlags& flags, const apps::OnlineRun& run, const JobShape& shape) {
    return write_results(flags, results_of(flags, run, shape),
                         [&](std::FILE* to) { print_summary(to, flags, run); });
}

Status report_online_events(const LrFlags& flags, const apps::OnlineRun& run,
                            const JobShape& shape) {
    return rewrite_events(flags, results_of(flags, run, shape));
}

}  // namespace weir::tools

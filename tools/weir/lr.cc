// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "lib/apps/client_exchange.h"
#include "lib/apps/plot_svg.h"
#include "lib/base/log.h"
#include "lib/data/output_file.h"
#include "lib/data/shortage.h"
#include "tools/weir/command.h"
#include "tools/weir/progress.h"

namespace weir::tools {
namespace {

namespace fs = std::filesystem;

const char* to_text(apps::LrEnd end) {
    switch (end) {
        case apps::LrEnd::kGap: return "the gap is within the tolerance";
        case apps::LrEnd::kNoProgress: return "no more progress";
        case apps::LrEnd::kPassCount: break;
    }
    return "all passes are done";
}

uint64_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

/// A proof that leaves a tenth of the objective open says nothing to a person.
constexpr double kTellingGap = 0.1;

/// A share of the objective, for people: "2.8 %".
std::string percent(double share) {
    return fmt::format("{:.2g} %", 100 * share);
}

/// What is known of the distance to the optimum. Where very many rare features meet a few in most
/// examples, the bound stays far off when the objective has long settled.
std::string proof(const apps::LrResult& r) {
    if (!std::isfinite(r.gap)) return "";
    if (r.gap <= kTellingGap)
        return fmt::format("  (proven within {} of the optimum)", percent(r.gap));
    const char* settled = r.end == apps::LrEnd::kNoProgress ? "settled; " : "";
    return fmt::format("  ({}how near the optimum is cannot be proven here)", settled);
}

nlohmann::json to_json(const apps::LrRun& run, const JobShape& shape) {
    const apps::LrResult& r = run.result;
    nlohmann::json json{{"objective", r.objective},
                        {"nonzeros", r.nonzero_count},
                        {"train_accuracy", run.train.accuracy},
                        {"train_auc", nullptr},
                        {"train_log_loss", run.train.log_loss},
                        {"test_accuracy", nullptr},
                        {"test_auc", nullptr},
                        {"test_log_loss", nullptr},
                        {"test_features", nullptr},
                        {"test_features_unseen", nullptr},
                        {"passes", r.pass_count},
                        {"seconds", r.seconds},
                        {"bytes_sent", run.bytes_sent},
                        {"bytes_copied", run.bytes_copied},
                        {"registered_bytes", run.registered_bytes},
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
                        {"ended_because", to_text(r.end)},
                        {"servers", shape.server_count},
                        {"workers", shape.worker_count},
                        {"launcher", shape.launcher},
                        {"transports", shape.transports}};
    if (std::isfinite(r.gap)) json["gap"] = r.gap;
    if (run.train.auc) json["train_auc"] = *run.train.auc;
    if (run.test) {
        json["test_accuracy"] = run.test->accuracy;
        json["test_log_loss"] = run.test->log_loss;
        if (run.test->auc) json["test_auc"] = *run.test->auc;
        json["test_features"] = run.unseen.feature_count;
        json["test_features_unseen"] = run.unseen.unseen_count;
    }
    json["warnings"] = run.warnings;
    nlohmann::json history = nlohmann::json::array();
    for (const apps::LrProgress& p : r.history) {
        history.push_back({{"pass", p.pass},
                           {"seconds", p.seconds},
                           {"objective", p.objective},
                           {"nonzeros", p.nonzero_count}});
    }
    json["history"] = std::move(history);
    return json;
}

/// Accuracy, AUC and log loss on one line.
void print_metrics(const char* name, const apps::Metrics& m) {
    fmt::print("{:14}  accuracy {:.4f}  AUC {}  log loss {:.4f}  ({} examples)\n", name, m.accuracy,
               m.auc ? fmt::format("{:.4f}", *m.auc) : "-", m.log_loss, m.example_count);
}

void print_summary(const apps::LrRun& run) {
    const apps::LrResult& r = run.result;
    fmt::print("objective       {:.6g}{}\n", r.objective, proof(r));
    fmt::print("non-zeros       {} of {} features\n", r.nonzero_count, r.feature_count);
    print_metrics("train", run.train);
    if (run.test) print_metrics("test", *run.test);
    fmt::print("passes          {} in {:.3g} s: {}\n", r.pass_count, r.seconds, to_text(r.end));
    fmt::print("moved           {:.4g} MB sent, {:.4g} MB copied\n",
               static_cast<double>(run.bytes_sent) / 1e6,
               static_cast<double>(run.bytes_copied) / 1e6);
    for (const apps::BadLines* const bad : {&run.bad_lines, &run.bad_test_lines}) {
        if (bad->count > 0)
            fmt::print("left out        {} bad lines; the first: {}\n", bad->count, bad->first);
    }
}

Status write_outputs(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    if (!flags.model.empty()) WEIR_TRY(apps::write_model(flags.model, run.model));
    if (!flags.json.empty()) {
        WEIR_TRY(apps::write_text_file(flags.json, to_json(run, shape).dump(2) + "\n"));
    }
    if (flags.plot.empty()) return {};
    std::vector<apps::PlotPoint> points;
    for (const apps::LrProgress& p : run.result.history)
        points.push_back({p.seconds, p.objective});
    return apps::write_text_file(
        flags.plot, apps::plot_svg(points, {"Sparse logistic regression", "seconds", "objective"}));
}

/// What came out, for people and into the files.
Status report(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape) {
    for (const std::string& warning : run.warnings)
        log(LogLevel::kWarning, "{}", warning);
    print_summary(run);
    WEIR_TRY(write_outputs(flags, run, shape));
    for (const std::string& path : {flags.model, flags.json, flags.plot}) {
        if (!path.empty()) fmt::print("written         {}\n", path);
    }
    (void)std::fflush(stdout);  // main looks whether that went well
    return {};
}

/// The files that it is told to write. They must be writable: better said before the training.
/// Only the worker that writes them looks: the others' folders need not be the same.
Status check_outputs(const LrFlags& flags) {
    for (const std::string& path : {flags.model, flags.json, flags.plot}) {
        if (!path.empty()) WEIR_TRY(data::check_output(path));
    }
    return {};
}

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code error;
    if (fs::exists(a, error) && fs::exists(b, error)) {
        return fs::is_regular_file(a, error) && fs::equivalent(a, b, error);
    }
    const auto whole = [](const fs::path& path) {
        std::error_code none;  // without a working directory, a path is all that is known
        const fs::path from_root = fs::absolute(path, none);
        const fs::path canonical = none ? path : fs::weakly_canonical(from_root, none);
        return none ? path : canonical;
    };
    return whole(a) == whole(b);
}

/// No output may be what is read, nor two of them the same.
Status check_paths(const LrFlags& flags) {
    std::vector<std::pair<std::string_view, std::string>> taken;
    for (const std::string& path : flags.run.train)
        taken.emplace_back("--train", path);
    for (const std::string& path : flags.run.test)
        taken.emplace_back("--test", path);
    const std::pair<std::string_view, const std::string&> outputs[] = {
        {"--model", flags.model}, {"--json", flags.json}, {"--plot", flags.plot}};
    for (const auto& [flag, path] : outputs) {
        if (path.empty()) continue;
        for (const auto& [other_flag, other] : taken) {
            if (!is_same_file(path, other)) continue;
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} {} is the file of {}: give it a name of its own", flag,
                                     path, other_flag));
        }
        taken.emplace_back(flag, path);
    }
    return {};
}

/// The outcomes of this process's workers; the first real error wins over those that it caused.
class Outcomes {
public:
    void add(Status outcome) {
        if (outcome) return;
        const std::lock_guard lock(mutex_);
        const bool echo = outcome.code() == Errc::kPeerLost;
        if (!error_ || (was_echo_ && !echo)) {
            error_ = std::move(outcome).error();
            was_echo_ = echo;
        }
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

private:
    std::mutex mutex_;
    std::optional<Error> error_;
    bool was_echo_ = false;
};

Result<apps::LrRun> train(Client& client, const LrFlags& flags, bool speaks) {
    Progress progress;
    apps::LrRunOptions options = flags.run;
    if (speaks) {
        options.solver.progress = [&](const apps::LrProgress& p) {
            const std::string gap = p.gap <= kTellingGap ? ", gap " + percent(p.gap) : "";
            progress.show(fmt::format("pass {:4}  {:7.2f} s  objective {:.6g}, {} non-zeros{}",
                                      p.pass, p.seconds, p.objective, p.nonzero_count, gap));
        };
    }
    Result<apps::LrRun> run = data::or_shortage([&]() -> Result<apps::LrRun> {
        if (speaks) WEIR_TRY(check_outputs(flags));
        return apps::run_lr(client, options);
    });
    if (speaks) progress.end();
    return run;
}

/// Everything of one worker. The first one writes what came out before it leaves, and nobody leaves
/// with an error before that: a launcher may end all ranks once one has failed.
Status work(Job& job, uint32_t i, const LrFlags& flags) {
    WEIR_ASSIGN(Client client, job.make_client(i));
    const bool speaks = client.worker() == 0;
    const Result<apps::LrRun> run = train(client, flags, speaks);
    if (!run) {
        (void)client.leave(run.error());
        return run.error();
    }
    Status written;
    if (speaks) written = data::or_shortage([&] { return report(flags, *run, job.shape()); });
    if (!run->tested) (void)client.barrier(std::chrono::hours(24));  // a large model takes a while
    const Status left = client.leave(run->tested);
    if (!run->tested) return run->tested;
    return written ? left : written;
}

}  // namespace

int run_lr(LrFlags& flags, Config& config) {
    if (const Status status = check_paths(flags); !status) return failure(status.error());
    flags.job.apply_to(config);
    flags.job.options.add_rules = apps::add_exchange_rules;
    Result<std::unique_ptr<Job>> started =
        data::or_shortage([&] { return Job::start(flags.job.options, config); });
    if (!started) return failure(started.error());
    Job& job = **started;
    const JobShape& shape = job.shape();
    Outcomes outcomes;
    const Status ran = data::or_shortage([&]() -> Status {
        if (shape.local_workers == 0) return {};
        job.run_workers([&](uint32_t i) { outcomes.add(work(job, i, flags)); });
        return {};
    });
    if (!ran) return failure(ran.error());
    const Status served = job.serve();
    if (outcomes.error()) return failure(*outcomes.error());
    if (!served && shape.is_server) return failure(served.error());
    return kExitOk;
}

}  // namespace weir::tools

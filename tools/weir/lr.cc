// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "lib/apps/client_exchange.h"
#include "lib/apps/lr_run.h"
#include "lib/apps/plot_svg.h"
#include "lib/data/shortage.h"
#include "tools/weir/job_flags.h"
#include "tools/weir/progress.h"

namespace weir::tools {
namespace {

struct LrFlags {
    JobFlags job;
    apps::LrRunOptions run;
    std::string model;
    std::string json;
    std::string plot;
};

int failure(const Error& error) {
    fmt::print(stderr, "weir: error: {}\n", error.message());
    return error.code() == Errc::kInvalidArgument ? kExitUsage : kExitFailure;
}

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

nlohmann::json to_json(const apps::LrRun& run, const JobShape& shape) {
    const apps::LrResult& r = run.result;
    nlohmann::json json{{"objective", r.objective},
                        {"nonzeros", r.nonzero_count},
                        {"train_accuracy", r.train_accuracy},
                        {"test_accuracy", nullptr},
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
                        {"bad_lines", run.bad_line_count},
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
    if (run.test_example_count > 0) json["test_accuracy"] = run.test_accuracy;
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

void print_summary(const apps::LrRun& run) {
    const apps::LrResult& r = run.result;
    fmt::print("objective       {:.6g}", r.objective);
    if (std::isfinite(r.gap)) fmt::print("  (proven within {:.2g} of the optimum)", r.gap);
    fmt::print("\nnon-zeros       {} of {} features\n", r.nonzero_count, r.feature_count);
    fmt::print("train accuracy  {:.4f}  ({} examples)\n", r.train_accuracy, r.example_count);
    if (run.test_example_count > 0) {
        fmt::print("test accuracy   {:.4f}  ({} examples)\n", run.test_accuracy,
                   run.test_example_count);
    }
    fmt::print("passes          {} in {:.3g} s: {}\n", r.pass_count, r.seconds, to_text(r.end));
    fmt::print("moved           {:.4g} MB sent, {:.4g} MB copied\n",
               static_cast<double>(run.bytes_sent) / 1e6,
               static_cast<double>(run.bytes_copied) / 1e6);
    if (run.bad_line_count > 0) {
        fmt::print("left out        {} bad lines; the first: {}\n", run.bad_line_count,
                   run.read.first_bad_line.empty() ? "another worker's" : run.read.first_bad_line);
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

/// Where output shall go must be writable: better said before the training than after it.
Status check_outputs(const LrFlags& flags) {
    for (const std::string& path : {flags.model, flags.json, flags.plot}) {
        if (path.empty()) continue;
        const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
        std::error_code error;
        if (std::filesystem::is_directory(path, error) ||
            !std::filesystem::is_directory(folder, error)) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("cannot write {}: {} is not a folder, or the name is one's",
                                     path, folder.string()));
        }
    }
    return {};
}

/// The outcomes of this process's workers; the first real error wins over those that it caused.
class Outcomes {
public:
    void add(Result<apps::LrRun> outcome, bool first_worker) {
        const std::lock_guard lock(mutex_);
        if (outcome) {
            if (first_worker) run_ = std::move(*outcome);
            return;
        }
        const bool echo = outcome.code() == Errc::kPeerLost;
        if (!error_ || (was_echo_ && !echo)) {
            error_ = std::move(outcome).error();
            was_echo_ = echo;
        }
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

    [[nodiscard]] const std::optional<apps::LrRun>& run() const { return run_; }

private:
    std::mutex mutex_;
    std::optional<Error> error_;
    bool was_echo_ = false;
    std::optional<apps::LrRun> run_;
};

Result<apps::LrRun> work(Job& job, uint32_t i, apps::LrRunOptions options) {
    WEIR_ASSIGN(Client client, job.make_client(i));
    Progress progress;
    const bool speaks = client.worker() == 0;
    if (speaks) {
        options.solver.progress = [&](const apps::LrProgress& p) {
            const std::string gap = std::isfinite(p.gap) ? fmt::format(", gap {:.1e}", p.gap) : "";
            progress.show(fmt::format("pass {:4}  {:7.2f} s  objective {:.6g}, {} non-zeros{}",
                                      p.pass, p.seconds, p.objective, p.nonzero_count, gap));
        };
    }
    Result<apps::LrRun> run = data::or_shortage([&] { return apps::run_lr(client, options); });
    if (speaks) progress.end();
    const Status left = client.leave(run ? Status() : Status(run.error()));
    if (run && !left) return Error(left.error());
    return run;
}

int run_lr(LrFlags& flags, Config& config) {
    if (const Status status = check_outputs(flags); !status) return failure(status.error());
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
        job.run_workers([&](uint32_t i) {
            outcomes.add(work(job, i, flags.run), shape.first_worker + i == 0);
        });
        return {};
    });
    if (!ran) return failure(ran.error());
    const Status served = job.serve();
    if (outcomes.error()) return failure(*outcomes.error());
    if (!served && shape.is_server) return failure(served.error());
    if (!outcomes.run()) return kExitOk;
    print_summary(*outcomes.run());
    if (const Status status = write_outputs(flags, *outcomes.run(), shape); !status) {
        return failure(status.error());
    }
    for (const std::string& path : {flags.model, flags.json, flags.plot}) {
        if (!path.empty()) fmt::print("written         {}\n", path);
    }
    return kExitOk;
}

}  // namespace

void add_lr(CLI::App& app, Program& program) {
    const auto flags = std::make_shared<LrFlags>();
    CLI::App* const command =
        app.add_subcommand("lr", "train sparse logistic regression on LIBSVM files");
    apps::LrRunOptions& run = flags->run;
    command->add_option("--train", run.train, "LIBSVM files (plain or gzip)")->required();
    command->add_option("--test", run.test, "files to test the model on");
    command->add_option("--l1", run.solver.l1, "weight of |w|_1 in the objective")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("--passes", run.solver.pass_count_max, "passes over all features, at most")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command
        ->add_option("--tolerance", run.solver.tolerance,
                     "end when the objective is proven so close to the optimum, relatively")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--blocks", run.solver.block_count, "blocks of features; 0: by the data")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("--seed", run.solver.seed, "of the blocks and their order")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("--threads", run.threads, "threads that read, per worker")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command->add_option("--skip-bad", run.skip_bad, "bad lines to leave out, per worker")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command->add_option("--model", flags->model, "file for the model: feature and value a line");
    command->add_option("--json", flags->json, "file for the result as JSON");
    command->add_option("--plot", flags->plot, "file for objective against time as SVG");
    flags->job.add_to(*command);
    command->callback([flags, &program] {
        program.run = [flags, &program] { return run_lr(*flags, program.config); };
    });
}

}  // namespace weir::tools

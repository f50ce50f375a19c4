// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/shared_flags.h"

#include <CLI/CLI.hpp>

#include "tools/weir/numbers.h"

namespace weir::tools {
namespace {

constexpr uint64_t kPartCountMax = 4096;  ///< of servers, workers and shards, as in Job::start()

/// A check for CLI11: returns what is wrong with --labels, or "".
std::string labels(const std::string& text) {
    const Result<data::LabelMap> map = data::LabelMap::parse(text);
    return map ? "" : map.error().text();
}

}  // namespace

void add_labels(CLI::App& command, data::LabelMap& map) {
    command
        .add_option_function<std::string>(
            "--labels", [&map](const std::string& text) { map = *data::LabelMap::parse(text); },
            "classes of labels other than -1, 0 and +1, such as 1:-1,2:+1")
        ->check(labels);
}

void add_job(CLI::App& command, JobFlags& job) {
    command.add_option("--servers", job.options.servers, "server processes (the first ranks)")
        ->check(count(1, kPartCountMax))
        ->each(job.gives("WEIR_SERVERS", "--servers"))
        ->capture_default_str();
    command
        .add_option("--shards", job.options.shards_per_server, "shards per server, each a thread")
        ->check(count(1, kPartCountMax))
        ->each(job.gives("WEIR_SHARDS", "--shards"))
        ->capture_default_str();
    command.add_option("--workers", job.options.workers, "workers per worker process")
        ->check(count(1, kPartCountMax))
        ->each(job.gives("WEIR_WORKERS", "--workers"))
        ->capture_default_str();
    command
        .add_option("--replicas", job.options.replicas,
                    "copies on other servers, 0 to 2: the job goes on when as many servers die")
        ->check(count(0, 2))
        ->each(job.gives("WEIR_REPLICAS", "--replicas"))
        ->capture_default_str();
    command
        .add_option("--managers", job.options.managers,
                    "managers, 1, 3, 5 or 7, each in a server's process, on different hosts if the "
                    "servers are: the job goes on as long as most of them live")
        ->check([](const std::string& text) {
            const bool is_odd = text == "1" || text == "3" || text == "5" || text == "7";
            return is_odd ? "" : text + ": must be 1, 3, 5 or 7: most of them must live";
        })
        ->each(job.gives("WEIR_MANAGERS", "--managers"))
        ->capture_default_str();
    command
        .add_flag("--colocate", job.options.colocate,
                  "run workers on every rank, also on those of servers")
        ->each([&job](const std::string&) { job.give("WEIR_COLOCATE", "--colocate", "yes"); });
    command.add_option(
        "--rendezvous", job.rendezvous,
        "HOST:PORT of rank 0, for ranks started by hand; also `weir server`, `leave` "
        "and `status` find the job there");
    command.add_option("--rank", job.rank, "number of this process, from 0");
    command.add_option("--size", job.size, "number of processes");
    command
        .add_option("--contact", job.options.contact_file,
                    "file to write at the start, for `weir server`, `leave` and `status`")
        ->check([](const std::string& path) {
            return path.empty() ? "the name of the file is empty" : "";
        })
        ->each(job.gives("WEIR_CONTACT_FILE", "--contact"));
}

void add_grace(CLI::App& command, uint32_t& seconds, const std::string& meaning) {
    command.add_option("--grace", seconds, meaning)->check(count(0, 86'400))->capture_default_str();
}

void add_worker_loss(CLI::App& command, JobFlags& job, const WorkerLossWord& is) {
    job.other_loss = is.meaning;
    command
        .add_option_function<std::string>(
            "--on-worker-loss",
            [&job, meaning = is.meaning](const std::string& text) {
                job.options.on_worker_loss = text == "stop" ? OnWorkerLoss::kStop : meaning;
                job.give("WEIR_ON_WORKER_LOSS", "--on-worker-loss",
                         to_string(job.options.on_worker_loss));
            },
            "when a worker dies: stop (an error for all), or " + is.word + " (" + is.what + "; " +
                is.others_have + "); default: stop")
        ->option_text("WORD")
        ->check([is](const std::string& text) -> std::string {
            if (text == "stop" || text == is.word) return "";
            if (text == is.other) return text + ": " + is.why_not_it;
            return text + ": must be stop or " + is.word + " (" + is.others_have + ")";
        });
}

}  // namespace weir::tools

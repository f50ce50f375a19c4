// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/shared_flags.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "lib/data/output_file.h"
#include "tools/weir/numbers.h"
#include "tools/weir/paths.h"

namespace weir::tools {
namespace {

constexpr const char* kWorkerLossMeaning =
    "when a worker dies: stop (all get an error), continue (the others go on without what it did), "
    "or "
    "reassign (the others do its work); `weir lr` takes stop and reassign, `weir bench` stop and "
    "continue; default: stop";

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

std::string wrong_filters(const std::string& text) {
    const Result<Filters> filters = Filters::parse(text);
    return filters ? "" : filters.error().text();
}

void add_filters(CLI::App& command, Filters& filters, const std::string& standard) {
    filters = *Filters::parse(standard);
    command
        .add_option_function<std::string>(
            "--filters", [&filters](const std::string& text) { filters = *Filters::parse(text); },
            fmt::format("what pushes and pulls go through: none, auto, or filters such as "
                        "significant=0,zeros,compress; default: {}",
                        standard))
        ->option_text("LIST")
        ->check(wrong_filters);
}

void add_job(CLI::App& command, JobFlags& job) {
    const auto add = [&](const char* flag, VariableRef variable, uint32_t JobOptions::*member,
                         const char* meaning, uint64_t least, uint64_t most) {
        command.add_option(flag, job.options.*member, meaning)
            ->check(count(least, most))
            ->each(job.gives(variable, flag))
            ->capture_default_str();
    };
    add("--servers", "WEIR_SERVERS", &JobOptions::servers, kServersMeaning, 1, kPartCountMax);
    add("--shards", "WEIR_SHARDS", &JobOptions::shards_per_server, kShardsMeaning, 1,
        kPartCountMax);
    add("--workers", "WEIR_WORKERS", &JobOptions::workers, kWorkersMeaning, 1, kPartCountMax);
    add("--replicas", "WEIR_REPLICAS", &JobOptions::replicas, kReplicasMeaning, 0, 2);
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
    command
        .add_option("--rendezvous", job.rendezvous,
                    "HOST:PORT of rank 0, for ranks started by hand; also commands for the running "
                    "job find it there (`weir help jobs`)")
        ->option_text("HOST:PORT");
    command.add_option("--rank", job.rank, "number of this process, from 0")->option_text("N");
    command.add_option("--size", job.size, "number of processes")->option_text("N");
    command
        .add_option("--contact", job.options.contact_file,
                    "file to write at the start, by which commands for the running job find it")
        ->option_text("FILE")
        ->check([](const std::string& path) {
            return path.empty() ? "the name of the file is empty" : "";
        })
        ->each(job.gives("WEIR_CONTACT_FILE", "--contact"));
    add_plugins(command, job.plugins, kPluginsMeaning);
}

void add_plugins(CLI::App& command, std::vector<std::string>& files, const std::string& meaning) {
    command.add_option("--plugin", files, meaning)
        ->option_text("FILE")
        ->allow_extra_args(false)
        ->check([](const std::string& path) -> std::string {
            if (path.empty()) return "the name of the file is empty";
            if (path.find(kPluginSeparator) == std::string::npos) return "";
            return path + ": the path of a plugin may not have a " + kPluginSeparator;
        });
}

namespace {

CLI::Option& json_option(CLI::App& command, std::string& file) {
    return *command
                .add_option(
                    "--json", file,
                    "the result as JSON: in FILE, or on standard output in place of the text")
                ->option_text("[FILE]");
}

}  // namespace

void add_json(CLI::App& command, std::string& file) {
    (void)json_option(command, file);
}

void add_json(CLI::App& command, std::string& file, CLI::Option& needed) {
    needed.required();
    // Behind the last word, before it is checked what is missing.
    json_option(command, file).transform([&needed](std::string word) -> std::string {
        if (needed.count() > 0 || word == "-") return word;
        needed.add_result(std::move(word));
        needed.run_callback();
        return "-";
    });
}

Status print_result(const std::string& json_file, const std::string& text,
                    const std::string& json) {
    const bool prints = !is_stdout(json_file);
    if (prints && (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
                   std::fflush(stdout) != 0))
        return Error(Errc::kIo, "standard output: cannot be written", errno);
    return json_file.empty() ? Status() : data::write_whole_file(json_file, json);
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
            kWorkerLossMeaning)
        ->option_text("WORD")
        ->check([is](const std::string& text) -> std::string {
            if (text == "stop" || text == is.word) return "";
            if (text == is.other) return text + ": " + is.why_not_it;
            return text + ": must be stop or " + is.word;
        });
}

}  // namespace weir::tools

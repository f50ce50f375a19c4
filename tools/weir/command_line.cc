// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/command_line.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tools/weir/bench.h"
#include "tools/weir/checkpoint_flags.h"
#include "tools/weir/command.h"
#include "tools/weir/elastic.h"
#include "tools/weir/info.h"
#include "tools/weir/job_checkpoint_flags.h"
#include "tools/weir/lr.h"
#include "tools/weir/numbers.h"
#include "tools/weir/predict.h"
#include "tools/weir/synth.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

constexpr uint64_t kPartCountMax = 4096;  ///< of servers, workers and shards, as in Job::start()

using data::LabelMap;

/// A check for CLI11: returns what is wrong with --labels, or "".
std::string labels(const std::string& text) {
    const Result<LabelMap> map = LabelMap::parse(text);
    return map ? "" : map.error().text();
}

void add_labels(CLI::App& command, LabelMap& map) {
    command
        .add_option_function<std::string>(
            "--labels", [&map](const std::string& text) { map = *LabelMap::parse(text); },
            "classes of labels other than -1, 0 and +1, such as 1:-1,2:+1")
        ->check(labels);
}

/// The flags that describe a job, the same for every command that runs one.
void add_job(CLI::App& command, JobFlags& job) {
    command.add_option("--servers", job.options.servers, "server processes (the first ranks)")
        ->check(count(1, kPartCountMax))
        ->capture_default_str();
    command
        .add_option("--shards", job.options.shards_per_server, "shards per server, each a thread")
        ->check(count(1, kPartCountMax))
        ->capture_default_str();
    command.add_option("--workers", job.options.workers, "workers per worker process")
        ->check(count(1, kPartCountMax))
        ->capture_default_str();
    command
        .add_option("--replicas", job.options.replicas,
                    "copies on other servers, 0 to 2: the job goes on when as many servers die")
        ->check(count(0, 2))
        ->capture_default_str();
    command
        .add_option("--managers", job.options.managers,
                    "managers, 1, 3, 5 or 7, one in each of the first servers' processes: the job "
                    "goes on as long as most of them live")
        ->check([](const std::string& text) {
            const bool is_odd = text == "1" || text == "3" || text == "5" || text == "7";
            return is_odd ? "" : "must be 1, 3, 5 or 7: most of them must live";
        })
        ->capture_default_str();
    command.add_flag("--colocate", job.options.colocate,
                     "run workers on every rank, also on those of servers");
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
        });
}

void add_grace(CLI::App& command, uint32_t& seconds, const std::string& meaning) {
    command.add_option("--grace", seconds, meaning)->check(count(0, 86'400))->capture_default_str();
}

constexpr const char* kContactMeaning =
    "the --rendezvous of the job, or the file that --contact made it write";
constexpr const char* kContactType = "HOST:PORT|FILE";
constexpr const char* kContactFooter =
    "At HOST:PORT, give WEIR_SECRET_FILE as the ranks of the job have it. A file whose name looks\n"
    "like HOST:PORT needs a folder before it: ./HOST:PORT.\n";

constexpr const char* kLrFooter =
    "--join: the job says what is trained, and its data are dealt out anew. Give --train and "
    "--test\n"
    "only if this host has the files under other names. --workers, --threads and --grace are "
    "those\n"
    "of this process.\n"
    "Memory: the workers share the files, and all examples must fit into their memory: 4 bytes\n"
    "per non-zero value where all values are 1, else 8, and about as much again while reading.\n"
    "Precision: values are stored as float32; weights are computed as float64.\n"
    "--labels: lines with any other label are bad lines. Several labels may stand for one class.\n"
    "Without it, labels that form classes of their own, like 1 and 2, are an error, whatever\n"
    "--skip-bad says.\n"
    "--skip-bad N: each worker leaves out up to N bad lines of its share of the --train files,\n"
    "whatever the number of --threads, and again up to N of its share of the --test files. One\n"
    "more bad line at any worker ends the job.\n"
    "--test: the files are read after the training. An error in them fails the command, but the\n"
    "model, the plot and the JSON (with test_* null) are written.\n"
    "--init: changes neither the optimum nor its proof; a model near the optimum saves passes.\n"
    "Weights of features that no training line has are left out.\n"
    "--checkpoint: the newest three checkpoints are kept; `weir checkpoint` reads them. If one "
    "cannot\n"
    "be written, a warning says why, and the training goes on.\n"
    "--resume: the weights of the newest checkpoint are those to start from, with any numbers of\n"
    "servers, shards and workers; they count more than --init. The training does not begin if the\n"
    "checkpoint cannot be read.\n"
    "-: standard input (in a job of one process) or standard output, each for one flag only. If\n"
    "standard output is taken, the summary goes to standard error.\n"
    "SIGINT, SIGTERM: the training ends after this pass on all ranks, and the results so far are\n"
    "written. Every rank ends with exit code 130 (SIGINT) or 143 (SIGTERM). A second signal ends\n"
    "the process at once. A rank that only serves goes on until the workers have ended; but if it\n"
    "gets the signal and rank 0 does not, it hands over what it holds to the other servers after "
    "a\n"
    "second, as with `weir leave`, and ends with 0, and the training goes on. Of several "
    "managers,\n"
    "this holds for the rank whose manager leads: alone, it lets another one lead, and leaves. "
    "(mpirun\n"
    "kills its ranks one second after it was interrupted itself.)\n"
    "Exit codes: 0 done, 1 failed, 2 wrong flags or variables, 130 and 143 stopped by a signal.";

constexpr const char* kPredictFooter =
    "The predictions: one line for each example, in the order of the files: 1 / (1 + exp(-w.x)).\n"
    "A line may begin with a label or with its first feature. If lines have labels, the summary\n"
    "gives accuracy, AUC and log loss. Empty lines, comments and bad lines get no prediction.";

void add_predict(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<PredictFlags>();
    CLI::App* const command =
        app.add_subcommand("predict", "apply a model of `weir lr` to LIBSVM files");
    command->add_option("--model,-m", flags->model, "model, as `weir lr --model` writes it")
        ->required();
    command->add_option("FILE", flags->files, "LIBSVM files (plain or gzip), or -")->required();
    command->add_option("--out,-o", flags->out, "file for the predictions, or -")
        ->capture_default_str();
    static const std::map<std::string, PredictAs> kAs{{"probability", PredictAs::kProbability},
                                                      {"label", PredictAs::kLabel},
                                                      {"score", PredictAs::kScore}};
    command
        ->add_option("--as", flags->as,
                     "value of each line: probability (of the class +1), label, or score (w.x); "
                     "default: probability")
        ->option_text("WORD")
        ->transform(CLI::Transformer(kAs))
        ->check([](const std::string& text) {
            return text.size() == 1 ? "" : text + ": must be probability, label or score";
        });
    add_labels(*command, flags->labels);
    command->add_option("--skip-bad", flags->skip_bad, "bad lines to leave out")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    command->add_option("--json", flags->json, "file for a summary as JSON, or -");
    command->footer(kPredictFooter);
    command->callback(
        [flags, &chosen] { chosen.run = [flags](Config&) { return run_predict(*flags); }; });
}

/// What a command can do but stop when a worker dies.
struct WorkerLossWord {
    std::string word;
    OnWorkerLoss meaning;
    std::string what;        ///< what it does
    std::string other;       ///< the word that other commands have for it
    std::string why_not_it;  ///< why this one has not
};

void add_worker_loss(CLI::App& command, OnWorkerLoss& on_worker_loss, const WorkerLossWord& is) {
    command
        .add_option_function<std::string>(
            "--on-worker-loss",
            [&on_worker_loss, meaning = is.meaning](const std::string& text) {
                on_worker_loss = text == "stop" ? OnWorkerLoss::kStop : meaning;
            },
            "when a worker dies: stop (an error for all), or " + is.word + " (" + is.what +
                "); default: stop")
        ->option_text("WORD")
        ->check([is](const std::string& text) -> std::string {
            if (text == "stop" || text == is.word) return "";
            if (text == is.other) return text + ": " + is.why_not_it;
            return text + ": must be stop or " + is.word;
        });
}

/// Fails for a flag that makes no sense with --join, and if there are no files to train on.
void check_join_flags(const CLI::App& command, const LrFlags& flags) {
    if (!flags.joins()) {
        if (flags.run.train.empty()) throw CLI::RequiredError("--train");
        return;
    }
    const std::set<std::string> own = {"--join",    "--train", "--test", "--workers",
                                       "--threads", "--grace", "--help"};
    for (const CLI::Option* const option : command.get_options()) {
        const std::string name = option->get_name();
        if (option->count() == 0 || own.contains(name)) continue;
        throw CLI::ValidationError(name, "cannot be given with --join: the job has decided it");
    }
}

void add_lr(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<LrFlags>();
    CLI::App* const command =
        app.add_subcommand("lr", "train sparse logistic regression on LIBSVM files");
    apps::LrRunOptions& run = flags->run;
    command->add_option("--train", run.train,
                        "LIBSVM files (plain or gzip), or -; needed, but with --join");
    command->add_option("--test", run.test, "files to test the model on");
    command->add_option("--init", flags->init, "model to start from, as --model writes it");
    command->add_option("--l1", run.solver.l1, "weight of |w|_1 in the objective")
        ->check(number(0, true))
        ->capture_default_str();
    command->add_option("--passes", run.solver.pass_count_max, "passes over all features, at most")
        ->check(count(1, kCountMax))
        ->capture_default_str();
    command
        ->add_option(
            "--tolerance", run.solver.tolerance,
            "end when the objective is proven to be this close to the optimum: 0.01 is 1 %")
        ->check(number(0, false))
        ->capture_default_str();
    command
        ->add_option("--blocks", run.solver.block_count,
                     "blocks of features; 0: chosen from the data")
        ->check(count(0, kCountMax))
        ->capture_default_str();
    command->add_option("--seed", run.solver.seed, "seed of the blocks and of their order")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    command->add_option("--threads", run.threads, "reading threads per worker")
        ->check(count(1, 256))
        ->capture_default_str();
    command->add_option("--skip-bad", run.skip_bad, "bad lines to leave out, per worker; see below")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    add_labels(*command, run.labels);
    command->add_option("--model", flags->model, "file for the model, one line per feature; or -");
    command->add_option("--json", flags->json, "file for the result as JSON; or -");
    command->add_option("--plot", flags->plot, "FILE.svg for objective against time; or -");
    command->footer(kLrFooter);
    add_job(*command, flags->job);
    add_checkpoint_flags(*command, flags->job);
    add_grace(*command, flags->grace_s,
              "seconds after SIGTERM in which the training must end, or its process ends without "
              "results; a rank that only serves must have handed over all, or ends without; 0: as "
              "long as it takes");
    add_worker_loss(*command, flags->job.options.on_worker_loss,
                    {"reassign", OnWorkerLoss::kReassign,
                     "the others read its part of the data, and go on", "continue",
                     "the model would lack the part of the data that the dead worker had; take "
                     "reassign, with which the others train on that part, too, or stop"});
    command
        ->add_option("--join", flags->join,
                     "join a running `weir lr --on-worker-loss reassign` with more workers: "
                     "the --rendezvous of the job, or its --contact file")
        ->type_name(kContactType);
    command->callback([flags, command, &chosen] {
        check_join_flags(*command, *flags);
        chosen.run = [flags](Config& config) { return run_lr(*flags, config); };
    });
}

/// Sets small sizes and short times, except for flags that the user gave.
void make_brief(const CLI::App& command, BenchFlags& flags) {
    const auto set = [&](const char* flag, auto& value, auto brief) {
        const CLI::Option* const option = command.get_option_no_throw(flag);
        if (option != nullptr && option->count() == 0) value = brief;
    };
    set("--seconds", flags.seconds, 0.05);
    set("--table-mib", flags.table_mib, 8);
    set("--min-bytes", flags.min_bytes, 4096);
    set("--max-bytes", flags.max_bytes, 256 << 10);
}

/// Adds the flags that this bench uses.
void add_sizes(CLI::App& command, BenchFlags& flags) {
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--min-bytes", flags.min_bytes, "smallest push or pull")
        ->check(CLI::Range(4, 1 << 30))
        ->capture_default_str();
    command.add_option("--max-bytes", flags.max_bytes, "largest push or pull")
        ->check(CLI::Range(4, 1 << 30))
        ->capture_default_str();
}

void add_delay(CLI::App& command, BenchFlags& flags) {
    flags.job.options.workers = 4;
    command.add_option("--factor", flags.factor, "by how much a worker is slowed, 1 to 1000")
        ->check(number_within(1, 1000))
        ->capture_default_str();
    command.add_flag("--steady", flags.steady,
                     "slow the last worker all the time; else one after the other, in bursts");
    command.add_option("--plot", flags.plot, "FILE.svg for iterations per second by tau");
}

void add_elastic(CLI::App& command, BenchFlags& flags) {
    flags.table_mib = 128;
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--rounds", flags.rounds, "how often a server joins and another one leaves")
        ->check(count(1, 100'000))
        ->capture_default_str();
}

void add_failover(CLI::App& command, BenchFlags& flags) {
    flags.table_mib = 32;
    flags.job.options.servers = 2;
    flags.job.options.replicas = 1;
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--rounds", flags.rounds, "how many servers are killed")
        ->check(count(1, 100'000))
        ->capture_default_str();
    command.add_option("--seed", flags.seed, "which one is killed, and when")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    command.add_flag("--stop", flags.stops,
                     "stop them (SIGSTOP) in place of killing them; they go on later");
    command.add_option("--at-once", flags.at_once, "how many are killed at the same time")
        ->check(count(1, 2))
        ->capture_default_str();
    command.add_option(
        "--within", flags.within,
        "a command that runs a server that joins, for example `ip netns exec NAME`;\n"
        "give it once for each server");
    command.add_option(
        "--cut", flags.cut,
        "cut servers off in place of killing them: `COMMAND cut I` does that with the\n"
        "server of the I-th --within (0, 1, ...), and `COMMAND heal I` ends it");
    command
        .add_option(
            "--heal-ms", flags.heal_ms,
            "heal it after a random time of at most that, whether the job has replaced the\n"
            "server or not; 0: when it has")
        ->check(count(0, 60'000))
        ->capture_default_str();
}

void add_checkpoint_bench(CLI::App& command, BenchFlags& flags) {
    flags.table_mib = 256;
    flags.rounds = 7;
    flags.job.options.workers = 2;
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--rounds", flags.rounds, "with two checkpoints each")
        ->check(count(1, 100'000))
        ->capture_default_str();
    command.add_option("--folder", flags.job.options.checkpoint_folder,
                       "an empty folder for the checkpoints; with --local: by default a new one in "
                       "TMPDIR or /tmp");
}

void add_restart(CLI::App& command, BenchFlags& flags) {
    JobOptions& options = flags.job.options;
    options.checkpoint_every_iterations = 1;
    options.resume = kResumeAuto;
    command
        .add_option("--folder", options.checkpoint_folder,
                    "a folder for the checkpoints, from which the next run goes on")
        ->required();
    command.add_option("--turns", flags.turns, "after which it ends; 0: when it is killed")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
}

void add_one(CLI::App& bench, const std::string& name, const std::string& meaning,
             Command& chosen) {
    const auto flags = std::make_shared<BenchFlags>();
    flags->bench = name;
    CLI::App* const command = bench.add_subcommand(name, meaning);
    CLI::Option* const local = command->add_flag(
        "--local", flags->local, "start server and worker on this host, each on its own core");
    command->add_flag("--brief", flags->brief,
                      "small sizes and short times, only to see that it works");
    command->add_option("--json", flags->json, "file for the result as JSON");
    if (!flags->is_sparse()) {
        command->add_option("--seconds", flags->seconds, "approximate time per row, 0.001 to 3600")
            ->check(number_within(0.001, 3600))
            ->capture_default_str();
    }
    command->add_option("--cpus", flags->cpus, "A,B: core of the servers, core of the workers")
        ->delimiter(',')
        ->expected(2);
    if (flags->is_dense()) add_sizes(*command, *flags);
    if (flags->is_delay()) {
        add_delay(*command, *flags);
    } else if (flags->is_elastic()) {
        add_elastic(*command, *flags);
    } else if (flags->is_failover()) {
        add_failover(*command, *flags);
    } else if (flags->is_restart()) {
        add_restart(*command, *flags);
    } else if (flags->is_checkpoint()) {
        add_checkpoint_bench(*command, *flags);
    } else if (name != "latency") {
        command
            ->add_option("--in-flight", flags->in_flight,
                         "operations in flight; 0: chosen from their size")
            ->check(CLI::Range(0, 1024))
            ->capture_default_str();
    }
    command->add_flag("--child", flags->child)->group("");
    add_job(*command, flags->job);
    add_worker_loss(*command, flags->job.options.on_worker_loss,
                    {"continue", OnWorkerLoss::kContinue, "the others go on", "reassign",
                     "a benchmark has no data that the others could take over; take continue, or "
                     "stop"});
    for (const char* const by_hand : {"--rendezvous", "--rank", "--size", "--on-worker-loss"})
        command->get_option(by_hand)->excludes(local);
    command->callback([flags, command, &chosen] {
        if (flags->brief) make_brief(*command, *flags);
        chosen.run = [flags](Config& config) { return run_bench(*flags, config); };
    });
}

void add_bench(CLI::App& app, Command& chosen) {
    CLI::App* const bench = app.add_subcommand(
        "bench", "measure the speed, and beside it the best that this machine can do");
    bench->require_subcommand(1);
    bench->footer(
        "Start it with --local, or under mpirun or srun with 2 ranks or more. The first worker\n"
        "measures; all other workers are idle, except in `delay`, `elastic` and `failover`, where\n"
        "all work.\n"
        "--cpus A,B pins servers to core A and workers to core B, even if a launcher has bound\n"
        "them to other cores.");
    add_one(*bench, "push", "dense pushes, by size", chosen);
    add_one(*bench, "pull", "dense pulls, by size", chosen);
    add_one(*bench, "latency", "round trips of small pushes", chosen);
    add_one(*bench, "insert", "sparse pushes: new keys, known and unseen lists", chosen);
    add_one(*bench, "lookup", "sparse pulls and adagrad pushes of wide rows", chosen);
    add_one(*bench, "delay", "iterations by the bound on their delay, with slowed workers", chosen);
    add_one(*bench, "elastic", "pushes while servers join and leave", chosen);
    add_one(*bench, "failover", "pushes while servers are killed", chosen);
    add_one(*bench, "restart", "pushes and checkpoints until it is killed, and what was saved then",
            chosen);
    add_one(*bench, "checkpoint", "pushes while checkpoints are written, and how fast these are",
            chosen);
}

void add_synth(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<SynthFlags>();
    CLI::App* const command = app.add_subcommand("synth", "write a synthetic click log (LIBSVM)");
    command->add_option("--out,-o", flags->out, "file to write")->required();
    command->add_option("--examples", flags->options.example_count, "examples")
        ->check(count(1, kLongCountMax))
        ->capture_default_str();
    command->add_option("--features", flags->options.feature_count, "features")
        ->check(count(1, kLongCountMax))
        ->capture_default_str();
    command->add_option("--per-example", flags->options.per_example, "features in every example")
        ->check(count(1, kCountMax))
        ->capture_default_str();
    command->add_option("--zipf", flags->options.zipf_exponent, "skew of the features")
        ->capture_default_str();
    command->add_option("--seed", flags->options.seed, "the same seed gives the same bytes")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    command->callback(
        [flags, &chosen] { chosen.run = [flags](Config&) { return run_synth(*flags); }; });
}

void add_server(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<ServerFlags>();
    CLI::App* const command = app.add_subcommand("server", "join a running job as a server");
    command->add_option("--join", flags->join.contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_option("--shards", flags->join.shards, "shards, each a thread")
        ->check(count(1, 1024))
        ->capture_default_str();
    command
        ->add_option("--weight", flags->join.weight,
                     "share of the parameters, where the servers of the job's start have 1 each")
        ->check(count(1, 1000))
        ->capture_default_str();
    add_grace(
        *command, flags->grace_s,
        "seconds after SIGTERM in which it must have handed over all, or it ends without; 0: as "
        "long as it takes");
    command->footer(
        std::string(kContactFooter) +
        "The job gives it its share of the parameters, while training goes on. SIGTERM, or Ctrl-C\n"
        "once, makes it hand over all and end with 0, unless rank 0 of the job gets the signal, "
        "too;\n"
        "a second signal ends it at once. If a signal stops the training, it ends as the ranks of\n"
        "the job do, with 130 (SIGINT) or 143 (SIGTERM).");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_server(*flags, config); };
    });
}

void add_leave(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<LeaveFlags>();
    CLI::App* const command = app.add_subcommand("leave", "make a server leave a running job");
    command->add_option("contact", flags->contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_option("--server", flags->server, "its number, as `weir status` shows it")
        ->required()
        ->check(count(0, kCountMax));
    command->footer(
        std::string(kContactFooter) +
        "Waits until the server has handed over all that it holds. The last server cannot leave.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_leave(*flags, config); };
    });
}

void add_status(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<StatusFlags>();
    CLI::App* const command = app.add_subcommand("status", "show the state of a running job");
    command->add_option("contact", flags->contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_flag("--json", flags->json, "as JSON, for programs");
    command->footer(kContactFooter);
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_status(*flags, config); };
    });
}

void add_info(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<InfoFlags>();
    CLI::App* const command = app.add_subcommand(
        "info", "show what this build, this machine and this environment can do");
    command->add_flag("--json", flags->json, "as JSON, for programs");
    command->add_flag("-f,--variables", flags->variables,
                      "only the WEIR_* variables: value, default, meaning");
    command->callback([flags, &chosen] {
        chosen.wants_good_config = false;  // users run it when something is wrong
        chosen.run = [flags](Config& config) { return run_info(*flags, config); };
    });
}

/// Returns the message for an unknown subcommand, as in "weir bench frobnicate", or "" if there
/// is none. CLI11 would only say that a subcommand is missing. Sets `parent` to the command that
/// lacks it.
std::string unknown_command(const CLI::App& app, int argc, char** argv, std::string& parent) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
        const std::string name = argv[i];
        const CLI::App* next = nullptr;
        std::string known;
        for (const CLI::App* const command : at->get_subcommands(nullptr)) {
            if (command->get_name() == name) next = command;
            known += (known.empty() ? "" : ", ") + command->get_name();
        }
        if (known.empty()) return "";
        parent = at == &app ? "" : at->get_name();
        if (next == nullptr) {
            return fmt::format("unknown {} '{}'; choose one of: {}",
                               parent.empty() ? "command" : parent, name, known);
        }
        at = next;
    }
    return "";
}

/// Returns the message for an argument that no option takes, an unknown flag first; "" if there
/// is none.
std::string unknown_argument(const CLI::App& app) {
    const std::vector<std::string> words = app.remaining(true);
    const auto flag = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
    if (flag != words.end()) return fmt::format("unknown flag {}", *flag);
    return words.empty() ? "" : fmt::format("unexpected argument '{}'", words.front());
}

/// What CLI11 says is wrong, but in plain words where a flag stands without its value.
std::string what_is_wrong(const CLI::ParseError& error) {
    const std::string text = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
    const size_t end = text.find(": ");
    if (end == std::string::npos) return text;
    const bool is_repeated = text.find("At most") != std::string::npos;
    return text.substr(0, end) + (is_repeated ? ": it is given twice" : ": a value is missing");
}

/// The subcommands that were chosen so far: "bench push".
std::string chosen_command(const CLI::App& app) {
    std::string words;
    for (auto chosen = app.get_subcommands(); !chosen.empty();
         chosen = chosen.front()->get_subcommands()) {
        words += (words.empty() ? "" : " ") + chosen.front()->get_name();
    }
    return words;
}

}  // namespace

int usage_error(std::string_view what, std::string_view command) {
    fmt::print(stderr, "weir: error: {}\nTry `weir {}{}--help`.\n", what, command,
               command.empty() ? "" : " ");
    return kExitUsage;
}

Command parse_command_line(int argc, char** argv) {
    Command chosen;
    const auto no_run = [&chosen](int exit_code) {
        chosen.run = nullptr;
        chosen.exit_code = exit_code;
        return chosen;
    };
    CLI::App app("A parameter server for RDMA clusters.", "weir");
    app.set_version_flag("--version", "weir " WEIR_VERSION, "print the version and exit");
    app.require_subcommand(0, 1);  // a missing subcommand is an error below, after the flags
    add_lr(app, chosen);
    add_predict(app, chosen);
    add_bench(app, chosen);
    add_server(app, chosen);
    add_leave(app, chosen);
    add_status(app, chosen);
    add_checkpoint(app, chosen);
    add_synth(app, chosen);
    add_info(app, chosen);
    if (argc < 2) {
        fmt::print(stderr, "{}", app.help());
        return no_run(kExitUsage);
    }
    std::string parent;
    if (const std::string error = unknown_command(app, argc, argv, parent); !error.empty()) {
        return no_run(usage_error(error, parent));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return no_run(app.exit(error));  // --help, --version
        // An unknown argument is reported first: it may be the cause of the other error.
        const std::string unknown = unknown_argument(app);
        return no_run(
            usage_error(unknown.empty() ? what_is_wrong(error) : unknown, chosen_command(app)));
    }
    if (!chosen.run) return no_run(usage_error("a command is missing", ""));
    chosen.name = chosen_command(app);
    return chosen;
}

}  // namespace weir::tools

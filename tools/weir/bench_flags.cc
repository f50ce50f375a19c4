// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/bench_flags.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "bench/jobs/bench.h"
#include "tools/weir/command.h"
#include "tools/weir/numbers.h"
#include "tools/weir/paths.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

using bench::BenchFlags;

struct BenchCommand {
    BenchFlags bench;
    JobFlags job;
};

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

void add_delay(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    job.workers = 4;
    command.add_option("--factor", flags.factor, "by how much a worker is slowed, 1 to 1000")
        ->check(number_within(1, 1000))
        ->capture_default_str();
    command.add_flag("--steady", flags.steady,
                     "slow the last worker all the time; else one after the other, in bursts");
    command.add_option("--plot", flags.plot, "FILE.svg for iterations per second by tau");
}

void add_filter_bench(CLI::App& command, BenchFlags& flags) {
    command
        .add_option("--filters", flags.filter_lists,
                    "filters to measure beside none, such as zeros,compress; may be given several "
                    "times; default: seven lists of them")
        ->option_text("LIST")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(wrong_filters);
    command.add_option("--data", flags.data,
                       "LIBSVM files whose gradients are pushed; default: a made click log");
    command
        .add_option("--limit-mbit", flags.limit_mbit,
                    "with --local: over tcp, in a network of its own that carries so many megabits "
                    "per second, both ways together; needs root, ip and tc")
        ->check(count(1, 1'000'000));
    command.add_option("--plot", flags.plot,
                       "FILE.svg for the speedup by call, change and filters");
}

void add_traffic(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    job.servers = 2;
    job.workers = 2;
    command.add_option("--data", flags.data, "LIBSVM files; default: a made click log");
    command.add_option("--l1", flags.l1, "weight of the l1 penalty, from 0")
        ->check(number_within(0, 1e300))
        ->capture_default_str();
    command.add_option("--plot", flags.plot,
                       "FILE.svg for what each filter saves, and for what passes leave out");
}

void add_paper(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    job.workers = 4;
    command.add_option("--data", flags.data, "LIBSVM files; default: a made click log");
    command.add_option("--l1", flags.l1, "weight of the l1 penalty, above 0")
        ->check(number(0, false))
        ->capture_default_str();
    command
        .add_option("--factor", flags.factor,
                    "by which workers are slowed, one at a time, from 1 to 100")
        ->check(number_within(1, 100))
        ->capture_default_str();
    command.add_option("--plot", flags.plot,
                       "a folder for objective.svg, delay.svg and traffic.svg");
}

void add_elastic(CLI::App& command, BenchFlags& flags) {
    flags.table_mib = 128;
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command
        .add_option(
            "--rounds", flags.rounds,
            "how often a server joins and another one leaves; with copies also how often one "
            "joins and is killed")
        ->check(count(1, 100'000))
        ->capture_default_str();
}

// The flags that have no group are for tools/torture, and --help does not show them.
void add_failover(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    flags.table_mib = 32;
    job.servers = 2;
    job.replicas = 1;
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
        ->capture_default_str()
        ->group("");
    command
        .add_option("--within", flags.within,
                    "a command that runs a server that joins, for example `ip netns exec NAME`;\n"
                    "give it once for each server")
        ->group("");
    command
        .add_option("--cut", flags.cut,
                    "cut servers off in place of killing them: `COMMAND cut I` does that with the\n"
                    "server of the I-th --within (0, 1, ...), and `COMMAND heal I` ends it")
        ->group("");
    command
        .add_option(
            "--heal-ms", flags.heal_ms,
            "heal it after a random time of at most that, whether the job has replaced the\n"
            "server or not; 0: when it has")
        ->check(count(0, 60'000))
        ->capture_default_str()
        ->group("");
}

void add_checkpoint_bench(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    flags.table_mib = 256;
    flags.rounds = 7;
    job.workers = 2;
    command.add_option("--table-mib", flags.table_mib, "size of the dense table")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--rounds", flags.rounds, "with two checkpoints each")
        ->check(count(1, 100'000))
        ->capture_default_str();
    command.add_option("--folder", job.checkpoint_folder,
                       "an empty folder for the checkpoints; with --local: by default a new one in "
                       "TMPDIR or /tmp");
}

void add_restart(CLI::App& command, BenchFlags& flags, JobOptions& job) {
    job.checkpoint_every_iterations = 1;
    job.resume = kResumeAuto;
    command
        .add_option("--folder", job.checkpoint_folder,
                    "a folder for the checkpoints, from which the next run goes on")
        ->required();
    command.add_option("--turns", flags.turns, "after which it ends; 0: when it is killed")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
}

void add_one(CLI::App& bench, const std::string& name, const std::string& meaning,
             Command& chosen) {
    const auto both = std::make_shared<BenchCommand>();
    BenchFlags* const flags = &both->bench;
    JobFlags& job = both->job;
    flags->bench = name;
    CLI::App* const command = bench.add_subcommand(name, meaning);
    CLI::Option* const local = command->add_flag(
        "--local", flags->local, "start server and worker on this host, each on its own core");
    command->add_flag("--brief", flags->brief,
                      "small sizes and short times, only to see that it works");
    add_json(*command, flags->json);
    if (flags->is_filters()) flags->seconds = 0.25;  // there are many rows
    if (!flags->is_sparse() && !flags->is_traffic() && !flags->is_paper()) {
        command->add_option("--seconds", flags->seconds, "approximate time per row, 0.001 to 3600")
            ->check(number_within(0.001, 3600))
            ->capture_default_str();
    }
    command->add_option("--cpus", flags->cpus, "A,B: core of the servers, core of the workers")
        ->delimiter(',')
        ->expected(2);
    if (flags->is_dense()) add_sizes(*command, *flags);
    if (flags->has_filters()) add_filters(*command, flags->filters, "none");
    if (flags->is_delay()) {
        add_delay(*command, *flags, job.options);
    } else if (flags->is_filters()) {
        add_filter_bench(*command, *flags);
    } else if (flags->is_traffic()) {
        add_traffic(*command, *flags, job.options);
    } else if (flags->is_paper()) {
        add_paper(*command, *flags, job.options);
    } else if (flags->is_elastic()) {
        add_elastic(*command, *flags);
    } else if (flags->is_failover()) {
        add_failover(*command, *flags, job.options);
    } else if (flags->is_restart()) {
        add_restart(*command, *flags, job.options);
    } else if (flags->is_checkpoint()) {
        add_checkpoint_bench(*command, *flags, job.options);
    } else if (flags->is_factorization()) {
        job.options.workers = 2;
    } else if (name != "latency") {
        command
            ->add_option("--in-flight", flags->in_flight,
                         "operations in flight; 0: chosen from their size")
            ->check(CLI::Range(0, 1024))
            ->capture_default_str();
    }
    command->add_flag("--child", flags->child)->group("");
    add_job(*command, job);
    add_worker_loss(*command, job,
                    {"continue", OnWorkerLoss::kContinue, "reassign",
                     "a benchmark has no data that the others could take over; take continue, or "
                     "stop"});
    for (const char* const by_hand : {"--rendezvous", "--rank", "--size", "--on-worker-loss"})
        command->get_option(by_hand)->excludes(local);
    command->callback([both, command, &chosen] {
        if (both->bench.brief) make_brief(*command, both->bench);
        chosen.run = [both](Config& config) {
            if (is_stdout(both->bench.json)) {
                auto aside = set_output_aside();
                if (!aside) return failure(aside.error());
                both->bench.json = *std::move(aside);
            }
            Status done = both->job.apply_to(config);
            both->bench.job = both->job.options;
            if (done) done = bench::run_bench(both->bench, config);
            return done ? kExitOk : failure(done.error());
        };
    });
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
    CLI::App* const bench = app.add_subcommand(
        "bench", "measure the speed, and beside it the best that this machine can do");
    bench->require_subcommand(1);
    bench->footer(
        "Start it with --local, or under mpirun or srun with 2 ranks or more. The first worker\n"
        "measures; all other workers are idle, except in `delay`, `traffic`, `paper`, "
        "`factorization`,\n"
        "`elastic` and `failover`, where all work.\n"
        "--cpus A,B pins servers to core A and workers to core B, even if a launcher has bound\n"
        "them to other cores.");
    add_one(*bench, "push", "dense pushes, by size", chosen);
    add_one(*bench, "pull", "dense pulls, by size", chosen);
    add_one(*bench, "mixed", "dense pushes and pulls at once, beside each of the two alone",
            chosen);
    add_one(*bench, "latency", "round trips of small pushes", chosen);
    add_one(*bench, "insert", "sparse pushes: new keys, known and unseen lists", chosen);
    add_one(*bench, "lookup", "sparse pulls, and pushes of gradients, of wide rows", chosen);
    add_one(*bench, "scan", "reading out tables, beside pulls of the same rows", chosen);
    add_one(*bench, "functions", "functions on servers, beside one core", chosen);
    add_one(*bench, "delay", "iterations by the bound on their delay, with slowed workers", chosen);
    add_one(*bench, "filters", "pushes through filters, beside the same ones without", chosen);
    add_one(*bench, "traffic", "what `weir lr` sends, with one filter more each time", chosen);
    add_one(*bench, "paper", "figures of the parameter server's papers: solvers, delays, traffic",
            chosen);
    add_one(*bench, "factorization", "matrix factorisation in batches, beside the server's core",
            chosen);
    add_one(*bench, "elastic", "pushes while servers come and go", chosen);
    add_one(*bench, "failover", "pushes while servers are killed", chosen);
    // For tools/torture: --help does not show it.
    add_one(*bench, "restart", "pushes and checkpoints until it is killed, and what was saved then",
            chosen);
    bench->get_subcommand("restart")->group("");
    add_one(*bench, "checkpoint", "pushes while checkpoints are written, and how fast these are",
            chosen);
}

}  // namespace weir::tools

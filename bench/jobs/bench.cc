// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/bench.h"

#include <bit>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <sys/prctl.h>

#include "bench/jobs/checkpoint.h"
#include "bench/jobs/delay.h"
#include "bench/jobs/elastic/elastic.h"
#include "bench/jobs/elastic/failover.h"
#include "bench/jobs/factorization/factorization.h"
#include "bench/jobs/filters/filters.h"
#include "bench/jobs/foreseen_rank.h"
#include "bench/jobs/local_ranks.h"
#include "bench/jobs/network_limit.h"
#include "bench/jobs/paper/paper.h"
#include "bench/jobs/restart.h"
#include "bench/jobs/traffic/traffic.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/base/machine/os_limits.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

/// Checks the sizes of push, pull and mixed: powers of two, in order, and no more than fits into memory.
Status check_sizes(const BenchFlags& flags) {
    const std::pair<const char*, uint64_t> sizes[] = {{"--min-bytes", flags.min_bytes},
                                                      {"--max-bytes", flags.max_bytes},
                                                      {"--table-mib", flags.table_mib}};
    for (const auto& [flag, size] : sizes) {
        if (!std::has_single_bit(size)) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} {}: must be a power of two", flag, size));
        }
    }
    const uint64_t table_bytes = flags.table_mib << 20;
    if (flags.min_bytes > flags.max_bytes) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--min-bytes {}: must not be above --max-bytes {}",
                                 flags.min_bytes, flags.max_bytes));
    }
    if (flags.max_bytes > table_bytes) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--max-bytes {}: must not be above the size of the table, {} "
                                 "(--table-mib {})",
                                 flags.max_bytes, bytes_text(table_bytes), flags.table_mib));
    }
    if (flags.child) return {};  // the parent has checked the memory
    // The worker's buffer and the limit's table; with --local also the servers' table.
    const uint64_t needed = dense_buffer_bytes(flags) + (flags.local ? 2 : 1) * table_bytes;
    const uint64_t available = available_memory_bytes();
    if (needed <= available) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("buffers of {} (--max-bytes times --in-flight) and a table of {} (--table-mib) "
                    "need {} of memory on this host, and {} are available: give smaller ones",
                    bytes_text(dense_buffer_bytes(flags)), bytes_text(table_bytes),
                    bytes_text(needed), bytes_text(available)));
}

/// A launcher has bound this rank to one core. Which one the server has is known once the job runs.
constexpr int kServersCore = -1;

Error needs_two_cores() {
    return {Errc::kInvalidArgument,
            "a bench needs two cores, one for the server and one for the worker: let the launcher "
            "bind each rank to a core of its own (mpirun --bind-to core) or to none, or give "
            "--cpus A,B"};
}

/// Chooses the cores. With --cpus it binds this process to them, whatever the launcher's binding.
Status choose_cpus(BenchFlags& flags) {
    if (!flags.cpus.empty()) {
        if (flags.job.colocate) {
            return Error(Errc::kInvalidArgument,
                         "--cpus gives servers and workers one core each, but with --colocate they "
                         "are one process: give only one of the two flags");
        }
        WEIR_TRY(bind_this_thread(flags.cpus));
    }
    const std::vector<int> cpus = flags.cpus.empty() ? allowed_cpus() : flags.cpus;
    if (cpus.size() >= 2 && cpus[0] != cpus[1]) {
        flags.limit_cpus = {cpus[0], cpus[1]};
        return {};
    }
    const bool bound_by_launcher = flags.cpus.empty() && !flags.local;
    if (!bound_by_launcher || flags.job.colocate) return needs_two_cores();
    flags.limit_cpus = {kServersCore, cpus[0]};
    return {};
}

/// Checks what fails in `failover`.
Status check_faults(const BenchFlags& flags) {
    if (flags.at_once > flags.job.replicas) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("--at-once {}: with --replicas {} what so many servers hold is lost",
                        flags.at_once, flags.job.replicas));
    }
    const bool is_cut = !flags.cut.empty();
    if (is_cut && (flags.within.size() <= flags.at_once || flags.stops)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("--cut: give --within for each of the servers that join ({} or "
                                 "more), and no --stop",
                                 flags.at_once + 1));
    }
    if (flags.heal_ms == 0 || is_cut) return {};
    return Error(Errc::kInvalidArgument, "--heal-ms: only what --cut has cut can heal");
}

/// Checks what `filters` measures.
Status check_filters(const BenchFlags& flags) {
    if (flags.limit_mbit != 0 && !flags.local && !flags.child)
        return Error(Errc::kInvalidArgument,
                     "--limit-mbit: only the network of --local is limited");
    if (flags.job.workers == 1) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("--workers {}: `weir bench filters` measures one that is alone",
                             flags.job.workers));
}

Status prepare(BenchFlags& flags) {
    if (flags.is_failover()) WEIR_TRY(check_faults(flags));
    if (flags.is_dense()) WEIR_TRY(check_sizes(flags));
    if (flags.is_filters()) WEIR_TRY(check_filters(flags));
    if (flags.needs_contact() && !flags.local && flags.job.contact_file.empty()) {
        return Error(Errc::kInvalidArgument,
                     "servers join the job by its contact file: give --contact FILE, or --local");
    }
    return choose_cpus(flags);
}

Status run_local(BenchFlags& flags) {
    std::optional<ScratchFolder> folder;
    const bool needs_folder = flags.is_checkpoint() && flags.job.checkpoint_folder.empty();
    if (needs_folder || (flags.needs_contact() && flags.job.contact_file.empty())) {
        WEIR_ASSIGN(ScratchFolder made, ScratchFolder::make());
        folder.emplace(std::move(made));
        if (flags.needs_contact()) flags.job.contact_file = folder->path() + "/contact";
        if (needs_folder) flags.job.checkpoint_folder = folder->path();
    }
    for (const std::string& path : {flags.json, flags.plot_file()}) {
        if (!path.empty()) WEIR_TRY(data::check_output(path));
    }
    const JobOptions& job = flags.job;
    std::vector<std::string> arguments{"weir", "bench", flags.bench, "--child"};
    const auto add = [&](const char* flag, const auto& value) {
        arguments.emplace_back(flag);
        arguments.push_back(fmt::format("{}", value));
    };
    if (flags.is_dense()) {
        add("--table-mib", flags.table_mib);
        add("--min-bytes", flags.min_bytes);
        add("--max-bytes", flags.max_bytes);
    }
    if (flags.is_delay()) {
        add("--factor", flags.factor);
        if (flags.steady) arguments.emplace_back("--steady");
        if (!flags.plot.empty()) add("--plot", flags.plot);
    } else if (flags.is_filters()) {
        for (const std::string& list : flags.filter_lists)
            add("--filters", list);
        for (const std::string& file : flags.data)
            add("--data", file);
        if (flags.limit_mbit != 0) add("--limit-mbit", flags.limit_mbit);
        if (!flags.plot.empty()) add("--plot", flags.plot);
    } else if (flags.is_traffic()) {
        add("--l1", flags.l1);
        for (const std::string& file : flags.data)
            add("--data", file);
        if (!flags.plot.empty()) add("--plot", flags.plot);
    } else if (flags.is_paper()) {
        add("--l1", flags.l1);
        add("--factor", flags.factor);
        for (const std::string& file : flags.data)
            add("--data", file);
        if (!flags.plot.empty()) add("--plot", flags.plot);
    } else if (flags.is_elastic()) {
        add("--table-mib", flags.table_mib);
        add("--rounds", flags.rounds);
    } else if (flags.is_checkpoint()) {
        add("--table-mib", flags.table_mib);
        add("--rounds", flags.rounds);
        add("--folder", job.checkpoint_folder);
    } else if (flags.is_restart()) {
        add("--folder", job.checkpoint_folder);
        add("--turns", flags.turns);
    } else if (flags.is_failover()) {
        add("--table-mib", flags.table_mib);
        add("--rounds", flags.rounds);
        add("--seed", flags.seed);
        if (flags.stops) arguments.emplace_back("--stop");
        add("--at-once", flags.at_once);
        add("--heal-ms", flags.heal_ms);
        if (!flags.cut.empty()) add("--cut", flags.cut);
        for (const std::string& within : flags.within)
            add("--within", within);
    } else if (flags.bench != "latency" && !flags.is_factorization()) {
        add("--in-flight", flags.in_flight);
    }
    if (!flags.is_sparse() && !flags.is_traffic() && !flags.is_paper())
        add("--seconds", flags.seconds);
    if (!flags.filters.empty()) add("--filters", flags.filters.text());
    add("--servers", job.servers);
    add("--shards", job.shards_per_server);
    add("--workers", job.workers);
    add("--replicas", job.replicas);
    add("--managers", job.managers);
    if (!job.contact_file.empty()) add("--contact", job.contact_file);
    if (job.colocate) {
        arguments.emplace_back("--colocate");
    } else {
        add("--cpus", fmt::format("{},{}", flags.limit_cpus[0], flags.limit_cpus[1]));
    }
    if (flags.brief) arguments.emplace_back("--brief");
    if (!flags.json.empty()) add("--json", flags.json);
    if (flags.limit_mbit != 0) WEIR_TRY(limit_network(flags.limit_mbit));
    return run_local_ranks(arguments, size_t{job.servers} + 1);
}

const char* dense_limit(const BenchFlags& flags) {
    if (flags.bench == "mixed") return "as many pushes and pulls, each of the two alone";
    const bool pulls = flags.bench == "pull";
    if (!flags.over_tcp)
        return pulls ? "one core copying the same values" : "one core adding the same values";
    return pulls ? "one core sending the same values over a bare TCP connection"
                 : "one core adding the same values as a bare TCP connection brings them";
}

std::string what(const BenchFlags& flags) {
    if (flags.bench == "latency") {
        return fmt::format("round trip of a small push, one at a time; limit: {}",
                           flags.over_tcp ? "its bytes over a bare TCP connection and back"
                                          : "a flag passed from core to core and back");
    }
    if (flags.bench == "insert") return "sparse float32 add; limit: one core without messages";
    if (flags.bench == "lookup") {
        return "lists of 8192 keys of 1e6 that the server has not seen, rows of float32; limit: "
               "one core without messages";
    }
    if (flags.bench == "scan") {
        return "all rows of a table of float32, read out by one worker; limit: the worker pulls "
               "them, "
               "whose keys it knows, by known lists or ranges of 1 MiB";
    }
    if (flags.bench == "functions")
        return "functions on float32 tables; limit: one core that does the same to arrays of its "
               "own";
    return fmt::format("dense float32 {}, table of {} MiB; limit: {}",
                       flags.bench == "push"   ? "add"
                       : flags.bench == "pull" ? "pull"
                                               : "add and pull in turn",
                       flags.table_mib, dense_limit(flags));
}

Status measure(Client& client, const BenchFlags& flags, const JobShape& shape) {
    if (!flags.json.empty()) WEIR_TRY(data::check_output(flags.json));
    BenchUnit unit = BenchUnit::kBytesPerSecond;
    if (flags.bench == "latency") unit = BenchUnit::kMicroseconds;
    if (flags.is_sparse() || flags.bench == "functions") unit = BenchUnit::kKeysPerSecond;
    BenchReport report(flags.bench, unit, what(flags), shape);
    if (flags.bench == "latency") {
        WEIR_TRY(bench_latency(client, flags, report));
    } else if (flags.bench == "insert") {
        WEIR_TRY(bench_insert(client, flags, report));
    } else if (flags.bench == "lookup") {
        WEIR_TRY(bench_lookup(client, flags, report));
    } else if (flags.bench == "scan") {
        WEIR_TRY(bench_scan(client, flags, report));
    } else if (flags.bench == "functions") {
        WEIR_TRY(bench_functions(client, flags, report));
    } else {
        WEIR_TRY(bench_dense(client, flags, report));
    }
    report.print_legend();
    if (flags.json.empty()) return {};
    WEIR_ASSIGN(const ClientStats stats, client.stats());
    report.set_registered_bytes(stats.registered_bytes + stats.servers_registered_bytes);
    return report.write_json(flags.json);
}

/// In `delay`, `factorization`, `traffic`, `paper`, `elastic`, `failover` and `restart` all work. Else the first worker measures; the others wait until it has finished, unless all work.
Status work(const Job& job, Client& client, const BenchFlags& flags, const Config& config,
            CheckpointOrders& orders) {
    std::optional<ElasticMoves> moves;
    Status outcome;
    if (flags.is_delay()) {
        outcome = bench_delay(client, flags, job.shape());
    } else if (flags.is_filters()) {
        outcome = bench_filters(client, flags, job.shape());
    } else if (flags.is_traffic()) {
        outcome = bench_traffic(client, flags, job.shape());
    } else if (flags.is_paper()) {
        outcome = bench_paper(client, flags, job.shape());
    } else if (flags.is_factorization()) {
        outcome = bench_factorization(client, flags, job.shape());
    } else if (flags.is_elastic()) {
        outcome = bench_elastic(client, flags, job.shape(), config, moves);
    } else if (flags.is_checkpoint()) {
        outcome = bench_checkpoint(client, flags, job.shape(), orders);
    } else if (flags.is_restart()) {
        outcome = bench_restart(client, flags);
    } else if (flags.is_failover()) {
        outcome = bench_failover(client, flags, job.shape(), config);
    } else if (client.worker() == 0) {
        outcome = measure(client, flags, job.shape());
    }
    if (outcome && client.worker_count() > 1) outcome = client.barrier();
    const Status left = client.leave(outcome);
    if (outcome && left && moves) return moves->wait_for_servers();
    return outcome ? left : outcome;
}

/// Pins this thread to the rank's core, before its job starts threads. With checkpoints, a server has a
/// thread for the disk, which runs where there is room.
Status take_place(const BenchFlags& flags, std::optional<uint32_t> rank) {
    if (!rank || flags.cpus.empty() || flags.is_checkpoint() || flags.is_restart()) return {};
    return pin_this_thread(flags.limit_cpus[*rank < flags.job.servers ? 0 : 1]);
}

/// Checks the number of ranks, and that the job has given this process the foreseen rank.
Status check_shape(const BenchFlags& flags, std::optional<uint32_t> rank, const JobShape& shape) {
    if (shape.size == 1) {
        return Error(Errc::kInvalidArgument,
                     "a bench measures between processes: give --local, or start it under mpirun "
                     "or srun with 2 ranks or more");
    }
    if (rank == shape.rank || flags.cpus.empty()) return {};
    return Error(Errc::kUnavailable,
                 fmt::format("--cpus needs the rank before the job starts, and the launcher's "
                             "variables do not give it (this is rank {} of {}): start all ranks "
                             "with --rendezvous HOST:PORT --rank R --size N",
                             shape.rank, shape.size));
}

/// Where a launcher has bound each rank to one core, the limits need the server's, too.
Status find_servers_core(BenchFlags& flags, const JobShape& shape) {
    if (flags.limit_cpus[0] != kServersCore || shape.is_server) return {};
    for (const int cpu : shape.server_cpus) {
        if (cpu == flags.limit_cpus[1]) continue;
        flags.limit_cpus[0] = cpu;
        return {};
    }
    return needs_two_cores();
}

Status run_rank(BenchFlags& flags, Config& config) {
    if (flags.child) prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The limits' memory is touched before the work begins, too: a bench does not measure how long
    // the kernel takes to give out memory. (A server that is killed gives it back before its end is
    // seen: for `failover` there is no more than is used. `restart` measures nothing.)
    if (!flags.is_failover() && !flags.is_restart())
        config.set_flag("WEIR_PREFAULT", "weir bench", "yes");
    // Only the first region of a pool is touched before the work begins, so the tables of `insert`
    // must fit into it.
    if (flags.bench == "insert" && !flags.brief &&
        config.source("WEIR_POOL_MIB") == ConfigSource::kDefault) {
        config.set_flag("WEIR_POOL_MIB", "weir bench insert", "2048");
    }
    // Each server that joins touches so much first.
    if (flags.is_elastic() && config.source("WEIR_POOL_MIB") == ConfigSource::kDefault) {
        const uint64_t pool_mib = 3 * flags.table_mib + 128;
        config.set_flag("WEIR_POOL_MIB", "weir bench elastic", fmt::format("{}", pool_mib));
    }
    if (flags.limit_mbit != 0) config.set_flag("WEIR_TRANSPORT", "--limit-mbit", "tcp");
    WEIR_ASSIGN(const std::optional<uint32_t> rank, foreseen_rank(config));
    WEIR_TRY(take_place(flags, rank));
    if (flags.is_traffic() || flags.is_paper()) flags.job.add_rules = apps::add_exchange_rules;
    WEIR_ASSIGN(const std::unique_ptr<Job> started, Job::start(flags.job, config));
    Job& job = *started;
    const JobShape& shape = job.shape();
    WEIR_TRY(check_shape(flags, rank, shape));
    WEIR_TRY(find_servers_core(flags, shape));
    flags.over_tcp = shape.transports == "tcp";
    CheckpointOrders orders;
    WEIR_TRY(
        job.run_workers([&](Client& client) { return work(job, client, flags, config, orders); }));
    const Status served = job.serve();
    return shape.is_server ? served : Status();
}

}  // namespace

Status run_bench(BenchFlags& flags, Config& config) {
    WEIR_TRY(prepare(flags));
    return flags.local ? run_local(flags) : run_rank(flags, config);
}

}  // namespace weir::bench

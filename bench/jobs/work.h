// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shared by all benches: their flags, and a queue of pushes and pulls in flight.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/jobs/report.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/machine/topology.h"
#include "lib/job/job.h"
#include "lib/worker/table.h"

namespace weir::bench {

struct BenchFlags {
    JobOptions job;
    std::string bench;
    std::string json;
    std::vector<int> cpus;  ///< cores of the servers and of the worker; empty: not pinned
    bool local = false;
    bool brief = false;
    bool child = false;  ///< started by --local
    uint64_t table_mib = 512;
    uint64_t min_bytes = 4096;
    uint64_t max_bytes = 4 << 20;
    uint32_t in_flight = 0;  ///< 0: chosen by the bench
    double seconds = 1;      ///< roughly, per row
    std::string plot;        ///< delay, filters, traffic; paper: a folder
    double factor = 3;       ///< delay, paper: by which a worker is slowed
    bool steady = false;     ///< delay: always the same worker is slowed
    uint32_t rounds =
        10;              ///< elastic: servers that join, and that leave; failover: that are killed
    uint64_t seed = 1;   ///< failover: which one, and when
    bool stops = false;  ///< failover: they are stopped, and go on later
    uint32_t at_once = 1;             ///< failover: so many at the same time
    std::vector<std::string> within;  ///< failover: commands that run the servers that join
    std::string cut;                  ///< failover: command that cuts one off, and heals that
    uint32_t heal_ms = 0;             ///< failover: within which it heals; 0: after the recovery
    uint64_t turns = 0;               ///< restart: after which it ends; 0: it does not
    Filters filters;                  ///< of the tables; not in all benches
    std::vector<std::string> filter_lists;  ///< filters: beside none; empty: chosen ones
    std::vector<std::string> data;          ///< filters, traffic, paper: LIBSVM files; empty: made
    double l1 = 4;                          ///< traffic, paper: of the training
    uint32_t limit_mbit = 0;                ///< filters: of the network; 0: none
    /// The cores of the limits: the server's and the worker's.
    std::array<int, 2> limit_cpus = {0, 1};
    /// Whether the job has no transport but tcp: then the limits of `push`, `pull` and `latency` are
    /// bare sockets.
    bool over_tcp = false;

    [[nodiscard]] bool is_dense() const {
        return bench == "push" || bench == "pull" || bench == "mixed";
    }

    [[nodiscard]] bool is_delay() const { return bench == "delay"; }

    [[nodiscard]] bool is_filters() const { return bench == "filters"; }

    [[nodiscard]] bool is_traffic() const { return bench == "traffic"; }

    [[nodiscard]] bool is_paper() const { return bench == "paper"; }

    [[nodiscard]] bool is_elastic() const { return bench == "elastic"; }

    [[nodiscard]] bool is_failover() const { return bench == "failover"; }

    [[nodiscard]] bool is_restart() const { return bench == "restart"; }

    [[nodiscard]] bool is_factorization() const { return bench == "factorization"; }

    [[nodiscard]] bool is_checkpoint() const { return bench == "checkpoint"; }

    /// Servers join it.
    [[nodiscard]] bool needs_contact() const { return is_elastic() || is_failover(); }

    [[nodiscard]] bool is_sparse() const {
        return bench == "insert" || bench == "lookup" || bench == "scan";
    }

    [[nodiscard]] bool has_filters() const {
        return is_dense() || is_sparse() || bench == "latency";
    }

    /// The plot, or the first one of several.
    [[nodiscard]] std::string plot_file() const {
        return is_paper() && !plot.empty() ? plot + "/objective.svg" : plot;
    }

    [[nodiscard]] int repetitions() const { return brief ? 2 : 7; }

    /// The time of one repetition of a row, for Weir or for the limit.
    [[nodiscard]] uint64_t part_ns() const {
        return static_cast<uint64_t>(seconds * 1e9 / (2 * repetitions()));
    }
};

/// The size of a worker's buffer that is large enough for all sizes of bench_dense().
uint64_t dense_buffer_bytes(const BenchFlags& flags);

Status bench_dense(Client& client, const BenchFlags& flags, BenchReport& report);
Status bench_latency(Client& client, const BenchFlags& flags, BenchReport& report);
Status bench_insert(Client& client, const BenchFlags& flags, BenchReport& report);
Status bench_lookup(Client& client, const BenchFlags& flags, BenchReport& report);
Status bench_scan(Client& client, const BenchFlags& flags, BenchReport& report);
Status bench_functions(Client& client, const BenchFlags& flags, BenchReport& report);

/// A queue of operations in flight, at most `in_flight` at a time. It times each of them.
class Flight {
public:
    explicit Flight(uint32_t in_flight) : in_flight_(in_flight) {}

    /// If the queue is full, waits for the oldest operation. Call it before you start another one
    /// or change a buffer that the oldest one reads.
    Status room() { return pending_.size() < in_flight_ ? Status{} : finish_one(); }

    void add(Task task, uint64_t started_ns) { pending_.push_back({std::move(task), started_ns}); }

    Status finish() {
        while (!pending_.empty())
            WEIR_TRY(finish_one());
        return {};
    }

    [[nodiscard]] std::vector<uint32_t>& times_ns() { return times_ns_; }

private:
    struct Pending {
        Task task;
        uint64_t started_ns;
    };

    Status finish_one() {
        WEIR_TRY(pending_.front().task.wait());
        times_ns_.push_back(static_cast<uint32_t>(clock_.now_ns() - pending_.front().started_ns));
        pending_.pop_front();
        return {};
    }

    SteadyClock clock_;
    uint32_t in_flight_;
    std::deque<Pending> pending_;
    std::vector<uint32_t> times_ns_;
};

/// Fills in values like those of a training, whose sums are rounded. Exact sums take the same
/// time on a real processor, but not on an emulated one.
inline void fill_with_updates(std::span<float> values) {
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0F / static_cast<float>(3 + i % 1021);
}

/// The bytes that the library has copied so far, in this process and in the servers.
inline Result<uint64_t> copied_bytes(Client& client) {
    WEIR_ASSIGN(const ClientStats stats, client.stats());
    return stats.bytes_copied + stats.servers_bytes_copied;
}

inline void pin_or_warn(int cpu) {
    if (const Status pinned = pin_this_thread(cpu); !pinned)
        log(LogLevel::kWarning, "{}", pinned.error().message());
}

/// Runs a limit's `work` on the core `cpu`, the server's. It waits first until the server sleeps.
template <class Work>
double on_core(int cpu, Work&& work) {
    double result = 0;
    std::thread thread([&] {
        pin_or_warn(cpu);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        result = work();
    });
    thread.join();
    return result;
}

}  // namespace weir::bench

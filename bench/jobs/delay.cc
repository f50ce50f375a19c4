// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/delay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/delay_report.h"
#include "bench/jobs/slowdown.h"
#include "lib/data/output_file.h"
#include "lib/task/consistency.h"
#include "lib/worker/iterations.h"

namespace weir::bench {
namespace {

constexpr uint64_t kDelayValues = 1024;            ///< that are pulled and pushed
constexpr uint64_t kComputeNs = 2 * kMillisecond;  ///< per iteration, when not slowed
constexpr uint64_t kBurstNs = 8 * kComputeNs;      ///< with a factor of 3, it costs 5 iterations
constexpr uint64_t kDelayIterationsMin = 24;
constexpr KeyRange kAllOfThem{0, kDelayValues};
constexpr uint64_t kToldMax = 8;  ///< eventual: of its progress that a worker tells at a time

constexpr std::array<Consistency, 6> kModels = {Consistency::bounded(0), Consistency::bounded(1),
                                                Consistency::bounded(2), Consistency::bounded(4),
                                                Consistency::bounded(8), Consistency::eventual()};

/// What one worker has measured in one row; as values of a table, where all workers put theirs.
struct Measured {
    double waited_ns = 0;
    double all_ns = 0;
    Staleness staleness;

    static constexpr uint64_t kNumbers = 5;

    [[nodiscard]] std::array<double, kNumbers> numbers() const {
        return {waited_ns, all_ns, static_cast<double>(staleness.pulls()), staleness.mean(),
                static_cast<double>(staleness.max())};
    }
};

/// One worker's iterations under one consistency model.
class DelayRun {
public:
    DelayRun(Client& client, Consistency model, uint64_t count, Slowdown slowdown)
        : client_(client),
          model_(model),
          iterations_(client, model),
          count_(count),
          slowdown_(slowdown) {}

    /// Makes the tables and buffers. All workers call it.
    Status prepare(size_t number);
    /// Runs the iterations.
    Status run();
    /// Of all workers; only the first one gets it.
    Result<std::optional<DelayRow>> row();

private:
    Status iteration(uint64_t t);
    Status look_at_progress(uint64_t t);
    void tell_progress(uint64_t t, TaskId after);
    void compute();

    template <class Wait>
    Status waiting(Wait&& wait) {
        const uint64_t before_ns = clock_.now_ns();
        Status status = wait();
        measured_.waited_ns += static_cast<double>(clock_.now_ns() - before_ns);
        return status;
    }

    Client& client_;
    Consistency model_;
    Iterations iterations_;
    uint64_t count_;
    Slowdown slowdown_;
    SteadyClock clock_;
    std::optional<Table<float>> table_;
    std::optional<Table<uint64_t>> progress_;  ///< eventual: by worker, its last iteration
    std::optional<Table<double>> results_;
    Buffer<float> pulled_;
    std::vector<uint64_t> progress_of_all_;
    std::array<uint64_t, kToldMax> told_{};
    Tasks pushes_;
    Tasks tells_;
    Measured measured_;
};

Status DelayRun::prepare(size_t number) {
    const std::string name = fmt::format("delay.{}", number);
    WEIR_ASSIGN(table_, iterations_.create_table<float>(
                            name, {.layout = Layout::kDense, .key_count = kDelayValues}));
    const uint64_t workers = slowdown_.worker_count;
    WEIR_ASSIGN(progress_, client_.create_table<uint64_t>(
                               name + ".progress",
                               {.layout = Layout::kDense, .key_count = workers, .rule = assign()}));
    WEIR_ASSIGN(results_, client_.create_table<double>(name + ".results",
                                                       {.layout = Layout::kDense,
                                                        .key_count = workers * Measured::kNumbers,
                                                        .rule = assign()}));
    WEIR_ASSIGN(pulled_, client_.make_buffer<float>(kDelayValues));
    progress_of_all_.resize(workers);
    return {};
}

Status DelayRun::run() {
    WEIR_TRY(client_.barrier());
    slowdown_.begin_ns = clock_.now_ns();
    for (uint64_t t = 1; t <= count_; ++t)
        WEIR_TRY(iteration(t));
    WEIR_TRY(waiting([&] { return pushes_.wait(); }));
    WEIR_TRY(waiting([&] { return tells_.wait(); }));
    measured_.all_ns = static_cast<double>(clock_.now_ns() - slowdown_.begin_ns);
    const auto numbers = measured_.numbers();
    const uint64_t first = client_.worker() * Measured::kNumbers;
    WEIR_TRY(results_->push(KeyRange{first, first + Measured::kNumbers}, numbers).wait());
    return client_.barrier();
}

/// Iteration t - tau - 1 is finished, then t begins. Under the eventual model a worker waits for nobody
/// else, but for its own pushes, of which some may be under way (Iterations::kEventualBuffers).
Status DelayRun::iteration(uint64_t t) {
    WEIR_TRY(waiting([&] { return iterations_.begin(t); }));
    if (model_.is_eventual()) WEIR_TRY(look_at_progress(t));
    Task pull = iterations_.pull(*table_, kAllOfThem, pulled_.span());
    WEIR_TRY(waiting([&] { return pull.wait(); }));
    if (const auto shown = pull.iteration_shown(); shown && !model_.is_eventual())
        measured_.staleness.count(t, *shown);
    compute();
    std::span<float> values;
    WEIR_TRY(waiting([&]() -> Status {
        WEIR_ASSIGN(values, iterations_.values(*table_));
        return {};
    }));
    fill_with_updates(values);
    Task push = iterations_.push(*table_, kAllOfThem, values);
    if (model_.is_eventual()) tell_progress(t, push.id());
    pushes_.add(std::move(push));
    return {};
}

/// Where nobody waits for others, nobody counts iterations but they: how far each is, stands in a table.
Status DelayRun::look_at_progress(uint64_t t) {
    WEIR_TRY(waiting([&] { return tells_.wait_for_room(told_.size()); }));
    Task progress = progress_->pull(KeyRange{0, progress_of_all_.size()}, progress_of_all_);
    WEIR_TRY(waiting([&] { return progress.wait(); }));
    measured_.staleness.count(t, *std::ranges::min_element(progress_of_all_));
    return {};
}

/// `after`: the push of iteration t.
void DelayRun::tell_progress(uint64_t t, TaskId after) {
    uint64_t& told = told_[t % told_.size()];
    told = t;
    const uint64_t mine = client_.worker();
    tells_.add(progress_->push(KeyRange{mine, mine + 1}, std::span<const uint64_t>(&told, 1),
                               {.after = {after}}));
}

void DelayRun::compute() {
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t end_ns = slowdown_.end_of(client_.worker(), now_ns, kComputeNs);
    std::this_thread::sleep_for(std::chrono::nanoseconds(end_ns - now_ns));
}

Result<std::optional<DelayRow>> DelayRun::row() {
    if (client_.worker() != 0) return std::optional<DelayRow>();
    const uint64_t workers = slowdown_.worker_count;
    std::vector<double> all(workers * Measured::kNumbers);
    WEIR_TRY(results_->pull(KeyRange{0, all.size()}, all).wait());
    DelayRow row;
    if (!model_.is_eventual()) row.tau = model_.tau();
    double waited_ns = 0;
    double all_ns = 0;
    double longest_ns = 0;
    double pulls = 0;
    for (uint64_t worker = 0; worker < workers; ++worker) {
        const double* const numbers = all.data() + worker * Measured::kNumbers;
        waited_ns += numbers[0];
        all_ns += numbers[1];
        longest_ns = std::max(longest_ns, numbers[1]);
        pulls += numbers[2];
        row.staleness_mean += numbers[2] * numbers[3];
        row.staleness_max = std::max(row.staleness_max, static_cast<uint64_t>(numbers[4]));
    }
    row.iterations_per_s = static_cast<double>(count_) * 1e9 / longest_ns;
    row.waiting_share = waited_ns / all_ns;
    if (pulls > 0) row.staleness_mean /= pulls;
    return std::optional(row);
}

std::string work_text(uint32_t workers, const BenchFlags& flags) {
    const std::string slowed = flags.steady
                                   ? fmt::format("the last one {} times slower", flags.factor)
                                   : fmt::format("by turns {} times slower for {} ms", flags.factor,
                                                 kBurstNs / kMillisecond);
    return fmt::format("{} workers that compute for {} ms per iteration (asleep), {}", workers,
                       kComputeNs / kMillisecond, slowed);
}

}  // namespace

Status bench_delay(Client& client, const BenchFlags& flags, const JobShape& shape) {
    const bool reports = client.worker() == 0;
    for (const std::string& path : {flags.json, flags.plot}) {
        if (reports && !path.empty()) WEIR_TRY(data::check_output(path));
    }
    // Without a delay, an iteration takes as long as a slowed one.
    const auto iterations =
        std::max(kDelayIterationsMin,
                 static_cast<uint64_t>(flags.seconds * 1e9 / (flags.factor * kComputeNs)));
    const Slowdown slowdown{.burst_ns = kBurstNs,
                            .factor = flags.factor,
                            .is_steady = flags.steady,
                            .worker_count = shape.worker_count};
    std::optional<DelayReport> report;
    if (reports) report.emplace(work_text(shape.worker_count, flags), shape);
    for (size_t i = 0; i < kModels.size(); ++i) {
        DelayRun run(client, kModels[i], iterations, slowdown);
        WEIR_TRY(run.prepare(i));
        WEIR_TRY(run.run());
        WEIR_ASSIGN(const std::optional<DelayRow> row, run.row());
        if (row) report->add(*row);
    }
    if (!reports) return {};
    report->print_legend();
    if (!flags.plot.empty()) WEIR_TRY(report->write_plot(flags.plot));
    return flags.json.empty() ? Status() : report->write_json(flags.json);
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
// weir bench latency: small pushes, one at a time, against a flag that two threads pass to and
// fro, or over tcp against a bare connection.
#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/jobs/work.h"
#include "bench/limits/pingpong.h"

namespace weir::bench {
namespace {

constexpr uint32_t kBytesMax = 4096;
constexpr uint32_t kHeadBytes = 48;  // of a push's message, beside its values

double median_of(std::vector<uint32_t>& times_ns) {
    const auto middle = times_ns.begin() + static_cast<ptrdiff_t>(times_ns.size() / 2);
    std::nth_element(times_ns.begin(), middle, times_ns.end());
    return *middle * 1e-3;
}

/// Measures Weir, the flag (or the bare connection) and the bare ring by turns.
class LatencyBench {
public:
    LatencyBench(const BenchFlags& flags, Table<float> table, Buffer<float> buffer)
        : flags_(flags), table_(table), buffer_(std::move(buffer)) {}

    Result<BenchRow> row(uint32_t bytes);

private:
    /// The times of one repetition's round trips with Weir.
    Result<std::vector<uint32_t>> ours(uint64_t values);

    /// The median time of a limit's round trips, in us.
    template <class Pingpong>
    Result<double> limit(uint32_t bytes, Pingpong&& pingpong) const;

    const BenchFlags& flags_;
    Table<float> table_;
    Buffer<float> buffer_;
    SteadyClock clock_;
};

Result<std::vector<uint32_t>> LatencyBench::ours(uint64_t values) {
    constexpr uint64_t kWarmUp = 50;
    std::vector<uint32_t> times_ns;
    const uint64_t end_ns = clock_.now_ns() + flags_.part_ns();
    uint64_t before_ns = clock_.now_ns();
    for (uint64_t count = 0; count < 2 * kWarmUp || before_ns < end_ns; ++count) {
        const uint64_t at = count % 64 * values;
        WEIR_TRY(table_.push(KeyRange{at, at + values}, buffer_.span().first(values)).wait());
        const uint64_t now_ns = clock_.now_ns();
        if (count >= kWarmUp) times_ns.push_back(static_cast<uint32_t>(now_ns - before_ns));
        before_ns = now_ns;
    }
    return times_ns;
}

template <class Pingpong>
Result<double> LatencyBench::limit(uint32_t bytes, Pingpong&& pingpong) const {
    bench::PingpongOptions options;
    options.message_bytes = bytes;
    options.duration_max_ns = flags_.part_ns() / 2;
    options.cpus = {flags_.limit_cpus[1], flags_.limit_cpus[0]};
    WEIR_ASSIGN(const bench::PingpongResult result, pingpong(options));
    return std::max(static_cast<double>(result.p50_ns), 1.0) * 1e-3;
}

Result<BenchRow> LatencyBench::row(uint32_t bytes) {
    BenchRow row;
    row.key_count = bytes / sizeof(float);
    row.size_bytes = bytes;
    std::vector<uint32_t> all_ns;
    std::vector<double> limits_us;
    std::vector<double> rings_us;
    std::vector<double> ratios;
    std::vector<double> ring_ratios;
    for (int i = 0; i < flags_.repetitions(); ++i) {
        WEIR_ASSIGN(std::vector<uint32_t> times_ns, ours(row.key_count));
        all_ns.insert(all_ns.end(), times_ns.begin(), times_ns.end());
        const double ours_us = median_of(times_ns);
        // The limits' second thread needs the server's core. The server goes to sleep meanwhile.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        WEIR_ASSIGN(const double best_us, flags_.over_tcp
                                              ? limit(kHeadBytes + bytes, bench::socket_pingpong)
                                              : limit(bytes, bench::flag_pingpong));
        WEIR_ASSIGN(const double ring_us, limit(bytes, bench::ring_pingpong));
        limits_us.push_back(best_us);
        rings_us.push_back(ring_us);
        ratios.push_back(best_us / ours_us);
        ring_ratios.push_back(ring_us / ours_us);
    }
    double sum_ns = 0;
    for (const uint32_t time_ns : all_ns)
        sum_ns += time_ns;
    row.operations_per_s = static_cast<double>(all_ns.size()) * 1e9 / sum_ns;
    row.limit = median(limits_us);
    row.ring_us = median(rings_us);
    row.ratio = median(ratios);
    row.ring_ratio = median(ring_ratios);
    set_percentiles(row, all_ns);
    return row;
}

}  // namespace

Status bench_latency(Client& client, const BenchFlags& flags, BenchReport& report) {
    constexpr uint64_t kValues = 64 * kBytesMax / sizeof(float);
    WEIR_ASSIGN(
        Table<float> table,
        client.create_table<float>(
            "bench", {.layout = Layout::kDense, .key_count = kValues, .filters = flags.filters}));
    WEIR_ASSIGN(Buffer<float> buffer, client.make_buffer<float>(kBytesMax / sizeof(float)));
    fill_with_updates(buffer.span());
    LatencyBench bench(flags, table, std::move(buffer));
    for (uint32_t bytes = 4; bytes <= kBytesMax; bytes *= 2) {
        WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client));
        WEIR_ASSIGN(BenchRow row, bench.row(bytes));
        WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client));
        row.bytes_copied = copied_after - copied_before;
        report.add(std::move(row));
    }
    return {};
}

}  // namespace weir::bench

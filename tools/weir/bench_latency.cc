// SPDX-License-Identifier: Apache-2.0
// weir bench latency: small pushes, one at a time, against two bare rings.
#include <algorithm>

#include "bench/limits/ring_pingpong.h"
#include "tools/weir/bench_work.h"

namespace weir::tools {
namespace {

constexpr uint32_t kBytesMax = 4096;

Result<BenchRow> latency_row(Client& client, Table<float>& table, Buffer<float>& buffer,
                             uint32_t bytes, uint64_t duration_ns) {
    const uint64_t values = bytes / sizeof(float);
    const SteadyClock clock;
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client));
    std::vector<uint32_t> times_ns;
    uint64_t count = 0;
    const uint64_t begin_ns = clock.now_ns();
    uint64_t before_ns = begin_ns;
    while (count < 100 || before_ns - begin_ns < duration_ns) {
        const uint64_t at = count++ % 64 * values;
        WEIR_TRY(table.push(KeyRange{at, at + values}, buffer.span().first(values)).wait());
        const uint64_t now_ns = clock.now_ns();
        if (now_ns - begin_ns > duration_ns / 10 || count > 50)  // warm by then
            times_ns.push_back(static_cast<uint32_t>(now_ns - before_ns));
        before_ns = now_ns;
    }
    BenchRow row;
    row.key_count = values;
    row.size_bytes = bytes;
    row.operations_per_s =
        static_cast<double>(count) * 1e9 / static_cast<double>(before_ns - begin_ns);
    set_percentiles(row, times_ns);
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client));
    row.bytes_copied = copied_after - copied_before;
    return row;
}

}  // namespace

Result<RingTimes> ring_times(const BenchFlags& flags) {
    RingTimes times;
    for (uint32_t bytes = 4; bytes <= kBytesMax; bytes *= 2) {
        bench::RingPingpongOptions options;
        options.message_bytes = bytes;
        options.rounds = flags.brief ? 1000 : 50'000;
        options.cpus = flags.limit_cpus;
        std::vector<double> medians;
        for (int i = 0; i < (flags.brief ? 1 : 5); ++i) {
            WEIR_ASSIGN(const bench::RingPingpongResult result, bench::ring_pingpong(options));
            medians.push_back(static_cast<double>(result.p50_ns) * 1e-3);
        }
        times.emplace_back(bytes, median(medians));
    }
    return times;
}

Status bench_latency(Client& client, const BenchFlags& flags, const RingTimes& limits,
                     BenchReport& report) {
    constexpr uint64_t kValues = 64 * kBytesMax / sizeof(float);
    WEIR_ASSIGN(Table<float> table, client.create_table<float>(
                                        "bench", {.layout = Layout::kDense, .key_count = kValues}));
    WEIR_ASSIGN(Buffer<float> buffer, client.make_buffer<float>(kBytesMax / sizeof(float)));
    fill_with_updates(buffer.span());
    const auto duration_ns = static_cast<uint64_t>(flags.seconds * 1e9);
    for (const auto& [bytes, limit_us] : limits) {
        WEIR_ASSIGN(BenchRow row, latency_row(client, table, buffer, bytes, duration_ns));
        row.limit = limit_us;
        row.ratio = row.p50_us / std::max(limit_us, 1e-3);
        report.add(std::move(row));
    }
    return {};
}

}  // namespace weir::tools

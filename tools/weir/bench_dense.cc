// SPDX-License-Identifier: Apache-2.0
// weir bench push and pull: dense tables, registered buffers, one size after the other.
#include <algorithm>

#include <fmt/core.h>

#include "bench/arena.h"
#include "bench/limits/memory_work.h"
#include "tools/weir/bench_work.h"

namespace weir::tools {
namespace {

constexpr uint64_t kBufferBytesMin = 1 << 20;

uint32_t in_flight(const BenchFlags& flags, uint64_t bytes) {
    if (flags.in_flight != 0) return flags.in_flight;
    return bytes <= 64 << 10 ? 16 : 4;
}

/// Places of one size all over the table, in an order that no prefetcher foresees.
class Places {
public:
    Places(uint64_t table_values, uint64_t values)
        : values_(values), count_(std::max<uint64_t>(1, table_values / values)) {}

    /// First value of the next place; the count is a power of two, the step odd: all get their
    /// turn.
    uint64_t next() noexcept {
        at_ = (at_ + 0x9e3779b1) % count_;
        return at_ * values_;
    }

private:
    uint64_t values_;
    uint64_t count_;
    uint64_t at_ = 0;
};

class DenseBench {
public:
    DenseBench(Client& client, const BenchFlags& flags, Table<float> table, Buffer<float> buffer)
        : client_(client),
          flags_(flags),
          pull_(flags.bench == "pull"),
          table_(table),
          buffer_(std::move(buffer)),
          limit_memory_(flags.table_mib << 20),
          limit_table_(limit_memory_.array<float>(flags.table_mib << 18)) {}

    Result<BenchRow> row(uint64_t bytes, uint32_t in_flight);
    Status touch();

private:
    Result<double> ours(uint64_t values, Flight& flight, uint32_t in_flight);
    double limit(uint64_t values, uint32_t in_flight);

    Client& client_;
    const BenchFlags& flags_;
    bool pull_;
    Table<float> table_;
    Buffer<float> buffer_;
    SteadyClock clock_;
    bench::Arena limit_memory_;
    float* limit_table_;
};

/// Once through the whole table: its first touch is not what is measured.
Status DenseBench::touch() {
    const uint64_t all = flags_.table_mib << 18;
    const uint64_t values = std::min<uint64_t>(all, buffer_.size());
    for (uint64_t begin = 0; begin < all; begin += values) {
        const uint64_t end = std::min(all, begin + values);
        WEIR_TRY(table_.push(KeyRange{begin, end}, buffer_.span().first(end - begin)).wait());
    }
    return {};
}

/// Operations per second.
Result<double> DenseBench::ours(uint64_t values, Flight& flight, uint32_t in_flight) {
    Places places(flags_.table_mib << 18, values);
    const uint64_t begin_ns = clock_.now_ns();
    uint64_t count = 0;
    uint64_t now_ns = begin_ns;
    while (now_ns - begin_ns < flags_.part_ns() || count < in_flight) {
        WEIR_TRY(flight.room());
        const std::span<float> buffer =
            buffer_.span().subspan(count++ % in_flight * values, values);
        const uint64_t at = places.next();
        now_ns = clock_.now_ns();
        const KeyRange keys{at, at + values};
        flight.add(pull_ ? table_.pull(keys, buffer) : table_.push(keys, buffer), now_ns);
    }
    WEIR_TRY(flight.finish());
    return static_cast<double>(count) * 1e9 / static_cast<double>(clock_.now_ns() - begin_ns);
}

/// One core alone does the same with the same buffers, which the worker's core has written.
double DenseBench::limit(uint64_t values, uint32_t in_flight) {
    return on_core(flags_.limit_cpus[0], [&] {
        Places places(flags_.table_mib << 18, values);
        const uint64_t begin_ns = clock_.now_ns();
        uint64_t count = 0;
        const uint64_t batch = std::max<uint64_t>(1, (1 << 18) / values);
        do {
            for (uint64_t i = 0; i < batch; ++i) {
                float* const buffer = &buffer_[count++ % in_flight * values];
                float* const place = limit_table_ + places.next();
                if (pull_) {
                    limits::copy_buffer(reinterpret_cast<std::byte*>(buffer),
                                        reinterpret_cast<const std::byte*>(place),
                                        values * sizeof(float));
                } else {
                    limits::add_buffer(place, buffer, values);
                }
            }
        } while (clock_.now_ns() - begin_ns < flags_.part_ns());
        return static_cast<double>(count) * 1e9 / static_cast<double>(clock_.now_ns() - begin_ns);
    });
}

Result<BenchRow> DenseBench::row(uint64_t bytes, uint32_t in_flight) {
    const uint64_t values = bytes / sizeof(float);
    fill_with_updates(buffer_.span());
    BenchRow row;
    row.key_count = values;
    row.size_bytes = bytes;
    row.in_flight = in_flight;
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Flight flight(in_flight);
    std::vector<double> rates;
    std::vector<double> limits;
    std::vector<double> ratios;
    for (int i = -1; i < flags_.repetitions(); ++i) {  // the first is for warming up
        WEIR_ASSIGN(const double rate, ours(values, flight, in_flight));
        const double best = limit(values, in_flight);
        if (i < 0) {
            flight.times_ns().clear();
            continue;
        }
        rates.push_back(rate);
        limits.push_back(best * static_cast<double>(bytes));
        ratios.push_back(rate / best);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    set_percentiles(row, flight.times_ns());
    row.operations_per_s = median(rates);
    row.limit = median(limits);
    row.ratio = median(ratios);
    row.bytes_copied = copied_after - copied_before;
    return row;
}

}  // namespace

uint64_t dense_buffer_bytes(const BenchFlags& flags) {
    uint64_t most = kBufferBytesMin;
    for (uint64_t bytes = flags.min_bytes; bytes <= flags.max_bytes; bytes *= 2)
        most = std::max(most, bytes * in_flight(flags, bytes));
    return most;
}

Status bench_dense(Client& client, const BenchFlags& flags, BenchReport& report) {
    WEIR_ASSIGN(Table<float> table,
                client.create_table<float>(
                    "bench", {.layout = Layout::kDense, .key_count = flags.table_mib << 18}));
    WEIR_ASSIGN(Buffer<float> buffer,
                client.make_buffer<float>(dense_buffer_bytes(flags) / sizeof(float)));
    DenseBench bench(client, flags, table, std::move(buffer));
    WEIR_TRY(bench.touch());
    for (uint64_t bytes = flags.min_bytes; bytes <= flags.max_bytes; bytes *= 2) {
        WEIR_ASSIGN(BenchRow row, bench.row(bytes, in_flight(flags, bytes)));
        report.add(std::move(row));
    }
    return {};
}

}  // namespace weir::tools

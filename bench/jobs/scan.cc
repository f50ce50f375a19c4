// SPDX-License-Identifier: Apache-2.0
// weir bench scan: reading out a table whose keys nobody knows, beside pulls of the same rows by one who
// knows them.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/keys.h"
#include "lib/base/random.h"

namespace weir::bench {
namespace {

constexpr size_t kPulledBytes = size_t{1} << 20;

class ScanBench {
public:
    ScanBench(Client& client, const BenchFlags& flags, BenchReport& report)
        : client_(client),
          flags_(flags),
          report_(report),
          in_flight_(flags.in_flight == 0 ? 4 : flags.in_flight) {}

    Status run(Layout layout, uint32_t width);

private:
    [[nodiscard]] Result<double> scan(Table<float>& table) const;

    Client& client_;
    const BenchFlags& flags_;
    BenchReport& report_;
    uint32_t in_flight_;
};

/// Keys per second.
Result<double> ScanBench::scan(Table<float>& table) const {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    size_t values = 0;
    Scan<float> scan = table.scan();
    while (scan.next())
        values += scan.values().size();
    WEIR_TRY(scan.status());
    const auto keys = static_cast<double>(values) / table.width();
    return keys * 1e9 / static_cast<double>(clock.now_ns() - begin_ns);
}

Status ScanBench::run(Layout layout, uint32_t width) {
    const size_t bytes = (flags_.brief ? size_t{8} : size_t{256}) << 20;
    const size_t row_bytes = width * sizeof(float);
    const bool is_dense = layout == Layout::kDense;
    // A sparse table of narrow rows takes several times what its values take.
    const size_t key_count = std::min(bytes / row_bytes, size_t{is_dense ? 1U << 26 : 1U << 22});
    const size_t list_keys = kPulledBytes / row_bytes;
    const std::string name = fmt::format("{}, width {}", is_dense ? "dense" : "sparse", width);
    TableOptions options{.layout = layout, .key_count = key_count, .width = width};
    options.filters = flags_.filters;
    WEIR_ASSIGN(Table<float> table, client_.create_table<float>(name, options));
    WEIR_ASSIGN(Buffer<float> buffer,
                client_.make_buffer<float>(in_flight_ * kPulledBytes / sizeof(float)));
    fill_with_updates(buffer.span());
    Buffer<uint64_t> keys;
    if (!is_dense) {
        WEIR_ASSIGN(keys, client_.make_buffer<uint64_t>(key_count));
        for (size_t i = 0; i < key_count; ++i)
            keys[i] = mix64(i + 1);
        for (size_t begin = 0; begin < key_count; begin += list_keys) {
            const size_t some = std::min(list_keys, key_count - begin);
            std::ranges::sort(keys.span().subspan(begin, some));
        }
    }
    const auto values = [&](size_t some, size_t turn) {
        return buffer.span().subspan(turn * kPulledBytes / sizeof(float), some * width);
    };
    const auto pull = [&](size_t begin, size_t some, size_t turn) {
        some = std::min(some, list_keys);
        if (is_dense) return table.pull(KeyRange{begin, begin + some}, values(some, turn));
        return table.pull(keys.span().subspan(begin, some), values(some, turn));
    };
    for (size_t begin = 0; begin < key_count; begin += list_keys) {
        const size_t some = std::min(list_keys, key_count - begin);
        const auto pushed =
            is_dense ? table.push(KeyRange{begin, begin + some}, values(some, 0)).wait()
                     : table.push(keys.span().subspan(begin, some), values(some, 0)).wait();
        WEIR_TRY(pushed);
    }
    const auto pull_once = [&]() -> Result<double> {
        const SteadyClock clock;
        const uint64_t begin_ns = clock.now_ns();
        Flight flight(in_flight_);
        size_t turn = 0;
        for (size_t begin = 0; begin < key_count; begin += list_keys) {
            WEIR_TRY(flight.room());
            const size_t some = std::min(list_keys, key_count - begin);
            flight.add(pull(begin, some, turn++ % in_flight_), clock.now_ns());
        }
        WEIR_TRY(flight.finish());
        return static_cast<double>(key_count) * 1e9 /
               static_cast<double>(clock.now_ns() - begin_ns);
    };
    WEIR_TRY(pull_once());  // so that the lists are known
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Turns turns(name, list_keys, row_bytes, 1);
    for (int i = 0; i < flags_.repetitions(); ++i) {
        WEIR_ASSIGN(const double scanned, scan(table));
        WEIR_ASSIGN(const double pulled, pull_once());
        turns.add(scanned, pulled);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    turns.flight.times_ns().push_back(0);
    report_.add(turns.row(copied_after - copied_before));
    return client_.drop_table(name);
}

}  // namespace

Status bench_scan(Client& client, const BenchFlags& flags, BenchReport& report) {
    ScanBench bench(client, flags, report);
    for (const Layout layout : {Layout::kSparse, Layout::kDense}) {
        for (const uint32_t width : {1, 16, 64})
            WEIR_TRY(bench.run(layout, width));
    }
    return {};
}

}  // namespace weir::bench

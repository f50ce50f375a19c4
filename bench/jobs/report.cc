// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/json.h"
#include "lib/base/json_text.h"
#include "lib/base/machine/os_limits.h"
#include "lib/base/machine/topology.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

std::string processor() {
    std::ifstream lines("/proc/cpuinfo");
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("model name")) continue;
        const size_t at = line.find(": ");
        if (at != std::string::npos) return line.substr(at + 2);
    }
    return "";
}

bool holds_data(const Cache& cache) {
    return cache.kind != 'i';
}

/// "L1 48 KiB, L2 2 MiB, L3 260 MiB": one cache of each kind.
std::string caches_text() {
    std::string text;
    for (const Cache& cache : read_topology().caches) {
        if (!holds_data(cache)) continue;
        text += fmt::format("{}L{} {}", text.empty() ? "" : ", ", cache.level,
                            bytes_text(cache.size_bytes));
    }
    return text.empty() ? "unknown" : text;
}

nlohmann::json machine() {
    const Topology topology = read_topology();
    return {{"processor", processor()},     {"sockets", topology.socket_count},
            {"cores", topology.core_count}, {"cpus", topology.cpu_count},
            {"caches", caches_text()},      {"memory_bytes", machine_memory_bytes()}};
}

nlohmann::json to_json(const BenchRow& row, BenchUnit unit) {
    nlohmann::json json{{"size_bytes", row.size_bytes},
                        {"in_flight", row.in_flight},
                        {"operations_per_s", row.operations_per_s},
                        {"bytes_per_s", row.bytes_per_s()},
                        {"p50_us", row.p50_us},
                        {"p90_us", row.p90_us},
                        {"p99_us", row.p99_us},
                        {"limit", row.limit},
                        {"ratio", row.ratio},
                        {"bytes_copied", row.bytes_copied}};
    if (unit == BenchUnit::kMicroseconds) {
        json["ring_us"] = row.ring_us;
        json["ring_ratio"] = row.ring_ratio;
    }
    if (!row.payload_in.empty()) json["payload_in"] = row.payload_in;
    if (unit == BenchUnit::kKeysPerSecond) {
        json["work"] = row.work;
        json["keys"] = row.key_count;
        json["keys_per_s"] = row.keys_per_s();
    }
    return json;
}

}  // namespace

nlohmann::json bench_json(const std::string& bench, const JobShape& shape) {
    return {{"bench", bench},
            {"transport", shape.transports},
            {"launcher", shape.launcher},
            {"machine", machine()}};
}

BenchReport::BenchReport(std::string bench, BenchUnit unit, const std::string& what,
                         const JobShape& shape)
    : bench_(std::move(bench)), unit_(unit), shape_(shape) {
    fmt::print("# Weir {}: {}; {}, {}\n", bench_, what, shape_.transports, shape_.launcher);
    if (unit_ == BenchUnit::kMicroseconds) {
        fmt::print("# {:>10} {:>11} {:>8} {:>8} {:>8} {:>9} {:>6} {:>9} {:>10} {:>10}\n", "Size",
                   "Ops/s", "p50 us", "p90 us", "p99 us", "Limit us", "Ratio", "Ring us",
                   "Ring ratio", "Copied B");
    } else if (unit_ == BenchUnit::kKeysPerSecond) {
        fmt::print("# {:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>6}\n", "Work", "List",
                   "In flight", "M keys/s", "p50 us", "p99 us", "Limit M/s", "Ratio");
    } else {
        fmt::print("# {:>10} {:>9} {:>11} {:>9} {:>9} {:>9} {:>10} {:>6} {:>10} {:>10}\n", "Size",
                   "In flight", "Ops/s", "MB/s", "p50 us", "p99 us", "Limit MB/s", "Ratio",
                   is_push() ? "Payload in" : "", "Copied B");
    }
    std::fflush(stdout);
}

void BenchReport::print(const BenchRow& row) const {
    if (unit_ == BenchUnit::kMicroseconds) {
        fmt::print(
            "{:>12} {:>11.0f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>6.2f} {:>9.2f} "
            "{:>10.2f} {:>10}\n",
            row.size_bytes, row.operations_per_s, row.p50_us, row.p90_us, row.p99_us, row.limit,
            row.ratio, row.ring_us, row.ring_ratio, row.bytes_copied);
    } else if (unit_ == BenchUnit::kKeysPerSecond) {
        fmt::print("{:<26} {:>9} {:>9} {:>9.2f} {:>9.1f} {:>9.1f} {:>12.2f} {:>6.2f}\n", row.work,
                   row.key_count, row.in_flight, row.keys_per_s() * 1e-6, row.p50_us, row.p99_us,
                   row.limit * 1e-6, row.ratio);
    } else {
        fmt::print(
            "{:>12} {:>9} {:>11.0f} {:>9.1f} {:>9.2f} {:>9.2f} {:>10.1f} {:>6.2f} {:>10} "
            "{:>10}\n",
            row.size_bytes, row.in_flight, row.operations_per_s, row.bytes_per_s() * 1e-6,
            row.p50_us, row.p99_us, row.limit * 1e-6, row.ratio, row.payload_in, row.bytes_copied);
    }
    std::fflush(stdout);
}

void BenchReport::print_legend() const {
    fmt::print(
        "# Ratio: the share of the limit that is reached; 1 is the best, less is worse. It is the "
        "median of\n#   several parts, each beside its own limit, so not exactly the quotient of "
        "two columns.\n# Limit: what the machine does at best, measured in this run.\n# {} of 100 "
        "operations took no longer.\n",
        unit_ == BenchUnit::kMicroseconds ? "p50, p90, p99: 50, 90 and 99" : "p50, p99: 50 and 99");
    if (unit_ == BenchUnit::kMicroseconds) {
        fmt::print(
            "# Limit us: {}.\n# "
            "Ring us: a record of this size goes there and one comes back through two rings of "
            "Weir's\n#   shm transport, used alone. Ring ratio: the share of their speed.\n",
            shape_.transports == "tcp" ? "a message of the push's bytes goes over a bare TCP "
                                         "connection and one comes back"
                                       : "a number in a cache line goes to the other core and one "
                                         "comes back");
    } else {
        fmt::print("# {}; In flight: operations that have begun and not ended.\n",
                   unit_ == BenchUnit::kKeysPerSecond
                       ? "List: keys of one operation"
                       : "Size: bytes of the values of one operation");
    }
    if (is_push()) {
        fmt::print(
            "# Payload in: the smallest cache that holds the payloads in which the worker's "
            "core writes new values before\n"
            "#   they are pushed, outside of the measured time. Caches: {}.\n",
            caches_text());
    }
    if (bench_ == "insert")
        fmt::print(
            "# sized: the table is created for this number of keys; otherwise it grows.\n"
            "# known: the server remembers the list; unseen: it does not. held: keys in the "
            "table.\n");
    if (unit_ != BenchUnit::kKeysPerSecond)
        fmt::print("# Copied B: bytes that the library copied in all operations of the row.\n");
    std::fflush(stdout);
}

void BenchReport::add(BenchRow row) {
    print(row);
    rows_.push_back(std::move(row));
}

Status BenchReport::write_json(const std::string& path) const {
    nlohmann::json rows = nlohmann::json::array();
    for (const BenchRow& row : rows_)
        rows.push_back(to_json(row, unit_));
    nlohmann::json json = bench_json(bench_, shape_);
    json["registered_bytes"] = registered_bytes_;
    json["rows"] = std::move(rows);
    return data::write_whole_file(path, json_text(json));
}

std::string cache_that_holds(uint64_t bytes) {
    for (const Cache& cache : read_topology().caches) {
        if (holds_data(cache) && cache.size_bytes >= bytes) return fmt::format("L{}", cache.level);
    }
    return "memory";
}

double median(std::vector<double> numbers) {
    if (numbers.empty()) return 0;
    std::ranges::sort(numbers);
    return numbers[numbers.size() / 2];
}

void set_percentiles(BenchRow& row, std::vector<uint32_t>& times_ns) {
    if (times_ns.empty()) return;
    std::ranges::sort(times_ns);
    const auto at = [&](double share) {
        return times_ns[static_cast<size_t>(share * static_cast<double>(times_ns.size() - 1))] *
               1e-3;
    };
    row.p50_us = at(0.5);
    row.p90_us = at(0.9);
    row.p99_us = at(0.99);
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BenchReport: the results of a bench as rows, in a table on stdout and as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

/// The unit of a bench's main number and of its limit.
enum class BenchUnit : uint8_t { kBytesPerSecond, kKeysPerSecond, kMicroseconds };

struct BenchRow {
    std::string work;  ///< what this row does, "known list" for example; may be empty
    uint64_t key_count = 0;
    uint64_t size_bytes = 0;  ///< of the values of one operation
    uint32_t in_flight = 1;
    double operations_per_s = 0;
    double p50_us = 0;
    double p90_us = 0;
    double p99_us = 0;
    double limit = 0;        ///< in the bench's unit
    double ratio = 0;        ///< Weir's speed as a share of the limit's: 1 is the best
    double ring_us = 0;      ///< latency: the time of a bare ring
    double ring_ratio = 0;   ///< latency: Weir's speed as a share of the bare ring's
    std::string payload_in;  ///< push: the smallest cache that holds the payloads of a round
    uint64_t bytes_copied = 0;

    [[nodiscard]] double bytes_per_s() const {
        return operations_per_s * static_cast<double>(size_bytes);
    }

    [[nodiscard]] double keys_per_s() const {
        return operations_per_s * static_cast<double>(key_count);
    }
};

/// Prints the header at once, each row in add(), and the meaning of the columns in
/// print_legend().
/// Thread: one.
class BenchReport {
public:
    BenchReport(std::string bench, BenchUnit unit, const std::string& what, const JobShape& shape);

    void add(BenchRow row);

    /// Call it after the last row.
    void print_legend() const;

    /// The registered memory of all servers and of the measuring worker's process.
    void set_registered_bytes(uint64_t bytes) { registered_bytes_ = bytes; }

    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;

private:
    void print(const BenchRow& row) const;

    [[nodiscard]] bool is_push() const { return bench_ == "push"; }

    std::string bench_;
    BenchUnit unit_;
    JobShape shape_;
    std::vector<BenchRow> rows_;
    uint64_t registered_bytes_ = 0;
};

/// The name of the smallest data cache that holds this many bytes, "L2" for example, or "memory".
[[nodiscard]] std::string cache_that_holds(uint64_t bytes);

[[nodiscard]] double median(std::vector<double> numbers);

/// Sorts the times and puts their percentiles into the row.
void set_percentiles(BenchRow& row, std::vector<uint32_t>& times_ns);

}  // namespace weir::bench

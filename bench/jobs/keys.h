// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shared by the benches of sparse tables, whose rows are in keys per second.

#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/work.h"

namespace weir::bench {

/// "5e6" for 5000000, "0e0" for 0.
inline std::string short_number(size_t number) {
    size_t zeros = 0;
    for (; number != 0 && number % 10 == 0; number /= 10)
        ++zeros;
    return fmt::format("{}e{}", number, zeros);
}

/// Runs `work`, which handles `keys` keys, on the server's core and returns the keys per second.
template <class Work>
double keys_per_s(const BenchFlags& flags, size_t keys, Work&& work) {
    return on_core(flags.limit_cpus[0], [&] {
        const SteadyClock clock;
        const uint64_t begin_ns = clock.now_ns();
        work();
        return static_cast<double>(keys) * 1e9 / static_cast<double>(clock.now_ns() - begin_ns);
    });
}

/// Collects the rates of Weir and of the limit, measured by turns, for one row.
class Turns {
public:
    Turns(std::string work, size_t list_keys, size_t row_bytes, uint32_t in_flight)
        : flight(in_flight) {
        row_.work = std::move(work);
        row_.key_count = list_keys;
        row_.size_bytes = list_keys * row_bytes;
        row_.in_flight = in_flight;
    }

    void add(double ours, double limit) {
        ours_.push_back(ours / static_cast<double>(row_.key_count));
        limits_.push_back(limit);
        ratios_.push_back(ours / limit);
    }

    [[nodiscard]] BenchRow row(uint64_t bytes_copied) {
        set_percentiles(row_, flight.times_ns());
        row_.operations_per_s = median(ours_);
        row_.limit = median(limits_);
        row_.ratio = median(ratios_);
        row_.bytes_copied = bytes_copied;
        return row_;
    }

    Flight flight;

private:
    BenchRow row_;
    std::vector<double> ours_;
    std::vector<double> limits_;
    std::vector<double> ratios_;
};

}  // namespace weir::bench

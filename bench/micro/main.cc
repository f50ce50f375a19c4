// SPDX-License-Identifier: Apache-2.0
// main() of every micro-benchmark: medians of nine repetitions, unless the flags say otherwise.
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/micro/beside.h"

int main(int argc, char** argv) {
    char repetitions[] = "--benchmark_repetitions=9";
    char aggregates[] = "--benchmark_report_aggregates_only=true";
    char least_time[] = "--benchmark_min_time=0.1";
    char tabular[] = "--benchmark_counters_tabular=true";
    std::vector<char*> arguments{argv[0], repetitions, aggregates, least_time, tabular};
    arguments.insert(arguments.end(), argv + 1, argv + argc);  // the last of equal flags counts
    auto count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    benchmark::Initialize(&count, arguments.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
    benchmark::RunSpecifiedBenchmarks();
    weir::bench::detail::last_subject().reset();  // before the memory that it lies in
    return 0;
}

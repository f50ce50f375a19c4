// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/filters.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/filters/filter_calls.h"
#include "bench/jobs/filters/filter_report.h"
#include "bench/jobs/filters/lr_gradients.h"
#include "bench/jobs/filters/payloads.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

constexpr const char* kNone = "none";
constexpr const char* kChains[] = {
    "zeros",    "zeros,compress",        "significant=0", "significant=0,compress",
    "integers", "round=fixed8,integers", "auto"};
constexpr double kShares[] = {0.01, 0.1, 0.5};
constexpr uint32_t kPasses = 4;

/// What one list of filters has shown so far.
struct Chain {
    FilterCalls calls;
    FilterRow row;
    std::vector<double> rates;
    std::vector<double> speedups;
};

class FilterBench {
public:
    FilterBench(Client& client, const BenchFlags& flags, FilterReport& report)
        : client_(client), flags_(flags), report_(report) {
        names_.emplace_back(kNone);
        for (const std::string& chain : flags.filter_lists)
            names_.push_back(chain);
        if (flags.filter_lists.empty())
            names_.insert(names_.end(), std::begin(kChains), std::end(kChains));
    }

    /// All lists of filters by turns.
    Status run(const Payloads& payloads, FilterCall call);

private:
    Result<Chain> make(const Payloads& payloads, FilterCall call, const std::string& name);
    Status measure(Chain& chain, double& beside);

    Client& client_;
    const BenchFlags& flags_;
    FilterReport& report_;
    std::vector<std::string> names_;  ///< none first
    uint64_t table_count_ = 0;
};

Result<Chain> FilterBench::make(const Payloads& payloads, FilterCall call,
                                const std::string& name) {
    WEIR_ASSIGN(const Filters filters, Filters::parse(name));
    WEIR_ASSIGN(FilterCalls calls,
                FilterCalls::make(client_, fmt::format("filters.{}", ++table_count_), payloads,
                                  call, filters));
    Chain chain{std::move(calls), {}, {}, {}};
    chain.row.call = to_string(call);
    chain.row.changed = payloads.changed;
    chain.row.value_bytes = payloads.value_count() * sizeof(float);
    chain.row.filters = name;
    WEIR_ASSIGN(chain.row.error, chain.calls.error());
    return chain;
}

/// `beside`: calls per second of the first one, none.
Status FilterBench::measure(Chain& chain, double& beside) {
    const uint64_t count_before = chain.calls.call_count();
    WEIR_ASSIGN(const ClientStats before, client_.stats());
    WEIR_ASSIGN(const double rate, chain.calls.run(flags_.part_ns()));
    WEIR_ASSIGN(const ClientStats after, client_.stats());
    if (beside == 0) beside = rate;
    const auto count = static_cast<double>(chain.calls.call_count() - count_before);
    chain.row.worker_bytes =
        static_cast<double>(after.servers_bytes_received - before.servers_bytes_received) / count;
    chain.row.server_bytes =
        static_cast<double>(after.servers_bytes_sent - before.servers_bytes_sent) / count;
    chain.rates.push_back(rate);
    chain.speedups.push_back(rate / beside);
    return {};
}

Status FilterBench::run(const Payloads& payloads, FilterCall call) {
    std::vector<Chain> chains;
    for (const std::string& name : names_) {
        WEIR_ASSIGN(Chain chain, make(payloads, call, name));
        chains.push_back(std::move(chain));
    }
    for (int i = -1; i < flags_.repetitions(); ++i) {  // the first repetition is a warm-up
        double beside = 0;
        for (Chain& chain : chains) {
            WEIR_TRY(measure(chain, beside));
            if (i >= 0) continue;
            chain.rates.clear();
            chain.speedups.clear();
        }
    }
    for (Chain& chain : chains) {
        chain.row.calls_per_s = median(chain.rates);
        chain.row.speedup = median(chain.speedups);
        report_.add(chain.row);
        WEIR_TRY(chain.calls.drop());
    }
    return {};
}

Result<std::vector<Payloads>> all_payloads(const BenchFlags& flags) {
    std::vector<Payloads> all;
    uint64_t seed = 1;
    for (const double share : kShares)
        all.push_back(changed_payloads(share, flags.brief ? 4096 : 65536, seed++));
    WEIR_ASSIGN(LrGradients gradients,
                flags.data.empty() ? synthetic_lr_gradients(flags.brief ? 300 : 10'000, kPasses)
                                   : lr_gradients(flags.data, kPasses));
    all.push_back(gradient_payloads(std::move(gradients)));
    return all;
}

}  // namespace

Status bench_filters(Client& client, const BenchFlags& flags, const JobShape& shape) {
    if (client.worker_count() != 1) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("the job has {} workers: `weir bench filters` measures one that is "
                        "alone",
                        client.worker_count()));
    }
    for (const std::string& path : {flags.json, flags.plot}) {
        if (!path.empty()) WEIR_TRY(data::check_output(path));
    }
    WEIR_ASSIGN(const std::vector<Payloads> all, all_payloads(flags));
    FilterReport report(shape, flags.limit_mbit);
    FilterBench bench(client, flags, report);
    for (const FilterCall call : kFilterCalls) {
        for (const Payloads& payloads : all)
            WEIR_TRY(bench.run(payloads, call));
    }
    report.print_legend();
    if (!flags.plot.empty()) WEIR_TRY(report.write_plot(flags.plot));
    return flags.json.empty() ? Status() : report.write_json(flags.json);
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/factorization/factorization_report.h"

#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/factorization/ratings.h"
#include "bench/jobs/json.h"
#include "bench/jobs/report.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

using Round = FactorizationRound;

void print_plain(const char* work, double samples_per_s) {
    fmt::print("{:<34} {:>12.2f}\n", work, samples_per_s * 1e-6);
}

void print_variant(const char* work, const Round::Variant& v, double pulled, double applied) {
    fmt::print("{:<34} {:>12.2f} {:>7.2f} {:>8.2f} {:>9.2f} {:>6.2f} {:>8.2f} {:>9.2f} {:>7.3f}\n",
               work, v.samples_per_s * 1e-6, pulled, applied, v.limit * 1e-6, v.ratio, v.of_core,
               v.of_batched, v.error);
}

nlohmann::json variant_json(const char* work, const Round::Variant& v, double pulled,
                            double applied) {
    return {{"work", work},
            {"samples_per_s", v.samples_per_s},
            {"rows_pulled_per_sample", pulled},
            {"rows_applied_per_sample", applied},
            {"limit", v.limit},
            {"ratio", v.ratio},
            {"share_of_core", v.of_core},
            {"share_of_batched", v.of_batched},
            {"error", v.error}};
}

}  // namespace

FactorizationReport::FactorizationReport(const JobShape& shape, FactorizationRows rows)
    : shape_(shape), rows_(rows) {
    fmt::print(
        "# Weir factorization: {} users x {} items, rank {}, float32, sgd; batches of {} samples "
        "in "
        "any order, {} workers; {}, {}\n",
        kUsers, kItems, kRank, kBatch, shape_.worker_count, shape_.transports, shape_.launcher);
    std::fflush(stdout);
}

FactorizationRound FactorizationReport::medians() const {
    const auto of = [&](auto&& number) {
        std::vector<double> numbers;
        for (const Round& round : rounds_)
            numbers.push_back(number(round));
        return median(std::move(numbers));
    };
    const auto variant = [&](Round::Variant Round::*which) {
        Round::Variant all;
        for (double Round::Variant::*field :
             {&Round::Variant::samples_per_s, &Round::Variant::limit, &Round::Variant::ratio,
              &Round::Variant::of_core, &Round::Variant::of_batched})
            all.*field = of([&](const Round& round) { return (round.*which).*field; });
        all.error = (rounds_.back().*which).error;
        return all;
    };
    Round all;
    for (double Round::*field : {&Round::pull_keys_per_s, &Round::push_keys_per_s, &Round::loop,
                                 &Round::batched, &Round::core})
        all.*field = of([&](const Round& round) { return round.*field; });
    all.alone = variant(&Round::alone);
    all.together = variant(&Round::together);
    return all;
}

void FactorizationReport::print() const {
    const Round all = medians();
    fmt::print("# {:<32} {:>12} {:>7} {:>8} {:>9} {:>6} {:>8} {:>9} {:>7}\n", "Work", "M samples/s",
               "Pulled", "Applied", "Limit M/s", "Ratio", "Of core", "Of thread", "Error");
    print_plain("one thread, sample by sample", all.loop);
    print_plain("one thread, in batches", all.batched);
    print_plain("one core, rows without messages", all.core);
    print_variant("pushes as they come", all.alone, rows_.of_one, rows_.of_one);
    print_variant("iterations, bounded(2)", all.together, rows_.of_one, rows_.of_all);
    fmt::print(
        "# Pulled, Applied: rows that the server sends, and that its rule changes, for each "
        "sample.\n"
        "# Limit: the server's core at these rows, at the rates of lists of 8192 keys of 1e6 (as "
        "`weir bench\n#   lookup` has them; in this run {:.1f} M rows/s pulled, {:.1f} pushed). "
        "Ratio: the share of it that is reached.\n"
        "# Of core: the share of what one core does that looks up and changes the rows of the same "
        "batches\n#   without messages, and does nothing else.\n"
        "# Of thread: the share of what one thread does in batches, which is all that workers on "
        "one core "
        "can do.\n"
        "# Error: root of the mean squared error of the last batches.\n",
        all.pull_keys_per_s * 1e-6, all.push_keys_per_s * 1e-6);
    std::fflush(stdout);
}

Status FactorizationReport::write_json(const std::string& path) const {
    const Round all = medians();
    nlohmann::json json = bench_json("factorization", shape_);
    json["lookup_pull_keys_per_s"] = all.pull_keys_per_s;
    json["lookup_push_keys_per_s"] = all.push_keys_per_s;
    json["loop_samples_per_s"] = all.loop;
    json["batched_samples_per_s"] = all.batched;
    json["core_samples_per_s"] = all.core;
    json["rows"] = {
        variant_json("pushes as they come", all.alone, rows_.of_one, rows_.of_one),
        variant_json("iterations, bounded(2)", all.together, rows_.of_one, rows_.of_all)};
    return data::write_whole_file(path, json_text(json));
}

}  // namespace weir::bench

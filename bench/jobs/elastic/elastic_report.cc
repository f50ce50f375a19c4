// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/elastic_report.h"

#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/json.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {

ElasticReport::ElasticReport(std::string what, const JobShape& shape)
    : what_(std::move(what)), shape_(shape) {
    fmt::print("# Weir elastic: {}; {}, {}\n", what_, shape_.transports, shape_.launcher);
    fmt::print("# {:<17} {:<13} {:>10} {:>9} {:>9} {:>10} {:>9}\n", "Push", "When", "Pushes",
               "p50 us", "p99 us", "Max us", "p99 ratio");
    std::fflush(stdout);
}

void ElasticReport::add(const ElasticRow& row) {
    rows_.push_back(row);
    fmt::print("{:<19} {:<13} {:>10} {:>9.1f} {:>9.1f} {:>10.1f} {:>9.2f}\n", row.push, row.when,
               row.pushes, row.p50_us, row.p99_us, row.max_us, row.p99_ratio);
    std::fflush(stdout);
}

void ElasticReport::set_totals(const ElasticTotals& totals) {
    totals_ = totals;
    const bool has_losses = totals.loss_seconds > 0;
    fmt::print(
        "# When: usual: between moves, with one server more than at the start; fewer: with as "
        "many\n"
        "# as at the start; start, end: the process of a server does; join: it gets its share;\n"
        "# leave: the one that has been there longest hands over what it holds{}.\n"
        "# p99 ratio: compared with the usual pushes.\n"
        "# {} rounds: a join takes {:.3f} s, a leave {:.3f} s{} (medians).\n"
        "# {} pushes of the first worker, none of which failed; {} wrong values.\n",
        has_losses ? ";\n# loss: one was killed, others take over, and copies are made again" : "",
        totals.rounds, totals.join_seconds, totals.leave_seconds,
        has_losses ? fmt::format(", a loss {:.3f} s", totals.loss_seconds) : "",
        totals.acknowledged, totals.wrong_values);
    std::fflush(stdout);
}

Status ElasticReport::write_json(const std::string& path) const {
    nlohmann::json rows = nlohmann::json::array();
    for (const ElasticRow& row : rows_) {
        rows.push_back({{"push", row.push},
                        {"when", row.when},
                        {"pushes", row.pushes},
                        {"p50_us", row.p50_us},
                        {"p99_us", row.p99_us},
                        {"max_us", row.max_us},
                        {"p99_ratio", row.p99_ratio}});
    }
    nlohmann::json json = bench_json("elastic", shape_);
    json["work"] = what_;
    json["rounds"] = totals_.rounds;
    json["acknowledged"] = totals_.acknowledged;
    json["wrong_values"] = totals_.wrong_values;
    json["join_seconds"] = totals_.join_seconds;
    json["leave_seconds"] = totals_.leave_seconds;
    if (totals_.loss_seconds > 0) json["loss_seconds"] = totals_.loss_seconds;
    json["rows"] = std::move(rows);
    return data::write_whole_file(path, json_text(json));
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/traffic/traffic_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/json.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

constexpr double kLeft = 24;
constexpr double kNamesWidth = 110;
constexpr double kBarsWidth = 330;
constexpr double kBarHeight = 15;
constexpr double kRowHeight = 2 * kBarHeight + 12;
constexpr double kTop = 84;
constexpr double kSharesWidth = 330;
constexpr const char* kWorkers = "#1667c0";
constexpr const char* kServers = "#b3452c";

double mean_of(const std::vector<double>& shares) {
    if (shares.empty()) return 0;
    return std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
}

double most_of(const std::vector<double>& shares) {
    return shares.empty() ? 0 : *std::ranges::max_element(shares);
}

std::string bar(double left, double top, double saved, const char* color) {
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">1 / {:.3g}</text>\n",
        left, top, kBarsWidth / saved, kBarHeight - 2, color, left + kBarsWidth / saved + 5,
        top + 11, saved);
}

/// The share by pass, from 0 to 1, in a frame.
std::string shares_line(const std::vector<double>& shares, double left, double height) {
    std::string svg = fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" font-size=\"13\">features left out by pass: "
        "{2:.0f} % on average, {3:.0f} % at most</text>\n"
        "<rect x=\"{0:.1f}\" y=\"{4}\" width=\"{5}\" height=\"{6:.1f}\" fill=\"none\" "
        "stroke=\"#999\"/>\n<polyline fill=\"none\" stroke=\"#222\" points=\"",
        left, kTop - 14, 100 * mean_of(shares), 100 * most_of(shares), kTop, kSharesWidth, height);
    const double step = kSharesWidth / static_cast<double>(std::max<size_t>(2, shares.size()) - 1);
    for (size_t i = 0; i < shares.size(); ++i)
        svg += fmt::format("{:.1f},{:.1f} ", left + step * static_cast<double>(i),
                           kTop + height * (1 - shares[i]));
    return svg + fmt::format(
                     "\"/>\n<text x=\"{0:.1f}\" y=\"{1}\" text-anchor=\"end\">100 "
                     "%</text>\n<text x=\"{0:.1f}\" y=\"{2:.1f}\" "
                     "text-anchor=\"end\">0</text>\n<text x=\"{3:.1f}\" y=\"{4:.1f}\" "
                     "text-anchor=\"end\">pass {5}</text>\n",
                     left - 5, kTop + 10, kTop + height, left + kSharesWidth, kTop + height + 15,
                     shares.size());
}

}  // namespace

TrafficReport::TrafficReport(const JobShape& shape, std::string data, double l1)
    : shape_(shape), data_(std::move(data)), l1_(l1) {
    fmt::print(
        "# Weir traffic: what `weir lr --l1 {}` sends, with one filter more each time; {}; "
        "{}, {}\n",
        l1_, data_, shape_.transports, shape_.launcher);
    fmt::print("# {:<12} {:>10} {:>8} {:>10} {:>8} {:>7} {:>14} {:>9} {:>8}\n", "Filters",
               "Workers MB", "Less", "Servers MB", "Less", "Passes", "Objective", "Left out",
               "Seconds");
    std::fflush(stdout);
}

double TrafficReport::workers_save(const TrafficRow& row) const {
    return rows_.front().worker_bytes / std::max(1.0, row.worker_bytes);
}

double TrafficReport::servers_save(const TrafficRow& row) const {
    return rows_.front().server_bytes / std::max(1.0, row.server_bytes);
}

void TrafficReport::add(const TrafficRow& row) {
    rows_.push_back(row);
    fmt::print("{:<14} {:>10.2f} {:>8.2f} {:>10.2f} {:>8.2f} {:>7} {:>14.8g} {:>7.1f} % {:>8.2f}\n",
               row.filters, row.worker_bytes / 1e6, workers_save(row), row.server_bytes / 1e6,
               servers_save(row), row.passes, row.objective, 100 * mean_of(row.filtered),
               row.seconds);
    std::fflush(stdout);
}

void TrafficReport::print_legend() const {
    fmt::print(
        "# Workers MB, Servers MB: what all workers and what all servers have sent for the "
        "training.\n"
        "# Less: how many times less than with none, where also the keys of known lists would "
        "be sent each time.\n"
        "# Left out: the share of the features, in the mean over all passes; {:.1f} % at most.\n",
        100 * most_of(rows_.back().filtered));
    std::fflush(stdout);
}

nlohmann::json TrafficReport::rows_json() const {
    nlohmann::json rows = nlohmann::json::array();
    for (const TrafficRow& row : rows_) {
        rows.push_back({{"filters", row.filters},
                        {"worker_bytes", row.worker_bytes},
                        {"server_bytes", row.server_bytes},
                        {"workers_save", workers_save(row)},
                        {"servers_save", servers_save(row)},
                        {"passes", row.passes},
                        {"objective", row.objective},
                        {"filtered", row.filtered},
                        {"seconds", row.seconds}});
    }
    return rows;
}

Status TrafficReport::write_json(const std::string& path) const {
    nlohmann::json json = bench_json("traffic", shape_);
    json["data"] = data_;
    json["l1"] = l1_;
    json["rows"] = rows_json();
    return data::write_whole_file(path, json_text(json));
}

std::string TrafficReport::plot() const {
    const double left = kLeft + kNamesWidth;
    const double shares_left = left + kBarsWidth + 110;
    const double height = kRowHeight * static_cast<double>(rows_.size());
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="11" fill="#444">)"
        "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"24\" y=\"30\" font-size=\"16\" font-weight=\"600\" fill=\"#222\">What weir lr "
        "sends, by filters</text>\n<text x=\"24\" y=\"50\" font-size=\"13\">{2}; l1 {3}</text>\n"
        "<text x=\"{4:.1f}\" y=\"{5}\" font-size=\"13\">sent by <tspan "
        "fill=\"{6}\">workers</tspan> "
        "and by <tspan fill=\"{7}\">servers</tspan></text>\n",
        shares_left + kSharesWidth + 24, kTop + height + 30, data_, l1_, left, kTop - 14, kWorkers,
        kServers);
    for (size_t i = 0; i < rows_.size(); ++i) {
        const double top = kTop + kRowHeight * static_cast<double>(i);
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                           left - 8, top + kBarHeight + 4, rows_[i].filters);
        svg += bar(left, top, workers_save(rows_[i]), kWorkers);
        svg += bar(left, top + kBarHeight, servers_save(rows_[i]), kServers);
    }
    return svg + shares_line(rows_.back().filtered, shares_left, height - 12) + "</svg>\n";
}

Status TrafficReport::write_plot(const std::string& path) const {
    return data::write_whole_file(path, plot());
}

}  // namespace weir::bench

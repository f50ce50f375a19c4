// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/filter_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/core.h>

namespace weir::bench {
namespace {

constexpr double kNamesWidth = 168;
constexpr double kPanelWidth = 190;
constexpr double kPanelGap = 14;
constexpr double kBarHeight = 15;
constexpr double kTop = 76;
constexpr double kPanelHead = 24;
constexpr double kNumberWidth = 34;  ///< room for a number beside a bar

using Words = std::vector<std::string>;

/// In the order in which they come first.
Words different(std::span<const FilterRow> rows, std::string FilterRow::*of) {
    Words words;
    for (const FilterRow& row : rows) {
        if (std::ranges::find(words, row.*of) == words.end()) words.push_back(row.*of);
    }
    return words;
}

double index_in(const Words& words, const std::string& word) {
    return static_cast<double>(std::ranges::find(words, word) - words.begin());
}

/// Of a speedup: a tenth to hundredfold.
double bar_length(double speedup, double most) {
    const double decades = std::abs(std::log10(std::clamp(speedup, 1e-3, 1e3)));
    return std::min(1.0, decades / most);
}

}  // namespace

std::string plot_filters(std::span<const FilterRow> rows, const std::string& title) {
    const Words calls = different(rows, &FilterRow::call);
    const Words changes = different(rows, &FilterRow::changed);
    const Words chains = different(rows, &FilterRow::filters);
    double most = 0.3;  // decades
    for (const FilterRow& row : rows)
        most = std::max(most, std::abs(std::log10(std::clamp(row.speedup, 1e-3, 1e3))));
    const double panel_height = kPanelHead + kBarHeight * static_cast<double>(chains.size());
    const double width =
        24 + kNamesWidth + (kPanelWidth + kPanelGap) * static_cast<double>(changes.size());
    const double height =
        kTop + (panel_height + kPanelGap) * static_cast<double>(calls.size()) + 10;
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="11" fill="#444">)"
        "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"24\" y=\"30\" font-size=\"16\" font-weight=\"600\" fill=\"#222\">{2}</text>\n"
        "<text x=\"24\" y=\"52\" font-size=\"13\">calls per second beside none: to the right as "
        "many times more, to the left fewer</text>\n",
        width, height, title);
    const double half = kPanelWidth / 2 - kNumberWidth;
    for (const FilterRow& row : rows) {
        const double left =
            24 + kNamesWidth + (kPanelWidth + kPanelGap) * index_in(changes, row.changed);
        const double top = kTop + (panel_height + kPanelGap) * index_in(calls, row.call);
        const double at = top + kPanelHead + kBarHeight * index_in(chains, row.filters);
        const double middle = left + kPanelWidth / 2;
        if (row.filters == chains.front()) {
            svg += fmt::format(
                "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-weight=\"600\">{}, "
                "{}</text>\n"
                "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#999\"/>\n",
                middle, top + 14, row.call, row.changed, middle, middle, top + kPanelHead,
                top + panel_height);
        }
        if (row.changed == changes.front())
            svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                               24 + kNamesWidth - 8, at + 11, row.filters);
        const bool is_faster = row.speedup >= 1;
        const double length = half * bar_length(row.speedup, most);
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{:.3g}</text>\n",
            is_faster ? middle : middle - length, at + 1.5, length, kBarHeight - 3,
            is_faster ? "#1667c0" : "#b3452c",
            is_faster ? middle + length + 4 : middle - length - 4, at + 11,
            is_faster ? "start" : "end", row.speedup);
    }
    return svg + "</svg>\n";
}

}  // namespace weir::bench

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/plot_svg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/core.h>

#include "lib/data/output_file.h"

namespace weir::apps {

namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 440;
constexpr double kLeft = 92;
constexpr double kRight = 730;
constexpr double kTop = 56;
constexpr double kBottom = 380;
constexpr double kTickCount = 6;

/// The smallest of 1, 2, 5 times a power of ten that cuts `span` into at most kTickCount parts.
double tick_step(double span) {
    const double raw = span / kTickCount;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (power * factor >= raw * 0.999) return power * factor;
    }
    return power * 10;
}

/// One axis: the numbers it shows and where they go on the page.
struct Axis {
    double low;
    double high;
    double step;
    double page_low;
    double page_high;

    /// From a round number below the values to one above.
    static Axis over(double low, double high, double page_low, double page_high) {
        if (!(high > low)) {
            const double room = std::max(std::abs(low) * 0.05, 1e-6);
            low -= room;
            high += room;
        }
        const double step = tick_step(high - low);
        return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step,
                page_low, page_high};
    }

    [[nodiscard]] double page(double value) const {
        return page_low + (value - low) / (high - low) * (page_high - page_low);
    }

    [[nodiscard]] int tick_count() const {
        return static_cast<int>(std::lround((high - low) / step)) + 1;
    }

    [[nodiscard]] double tick(int index) const { return low + step * index; }

    [[nodiscard]] std::string text(double value) const {
        const double biggest = std::max(std::abs(low), std::abs(high));
        if (biggest >= 1e7 || step < 1e-4) return fmt::format("{:.3g}", value);
        const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
        return fmt::format("{:.{}f}", std::abs(value) < step * 1e-6 ? 0.0 : value, digits);
    }
};

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '&': out += "&amp;"; break;
            case '"': out += "&quot;"; break;
            default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return out;
}

std::string frame(const PlotText& text) {
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" )"
        R"(font-family="system-ui, sans-serif" font-size="13" fill="#444">)"
        "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        kWidth, kHeight, kWidth, kHeight);
    svg += fmt::format(
        "<text x=\"{}\" y=\"30\" font-size=\"17\" font-weight=\"600\" fill=\"#222\">{}</text>\n",
        kLeft, escaped(text.title));
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       (kLeft + kRight) / 2, kHeight - 14, escaped(text.x_label));
    svg += fmt::format(
        "<text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        (kTop + kBottom) / 2, escaped(text.y_label));
    return svg;
}

std::string grid(const Axis& x, const Axis& y) {
    std::string svg;
    for (int i = 0; i < y.tick_count(); ++i) {
        const double at = y.page(y.tick(i));
        svg += fmt::format(
            "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#e4e4e4\"/>\n"
            "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
            kLeft, kRight, at, at, kLeft - 8, at + 4.5, y.text(y.tick(i)));
    }
    for (int i = 0; i < x.tick_count(); ++i) {
        const double at = x.page(x.tick(i));
        svg += fmt::format(
            "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#888\"/>\n"
            "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            at, at, kBottom, kBottom + 5, at, kBottom + 21, x.text(x.tick(i)));
    }
    svg += fmt::format("<path d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"#888\"/>\n", kLeft, kTop,
                       kBottom, kRight);
    return svg;
}

std::string line(std::span<const PlotPoint> points, const Axis& x, const Axis& y) {
    std::string path;
    for (const PlotPoint& point : points) {
        path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", x.page(point.x),
                            y.page(point.y));
    }
    const PlotPoint& last = points.back();
    const bool right = x.page(last.x) > (kLeft + kRight) / 2;
    const bool low = y.page(last.y) > (kTop + kBottom) / 2;
    return fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"#1667c0\" stroke-width=\"2\" "
        "stroke-linejoin=\"round\"/>\n"
        "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.5\" fill=\"#1667c0\"/>\n"
        "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" fill=\"#1667c0\">{:.7g}</text>\n",
        path, x.page(last.x), y.page(last.y), x.page(last.x) + (right ? 0 : 8),
        y.page(last.y) + (low ? -10 : 20), right ? "end" : "start", last.y);
}

}  // namespace

std::string plot_svg(std::span<const PlotPoint> points, const PlotText& text) {
    std::vector<PlotPoint> finite;
    for (const PlotPoint& point : points) {
        if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
    }
    std::string svg = frame(text);
    if (finite.empty()) {
        return svg + fmt::format(
                         "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">no data</text>\n</svg>\n",
                         (kLeft + kRight) / 2, (kTop + kBottom) / 2);
    }
    const auto [x_low, x_high] = std::minmax_element(
        finite.begin(), finite.end(), [](PlotPoint a, PlotPoint b) { return a.x < b.x; });
    const auto [y_low, y_high] = std::minmax_element(
        finite.begin(), finite.end(), [](PlotPoint a, PlotPoint b) { return a.y < b.y; });
    const Axis x = Axis::over(std::min(0.0, x_low->x), x_high->x, kLeft, kRight);
    const Axis y = Axis::over(y_low->y, y_high->y, kBottom, kTop);
    return svg + grid(x, y) + line(finite, x, y) + "</svg>\n";
}

Status write_text_file(const std::string& path, const std::string& content) {
    return data::write_whole_file(path, content);
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/plot_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace weir::apps {

namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 84;
constexpr double kRight = 736;
constexpr double kTop = 76;
constexpr double kBottom = 400;
constexpr double kTickCount = 6;
constexpr int kDecadeLabelCountMax = 8;
constexpr size_t kDotCountMax = 80;  ///< with more passes the curve alone is clearer
constexpr size_t kTitleLengthMax = 84;
constexpr size_t kNoteLengthMax = 108;
constexpr const char* kInk = "#1667c0";
constexpr const char* kFilteredInk = "#2a9d8f";
/// Differences below this part of the objective are rounding.
constexpr double kDrawnRounding = 1e-14;

/// The smallest of 1, 2, 5 times a power of ten that cuts `span` into at most kTickCount parts.
double tick_step(double span) {
    const double raw = span / kTickCount;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (power * factor >= raw * 0.999) return power * factor;
    }
    return power * 10;
}

/// The axis of time, from 0 to a round number near or above the last value.
struct TimeAxis {
    double high;
    double step;

    static TimeAxis up_to(double last) {
        const double high = last > 0 ? last : 1;
        const double step = tick_step(high);
        return {std::max(high, std::ceil(high / step - 0.25) * step), step};
    }

    [[nodiscard]] double page(double value) const {
        return kLeft + value / high * (kRight - kLeft);
    }

    [[nodiscard]] int tick_count() const {
        return static_cast<int>(std::floor(high / step + 1e-9)) + 1;
    }

    [[nodiscard]] std::string text(int tick) const {
        const double value = step * tick;
        if (high >= 1e7 || step < 1e-6) return fmt::format("{:.3g}", value);
        const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
        return fmt::format("{:.{}f}", value, digits);
    }
};

/// The logarithmic axis of differences.
struct LogAxis {
    int low;  ///< exponents
    int high;

    static LogAxis over(double least, double most) {
        const int low = static_cast<int>(std::floor(std::log10(least) + 1e-9));
        const int high = static_cast<int>(std::ceil(std::log10(most) - 1e-9));
        return {low, std::max(high, low + 1)};
    }

    [[nodiscard]] double page(double value) const {
        return kBottom - (std::log10(value) - low) / (high - low) * (kBottom - kTop);
    }

    /// Every decade has a line; one in this many has a number.
    [[nodiscard]] int label_step() const {
        return (high - low + kDecadeLabelCountMax - 1) / kDecadeLabelCountMax;
    }
};

/// Of the UTF-8 character that `text` begins with; 0: it begins with none.
size_t character_bytes(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    size_t length = 1;
    if (byte(0) >= 0xc0) length = byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
    if ((byte(0) & 0xc0) == 0x80 || byte(0) >= 0xf8 || length > text.size()) return 0;
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    return length;
}

/// File names may have bytes that are no text, with which no reader of XML would show the plot.
std::string escaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const size_t length = character_bytes(text);
        switch (text[0]) {
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '&': out += "&amp;"; break;
            case '"': out += "&quot;"; break;
            default:
                if (length == 0) {
                    out += "\ufffd";
                } else if (length == 1 && text[0] < 0x20) {
                    out += ' ';
                } else {
                    out += text.substr(0, length);
                }
        }
        text.remove_prefix(std::max<size_t>(1, length));
    }
    return out;
}

std::string shortened(const std::string& text, size_t length_max) {
    if (text.size() <= length_max) return text;
    size_t end = length_max - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
        --end;  // does not cut a UTF-8 character
    return text.substr(0, end) + "...";
}

std::string frame(const PlotText& text, const std::string& x_label, const std::string& y_label) {
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13" fill="#444">)"
        "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        kWidth, kHeight);
    svg += fmt::format(
        "<text x=\"{}\" y=\"30\" font-size=\"16\" font-weight=\"600\" fill=\"#222\">{}</text>\n"
        "<text x=\"{}\" y=\"52\">{}</text>\n",
        24, escaped(shortened(text.title, kTitleLengthMax)), 24,
        escaped(shortened(text.note, kNoteLengthMax)));
    if (!text.more.empty())
        svg += fmt::format("<text x=\"24\" y=\"69\">{}</text>\n",
                           escaped(shortened(text.more, kNoteLengthMax)));
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       (kLeft + kRight) / 2, kHeight - 16, escaped(x_label));
    svg += fmt::format(
        "<text transform=\"translate(22 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        (kTop + kBottom) / 2, escaped(y_label));
    return svg;
}

std::string time_ticks(const TimeAxis& x) {
    std::string svg;
    for (int i = 0; i < x.tick_count(); ++i) {
        const double at = x.page(x.step * i);
        svg += fmt::format(
            "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#888\"/>\n"
            "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            at, at, kBottom, kBottom + 5, at, kBottom + 21, x.text(i));
    }
    return svg + fmt::format("<path d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"#888\"/>\n", kLeft,
                             kTop, kBottom, kRight);
}

/// Lines across, with numbers, from 0 to `top`.
std::string value_lines(double top, double step) {
    std::string svg;
    for (double value = 0; value <= top * (1 + 1e-9); value += step) {
        const double at = kBottom - value / top * (kBottom - kTop);
        svg += fmt::format(
            "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n"
            "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
            kLeft, kRight, at, at, kLeft - 8, at + 5, value);
    }
    return svg;
}

std::string grid(const TimeAxis& x, const LogAxis& y) {
    std::string svg;
    for (int exponent = y.low; exponent <= y.high; ++exponent) {
        const double at = y.page(std::pow(10.0, exponent));
        svg +=
            fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                        kLeft, kRight, at, at);
        const bool labelled = (exponent - y.low) % y.label_step() == 0;
        if (labelled)
            svg += fmt::format(
                "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">10<tspan dy=\"-6\" "
                "font-size=\"10\">{}{}</tspan></text>\n",
                kLeft - 8, at + 5, exponent < 0 ? "\u2212" : "", std::abs(exponent));
        for (int digit = 2; digit < 10 && exponent < y.high && y.high - y.low <= 4; ++digit) {
            const double minor = y.page(digit * std::pow(10.0, exponent));
            svg += fmt::format(
                "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#f2f2f2\"/>\n",
                kLeft, kRight, minor, minor);
        }
    }
    return svg + time_ticks(x);
}

/// The curve through the passes above the best, and the vertical line at the best.
std::string descent(std::span<const PlotPoint> points, const PlotPoint& best, double floor,
                    const TimeAxis& x, const LogAxis& y) {
    std::string path;
    std::string dots;
    for (const PlotPoint& point : points) {
        const double above = point.objective - best.objective;
        if (!(above > floor)) continue;
        const double at_x = x.page(point.seconds);
        const double at_y = y.page(above);
        path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", at_x, at_y);
        dots += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\"/>\n", at_x, at_y);
    }
    std::string svg = fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-linejoin=\"round\"/>\n",
        path, kInk);
    if (points.size() <= kDotCountMax) svg += fmt::format("<g fill=\"{}\">\n{}</g>\n", kInk, dots);
    const double end = x.page(best.seconds);
    const bool right = end > (kLeft + kRight) / 2;
    svg += fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{3}\" "
        "stroke-dasharray=\"4 4\"/>\n"
        "<text x=\"{4:.2f}\" y=\"{5}\" text-anchor=\"{6}\" fill=\"{3}\">best: {7:.7g} after "
        "{8:.3g} s</text>\n",
        end, kTop, kBottom, kInk, end + (right ? -8 : 8), kTop + 14, right ? "end" : "start",
        best.objective, best.seconds);
    return svg;
}

/// The curve of the shares that the passes left out, with its axis on the right. It goes from one pass that
/// left out features to the next, over those that did not: they are dots at the bottom.
std::string filtered_shares(std::span<const PlotPoint> points, const TimeAxis& x) {
    const auto page = [](double share) { return kBottom - share * (kBottom - kTop); };
    std::string path;
    std::string dots;
    for (const PlotPoint& point : points) {
        const double at_x = x.page(point.seconds);
        const double at_y = page(std::clamp(point.filtered, 0.0, 1.0));
        if (point.filtered > 0)
            path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", at_x, at_y);
        dots += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2\"/>\n", at_x, at_y);
    }
    if (path.empty()) return "";
    std::string svg = fmt::format(
        "<path d=\"{0}\" fill=\"none\" stroke=\"{1}\"/>\n<g fill=\"{1}\" font-size=\"9\">\n{2}",
        path, kFilteredInk, points.size() <= kDotCountMax ? dots : "");
    for (const int percent : {0, 50, 100})
        svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", kRight + 4,
                           page(percent / 100.0) + 3, percent);
    return svg + fmt::format(
                     "<text x=\"{}\" y=\"{}\" font-size=\"11\">features filtered, "
                     "%</text>\n</g>\n",
                     kLeft, kTop - 12);
}

struct MarkStyle {
    PlotMark::Kind kind;
    const char* ink;
    const char* name;
    double legend;  ///< its place in the legend
};

constexpr double kLegendTop = kTop - 12;
constexpr MarkStyle kMarkStyles[] = {
    {PlotMark::Kind::kFailure, "#c0392b", "failure", kRight - 390},
    {PlotMark::Kind::kMove, "#b7740a", "move", kRight - 330},
    {PlotMark::Kind::kManager, "#7d3c98", "manager", kRight - 270},
    {PlotMark::Kind::kCheckpoint, "#2e8b57", "checkpoint", kRight - 200},
    {PlotMark::Kind::kFailedCheckpoint, "#c0392b", "failed checkpoint", kRight - 112}};

/// Whether it is a sign on the axis of time, not a line through the plot.
bool is_on_axis(PlotMark::Kind kind) {
    return kind == PlotMark::Kind::kCheckpoint || kind == PlotMark::Kind::kFailedCheckpoint;
}

/// A triangle, or a cross for what failed, with its top at `top`.
std::string sign(double at, double top, const MarkStyle& style, const std::string& title) {
    const std::string shape =
        style.kind == PlotMark::Kind::kCheckpoint
            ? fmt::format("M{:.2f} {:.2f}l-4 8h8z\" fill=\"{}", at, top, style.ink)
            : fmt::format(
                  "M{:.2f} {:.2f}l8 8m0-8l-8 8\" fill=\"none\" stroke-width=\"2\" stroke=\"{}",
                  at - 4, top, style.ink);
    return fmt::format("<path d=\"{}\"><title>{}</title></path>\n", shape, escaped(title));
}

std::string mark(const PlotMark& mark, const MarkStyle& style, const TimeAxis& x) {
    const double at = x.page(std::clamp(mark.seconds, 0.0, x.high));
    if (is_on_axis(mark.kind)) return sign(at, kBottom, style, mark.text);
    return fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{3}\" "
        "stroke-dasharray=\"2 3\"/>\n"
        "<text transform=\"translate({4:.2f} {5}) rotate(-90)\" font-size=\"11\" "
        "fill=\"{3}\">{6}</text>\n",
        at, kTop, kBottom, style.ink, at - 4, kBottom - 8, escaped(mark.text));
}

std::string legend(const MarkStyle& style) {
    const std::string shown =
        is_on_axis(style.kind)
            ? sign(style.legend, kLegendTop - 8, style, style.name)
            : fmt::format("<path d=\"M{} {}v-10\" stroke=\"{}\" stroke-dasharray=\"2 3\"/>\n",
                          style.legend, kLegendTop, style.ink);
    return shown + fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"{}\">{}</text>\n",
                               style.legend + 8, kLegendTop, style.ink, style.name);
}

/// All of them, and a legend of the kinds that there are.
std::string marks_and_legend(std::span<const PlotMark> marks, const TimeAxis& x) {
    std::string svg;
    for (const MarkStyle& style : kMarkStyles) {
        bool is_there = false;
        for (const PlotMark& one : marks) {
            if (one.kind != style.kind || !std::isfinite(one.seconds)) continue;
            svg += mark(one, style, x);
            is_there = true;
        }
        if (is_there) svg += legend(style);
    }
    return svg;
}

}  // namespace

std::string plot_descent(std::span<const PlotPoint> points, const PlotText& text,
                         std::span<const PlotMark> marks) {
    std::vector<PlotPoint> finite;
    for (const PlotPoint& point : points) {
        if (std::isfinite(point.seconds) && std::isfinite(point.objective)) finite.push_back(point);
    }
    const auto by_objective = [](const PlotPoint& a, const PlotPoint& b) {
        return a.objective < b.objective;
    };
    const auto best = std::min_element(finite.begin(), finite.end(), by_objective);
    const auto worst = std::max_element(finite.begin(), finite.end(), by_objective);
    // Values nearer to the best than this differ from it only by rounding.
    const double floor = finite.empty() ? 0 : std::abs(best->objective) * kDrawnRounding;
    const double most = finite.empty() ? 0 : worst->objective - best->objective;
    if (!(most > floor) || !std::isfinite(most)) {
        const std::string said =
            finite.empty()
                ? "no pass was completed"
                : fmt::format("the objective is {:.7g} from the first pass on", best->objective);
        return frame(text, "seconds", "") +
               fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n</svg>\n",
                           (kLeft + kRight) / 2, (kTop + kBottom) / 2, said);
    }
    double least = most;
    double last = 0;
    for (const PlotPoint& point : finite) {
        const double above = point.objective - best->objective;
        if (above > floor) least = std::min(least, above);
        last = std::max(last, point.seconds);
    }
    const TimeAxis x = TimeAxis::up_to(last);
    const LogAxis y = LogAxis::over(least, most);
    return frame(text, "seconds", "objective \u2212 best") + grid(x, y) +
           marks_and_legend(marks, x) + filtered_shares(finite, x) +
           descent(finite, *best, floor, x, y) + "</svg>\n";
}

std::string plot_losses(std::span<const LossPoint> points, const std::string& name,
                        const PlotText& text, std::span<const PlotMark> marks) {
    constexpr double kCutAt = 6;
    std::vector<LossPoint> finite;
    for (const LossPoint& point : points) {
        if (std::isfinite(point.loss) && std::isfinite(point.recent)) finite.push_back(point);
    }
    double highest = 0;
    for (const LossPoint& point : finite)
        highest = std::max({highest, point.loss, point.recent});
    if (!(highest > 0)) {
        return frame(text, "seconds", "") +
               fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n</svg>\n",
                           (kLeft + kRight) / 2, (kTop + kBottom) / 2,
                           finite.empty() ? "no example was read" : "the loss is 0");
    }
    const LossPoint& last = finite.back();
    if (last.loss > 0) highest = std::min(highest, kCutAt * std::max(last.loss, last.recent));
    const double step = tick_step(highest);
    const double top = std::ceil(highest / step) * step;
    const TimeAxis x = TimeAxis::up_to(last.seconds);
    const auto curve = [&](double LossPoint::*of, const char* ink, double width) {
        std::string path;
        for (const LossPoint& point : finite) {
            const double at = kBottom - std::min(point.*of, top) / top * (kBottom - kTop);
            path +=
                fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", x.page(point.seconds), at);
        }
        return fmt::format(
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
            "stroke-linejoin=\"round\"/>\n",
            path, ink, width);
    };
    return frame(text, "seconds", name) + value_lines(top, step) + time_ticks(x) +
           marks_and_legend(marks, x) +
           fmt::format(
               "<text x=\"{}\" y=\"{}\" font-size=\"11\" text-anchor=\"end\"><tspan "
               "fill=\"{}\">all examples so "
               "far</tspan> <tspan fill=\"{}\">the last ones</tspan></text>\n",
               kRight - 8, kTop + 16, kInk, kFilteredInk) +
           curve(&LossPoint::recent, kFilteredInk, 1) + curve(&LossPoint::loss, kInk, 2) +
           "</svg>\n";
}

std::string plot_curves(std::span<const PlotCurve> curves, const std::string& value_label,
                        const PlotText& text) {
    constexpr std::array kInks = {kInk, "#c0392b", kFilteredInk, "#b7740a", "#7d3c98", "#444444"};
    const auto is_drawn = [](const std::pair<double, double>& point) {
        return std::isfinite(point.first) && std::isfinite(point.second) &&
               point.second > kCurveFloor;
    };
    double last = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const PlotCurve& curve : curves) {
        for (const auto& point : curve.points) {
            if (!is_drawn(point)) continue;
            last = std::max(last, point.first);
            least = std::min(least, point.second);
            most = std::max(most, point.second);
        }
    }
    if (!(most > 0)) {
        return frame(text, "seconds", "") +
               fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing was "
                   "measured</text>\n</svg>\n",
                   (kLeft + kRight) / 2, (kTop + kBottom) / 2);
    }
    const TimeAxis x = TimeAxis::up_to(last);
    const LogAxis y = LogAxis::over(least, most);
    std::string svg = frame(text, "seconds", value_label) + grid(x, y);
    for (size_t i = 0; i < curves.size(); ++i) {
        const char* const ink = kInks[i % kInks.size()];
        std::string path;
        std::string dots;
        for (const auto& point : curves[i].points) {
            if (!is_drawn(point)) continue;
            const double at_x = x.page(point.first);
            const double at_y = y.page(point.second);
            path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", at_x, at_y);
            dots += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2\"/>\n", at_x, at_y);
        }
        svg += fmt::format(
            "<path d=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\" "
            "stroke-linejoin=\"round\"/>\n<g fill=\"{1}\">\n{2}<text x=\"{3}\" y=\"{4}\" "
            "text-anchor=\"end\">{5}</text>\n</g>\n",
            path, ink, curves[i].points.size() <= kDotCountMax ? dots : "", kRight - 8,
            kTop + 16 + 16 * static_cast<double>(i), escaped(curves[i].name));
    }
    return svg + "</svg>\n";
}

std::string plot_bars(std::span<const PlotBar> bars, const std::string& value_label,
                      const std::string& name_label, const PlotText& text) {
    double highest = 0;
    for (const PlotBar& bar : bars)
        highest = std::max(highest, bar.value);
    const double step = tick_step(highest > 0 ? highest : 1);
    const double top = std::max(1.0, std::ceil(highest * 1.1 / step)) * step;
    const auto page = [&](double value) { return kBottom - value / top * (kBottom - kTop); };
    std::string svg = frame(text, name_label, value_label);
    svg += value_lines(top, step);
    const double width = (kRight - kLeft) / static_cast<double>(std::max<size_t>(1, bars.size()));
    for (size_t i = 0; i < bars.size(); ++i) {
        const double left = kLeft + width * static_cast<double>(i);
        const double middle = left + width / 2;
        const double at = page(bars[i].value);
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
            "fill=\"{}\"/>\n",
            left + width * 0.15, at, width * 0.7, kBottom - at, kInk);
        svg += fmt::format(
            "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" font-size=\"11\">{2}"
            "</text>\n<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
            middle, at - 6, escaped(bars[i].note), kBottom + 21, escaped(bars[i].name));
    }
    return svg + "</svg>\n";
}

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// plot_descent: a plot of the objective over time. plot_losses: of losses. plot_curves: of several things. plot_bars: bars side by side. As
/// SVG text.

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir::apps {

/// The objective after a pass, and the share of the features that the pass left out.
struct PlotPoint {
    double seconds = 0;
    double objective = 0;
    double filtered = 0;
};

struct PlotText {
    std::string title;
    std::string note;    ///< a smaller line below
    std::string more{};  ///< another one
};

/// Something that happened meanwhile.
struct PlotMark {
    enum class Kind { kFailure, kMove, kManager, kCheckpoint, kFailedCheckpoint };
    double seconds = 0;
    Kind kind = Kind::kFailure;
    std::string text;  ///< what it was
};

/// Plots the objective minus its best value, on a logarithmic axis, against time. Each pass is a
/// dot (with many passes the curve alone), and a vertical line marks the best value. Points that
/// are not finite are left out. If all values are the same, or there is none, the plot is a text
/// that says so. Shares that are not 0 are a second curve, from 0 at the bottom to 1 at the top. Failures, moves and managers of `marks` are vertical lines with their text, checkpoints are
/// triangles on the axis of time, crosses if they failed, and show their text when they are pointed at; a
/// legend says what is what.
[[nodiscard]] std::string plot_descent(std::span<const PlotPoint> points, const PlotText& text,
                                       std::span<const PlotMark> marks = {});

/// What a mean of all examples so far was, and that of the last ones alone.
struct LossPoint {
    double seconds = 0;
    double loss = 0;
    double recent = 0;
};

/// Plots losses, which begin at 0 or above, against time, with `marks` as plot_descent() has them. What is not finite is
/// left out; greater losses than six times the last one are cut off at the top.
[[nodiscard]] std::string plot_losses(std::span<const LossPoint> points, const std::string& name,
                                      const PlotText& text, std::span<const PlotMark> marks = {});

struct PlotCurve {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< seconds, value
};

/// Plots values above 0, on a logarithmic axis, against time, each curve in its own colour and with its name. What is not
/// finite or not above kCurveFloor is left out.
inline constexpr double kCurveFloor = 1e-8;
[[nodiscard]] std::string plot_curves(std::span<const PlotCurve> curves,
                                      const std::string& value_label, const PlotText& text);

struct PlotBar {
    std::string name;  ///< below the bar
    double value = 0;
    std::string note;  ///< a smaller line above it
};

/// Plots values, 0 or greater, as bars that begin at 0.
[[nodiscard]] std::string plot_bars(std::span<const PlotBar> bars, const std::string& value_label,
                                    const std::string& name_label, const PlotText& text);

}  // namespace weir::apps

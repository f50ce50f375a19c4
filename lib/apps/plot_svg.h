// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How an objective fell, as SVG text, to look at in any browser.

#include <span>
#include <string>

namespace weir::apps {

/// The objective after a pass.
struct PlotPoint {
    double seconds = 0;
    double objective = 0;
};

struct PlotText {
    std::string title;
    std::string note;  ///< a smaller line below
};

/// The objective minus the best of its values, on a logarithmic axis, against time: each pass is a
/// dot, and where the best is reached stands a line with its value. Points that are not finite are
/// left out. Where there are not two different values, that is said instead.
[[nodiscard]] std::string plot_descent(std::span<const PlotPoint> points, const PlotText& text);

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A line plot as SVG text, to look at in any browser.

#include <span>
#include <string>

#include "lib/base/result.h"

namespace weir::apps {

struct PlotPoint {
    double x = 0;
    double y = 0;
};

struct PlotText {
    std::string title;
    std::string x_label;
    std::string y_label;
};

/// The points as a line, with axes, ticks at round numbers, and the last value written beside it.
/// Points that are not finite are left out. Without any point: axes and "no data".
[[nodiscard]] std::string plot_svg(std::span<const PlotPoint> points, const PlotText& text);

/// Writes `content` to a file, whole or not at all. Errors: kIo
[[nodiscard]] Status write_text_file(const std::string& path, const std::string& content);

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/plot_svg.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace weir::apps;

bool has(const std::string& svg, const std::string& text) {
    return svg.find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("plot_svg") {
    TEST_CASE("a plot has its texts escaped, round ticks and the last value") {
        const std::vector<PlotPoint> points = {{0.1, 22000}, {0.5, 12000}, {2.9, 10558.7}};
        const std::string svg = plot_svg(points, {"a < b & c", "seconds", "objective"});
        CHECK(has(svg, "a &lt; b &amp; c"));
        CHECK(has(svg, ">seconds<"));
        CHECK(has(svg, ">0.5<"));
        CHECK(has(svg, ">12000<"));
        CHECK(has(svg, ">10558.7<"));
        CHECK(svg.starts_with("<svg "));
        CHECK(svg.ends_with("</svg>\n"));
        CHECK_FALSE(has(svg, "nan"));
    }

    TEST_CASE("one point, equal points, no points and infinite ones give a plot too") {
        const double inf = INFINITY;
        const std::vector<std::vector<PlotPoint>> lists = {
            {{1, 5}}, {{1, 0}, {2, 0}}, {}, {{1, inf}, {inf, 2}}, {{0, 1e-12}, {1e9, -3e300}}};
        for (const auto& points : lists) {
            const std::string svg = plot_svg(points, {"t", "x", "y"});
            CHECK(svg.ends_with("</svg>\n"));
            CHECK_FALSE(has(svg, "nan"));
            CHECK_FALSE(has(svg, "inf"));
        }
        CHECK(has(plot_svg({}, {"t", "x", "y"}), "no data"));
    }

    TEST_CASE("a file that cannot be written is an error") {
        CHECK_FALSE(write_text_file("/nowhere/plot.svg", "x"));
    }
}

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
    TEST_CASE("a plot has its texts escaped, round ticks, decades, and where the best is reached") {
        const std::vector<PlotPoint> points = {
            {0.1, 22000}, {0.5, 10600}, {1.2, 10559}, {2.9, 10558.7}};
        const std::string svg = plot_descent(points, {"a < b & c", "4 passes"});
        CHECK(has(svg, "a &lt; b &amp; c"));
        CHECK(has(svg, ">4 passes<"));
        CHECK(has(svg, ">seconds<"));
        CHECK(has(svg, "objective \u2212 best"));
        CHECK(has(svg, ">0.5<"));
        CHECK(has(svg, "10<tspan dy=\"-6\" font-size=\"10\">5</tspan>"));
        CHECK(has(svg, "10<tspan dy=\"-6\" font-size=\"10\">\u22121</tspan>"));
        CHECK(has(svg, "best: 10558.7 after 2.9 s"));
        CHECK(svg.starts_with("<svg "));
        CHECK(svg.ends_with("</svg>\n"));
        CHECK_FALSE(has(svg, "nan"));
    }

    TEST_CASE(
        "failures, moves and managers are lines, checkpoints triangles or crosses, a legend names "
        "the "
        "kinds") {
        using Kind = PlotMark::Kind;
        const std::vector<PlotPoint> points = {{1, 1100}, {2, 1010}, {3, 1001}, {4, 1000}};
        const std::vector<PlotMark> marks = {
            {2, Kind::kFailure, "server 1 lost"},
            {100, Kind::kFailure, "beyond the last pass"},
            {1, Kind::kCheckpoint, "checkpoint 7"},
            {3, Kind::kFailedCheckpoint, "checkpoint failed: <full>"},
            {4, Kind::kManager, "manager of rank 2 leads"},
            {INFINITY, Kind::kMove, "never"},
        };
        const std::string svg = plot_descent(points, {"t", "n"}, marks);
        CHECK(has(svg, "<line x1=\"410.00\" x2=\"410.00\" y1=\"76\" y2=\"400\""));
        CHECK(has(svg, "<line x1=\"736.00\" x2=\"736.00\" y1=\"76\" y2=\"400\""));
        CHECK(has(svg, ">server 1 lost<"));
        CHECK(has(svg, "<path d=\"M247.00 400.00l-4 8h8z\""));
        CHECK(has(svg, "<title>checkpoint 7</title>"));
        CHECK(has(svg, ">failure<"));
        CHECK(has(svg, ">checkpoint<"));
        CHECK(has(svg, "<path d=\"M569.00 400.00l8 8m0-8l-8 8\""));
        CHECK(has(svg, "<title>checkpoint failed: &lt;full&gt;</title>"));
        CHECK(has(svg, ">failed checkpoint<"));
        CHECK(has(svg, ">manager of rank 2 leads<"));
        CHECK(has(svg, ">manager<"));
        CHECK_FALSE(has(svg, ">move<"));
        CHECK_FALSE(has(svg, "inf"));
        CHECK_FALSE(has(plot_descent(points, {"t", "n"}), ">failure<"));
    }

    TEST_CASE("shares of features that passes left out are a second curve, if there are any") {
        const std::vector<PlotPoint> points = {{1, 1100}, {2, 1010, 0.5}, {3, 1001}, {4, 1000, 1}};
        const std::string svg = plot_descent(points, {"t", "n"});
        CHECK(has(svg, ">features filtered, %<"));
        CHECK(has(svg, "<path d=\"M410.00 238.00L736.00 76.00\""));  // not by the pass over all
        CHECK(has(svg, "<circle cx=\"573.00\" cy=\"400.00\" r=\"2\"/>"));
        CHECK(has(svg, ">100</text>"));
        CHECK_FALSE(has(plot_descent(std::span(points).first(1), {"t", "n"}), "filtered"));
        const std::vector<PlotPoint> none = {{1, 1100}, {2, 1010}};
        CHECK_FALSE(has(plot_descent(none, {"t", "n"}), "filtered"));
    }

    TEST_CASE("a tenth of the distance is a decade on the page") {
        const std::vector<PlotPoint> points = {{1, 1100}, {2, 1010}, {3, 1001}, {4, 1000}};
        const std::string svg = plot_descent(points, {"t", "n"});
        // 100, 10 and 1 above the best: two decades over the whole height, from 76 to 400.
        CHECK(has(svg, "cy=\"76.00\""));
        CHECK(has(svg, "cy=\"238.00\""));
        CHECK(has(svg, "cy=\"400.00\""));
    }

    TEST_CASE("one point, equal points, no points and infinite ones give a plot too") {
        const double inf = INFINITY;
        const std::vector<std::vector<PlotPoint>> lists = {{{1, 5}},
                                                           {{1, 0}, {2, 0}},
                                                           {},
                                                           {{1, inf}, {inf, 2}},
                                                           {{0, 1e-12}, {1e9, -3e300}},
                                                           {{0, 1e308}, {1, -1e308}},
                                                           {{0, 7}, {1e-9, 7 - 1e-15}},
                                                           {{0, 1}, {0, 1e-300}, {0, 0}}};
        for (const auto& points : lists) {
            const std::string svg = plot_descent(points, {"t", "n"});
            CHECK(svg.ends_with("</svg>\n"));
            CHECK_FALSE(has(svg, "nan"));
            CHECK_FALSE(has(svg, "inf"));
        }
        CHECK(has(plot_descent({}, {"t", "n"}), "no pass was completed"));
        CHECK(has(plot_descent(lists[0], {"t", "n"}), "the objective is 5 from the first pass on"));
    }

    TEST_CASE("bytes that are no text are replaced, one for one") {
        const std::string svg =
            plot_descent({}, {"a\xff\u00e9\xc3<\xe2\x82\u20ac\xf0\x9f", "\t\x80"});
        CHECK(has(svg, ">a\ufffd\u00e9\ufffd&lt;\ufffd\ufffd\u20ac\ufffd\ufffd<"));
        CHECK(has(svg, "> \ufffd<"));
    }

    TEST_CASE("a second note stands below the first one") {
        const std::string svg = plot_descent({}, {"title", "one", "two & more"});
        CHECK(svg.find(">one<") < svg.find(">two &amp; more<"));
        CHECK(has(svg, ">two &amp; more<"));
    }

    TEST_CASE("a long title is shortened between letters") {
        std::string title;
        for (int i = 0; i < 100; ++i)
            title += "\u00e9";
        const std::string svg = plot_descent({}, {title, ""});
        CHECK(has(svg, "\u00e9...<"));
        CHECK_FALSE(has(svg, title));
    }
}

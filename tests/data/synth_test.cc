// SPDX-License-Identifier: Apache-2.0
#include "lib/data/synth.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "lib/data/feature_matrix.h"
#include "tests/data/scratch.h"

TEST_SUITE("synth") {
    using namespace weir;
    using namespace weir::data;

    TEST_CASE("the same options give the same bytes, another seed gives others") {
        const test::Scratch scratch;
        SynthOptions options = {.example_count = 500, .feature_count = 1000, .per_example = 9};
        uint64_t last_progress = 0;
        const auto report = write_click_log(scratch.path("a"), options,
                                            [&](uint64_t done) { last_progress = done; });
        REQUIRE(report);
        REQUIRE(write_click_log(scratch.path("b"), options));
        options.seed = 2;
        REQUIRE(write_click_log(scratch.path("c"), options));
        const std::string text = test::Scratch::content(scratch.path("a"));
        CHECK(text == test::Scratch::content(scratch.path("b")));
        CHECK(text != test::Scratch::content(scratch.path("c")));
        CHECK(report->written_bytes == text.size());
        CHECK(last_progress == 500);
    }

    TEST_CASE("a log has what was asked for: examples, features, skew and both labels") {
        const test::Scratch scratch;
        const SynthOptions options = {
            .example_count = 20000, .feature_count = 5000, .per_example = 8};
        REQUIRE(write_click_log(scratch.path("a"), options));
        const std::vector<std::string> paths = {scratch.path("a")};
        auto examples = read_libsvm(paths, {});
        REQUIRE(examples);
        const FeatureMatrix matrix = make_feature_matrix(std::move(*examples));
        CHECK(matrix.row_count() == 20000);
        CHECK(matrix.rows.size() == 8 * 20000);
        CHECK(matrix.values.empty());
        CHECK(matrix.keys.front() >= 1);
        CHECK(matrix.keys.back() <= 5000);
        std::vector<double> counts;
        for (uint64_t c = 0; c < matrix.column_count(); ++c) {
            counts.push_back(static_cast<double>(matrix.offsets[c + 1] - matrix.offsets[c]));
        }
        std::sort(counts.rbegin(), counts.rend());
        // From the 20th to the 200th feature only: an example has each feature once at most, which
        // distorts the counts of the most frequent ones.
        const double slope = std::log(counts[19] / counts[199]) / std::log(10);
        CHECK(slope > 1.0);
        CHECK(slope < 1.2);
        const auto positive = std::count(matrix.labels.begin(), matrix.labels.end(), 1);
        CHECK(positive > 4000);
        CHECK(positive < 16000);
    }

    TEST_CASE("invalid options are refused, and so is a path that cannot be written") {
        CHECK(write_click_log("/tmp/x", {.example_count = 0}).code() == Errc::kInvalidArgument);
        CHECK(write_click_log("/tmp/x", {.feature_count = 50, .per_example = 40}).code() ==
              Errc::kInvalidArgument);
        CHECK(write_click_log("/tmp/x", {.zipf_exponent = NAN}).code() == Errc::kInvalidArgument);
        CHECK(write_click_log("/nowhere/x", {.example_count = 1}).code() == Errc::kIo);
    }
}

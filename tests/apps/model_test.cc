// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/model.h"

#include <cmath>

#include <doctest/doctest.h>

#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::apps;

std::string refusal(const std::string& text) {
    const test::Scratch scratch;
    const auto model = read_model(scratch.file("m", text));
    REQUIRE_FALSE(model);
    const std::string message = model.error().message();
    return message.substr(message.find("/m:") + 1);
}

}  // namespace

TEST_SUITE("model") {
    TEST_CASE("a model comes back from its file bit by bit") {
        const test::Scratch scratch;
        const Model model = {{0, 3, ~uint64_t{0}}, {-1.0 / 3, 5e-324, 1.7976931348623157e308}};
        REQUIRE(write_model(scratch.path("m"), model));
        const auto again = read_model(scratch.path("m"));
        REQUIRE(again);
        CHECK(again->keys == model.keys);
        CHECK(again->weights == model.weights);
    }

    TEST_CASE("a model written by hand may have comments, empty lines and any order") {
        const test::Scratch scratch;
        const auto model = read_model(scratch.file("m", "# mine\n7  2.5\r\n\n3\t-1 # low\n5 1e-3"));
        REQUIRE(model);
        CHECK(model->keys == std::vector<uint64_t>{3, 5, 7});
        CHECK(model->weights == std::vector<double>{-1, 1e-3, 2.5});
    }

    TEST_CASE("models of other losses say so in their first line, and come back") {
        const test::Scratch scratch;
        Model model = {
            {2, 9}, {0.1, -3, 0, 4, 5, 6}, Loss::kSoftmax, *data::ClassLabels::parse("1-3")};
        REQUIRE(write_model(scratch.path("m"), model));
        auto again = read_model(scratch.path("m"));
        REQUIRE(again);
        CHECK(again->loss == Loss::kSoftmax);
        CHECK(again->classes.text() == "1-3");
        CHECK(again->keys == model.keys);
        CHECK(again->weights == model.weights);
        const Scorer scorer = *Scorer::make(*again);
        data::ParsedLines lines;
        data::LibsvmFormat any;
        any.any_label = true;
        REQUIRE_FALSE(data::parse_libsvm("1 9:2 5:1\n2 2:1\n", lines, any));
        std::vector<double> scores;
        CHECK(scorer.score(lines, scores) == 2);
        CHECK(scores == std::vector<double>{8, 10, 12, 0.1, -3, 0});
        again = read_model(scratch.file("q", "# by hand\nweir-model 2 squared\n9 1\n3 2\n"));
        REQUIRE(again);
        CHECK(again->loss == Loss::kSquared);
        CHECK(again->weights == std::vector<double>{2, 1});
        CHECK(refusal("weir-model 3 squared\n")
                  .starts_with("m:1: its format is '3', and this version"));
        CHECK(refusal("weir-model 2 hinge\n") ==
              "m:1: expected logistic, softmax or squared, found 'hinge'");
        CHECK(refusal("weir-model 2 softmax\n").starts_with("m:1: classes "));
        CHECK(refusal("weir-model 2 softmax 1-3\n4 1 2\n") ==
              "m:2: expected 3 weights, one for each class, found 2");
        CHECK(refusal("4 1\nweir-model 2 squared\n").starts_with("m:2: expected a feature number"));
    }

    TEST_CASE("a wrong model line is named with what was expected") {
        CHECK(refusal("1 2\nx 3\n") ==
              "m:2: expected a feature number from 0 to 2^64 - 1, found 'x'");
        CHECK(refusal("1\n") ==
              "m:1: expected a weight after the feature number, found the end of the line");
        CHECK(refusal("1 2 3\n") ==
              "m:1: expected the end of the line after the weight, found '3'");
        CHECK(refusal("1 nan\n") == "m:1: expected a finite number as weight, found 'nan'");
        CHECK(refusal("1:2\n").starts_with("m:1: expected a feature number"));
        const test::Scratch scratch;
        CHECK(read_model(scratch.file("m", "4 1\n4 2\n"))
                  .error()
                  .text()
                  .find("feature 4 has two lines") != std::string::npos);
        CHECK(read_model(scratch.path("none")).code() == Errc::kNotFound);
        CHECK(write_model("/nowhere/m", {}).code() == Errc::kIo);
    }

    TEST_CASE("evaluation ignores features that the model does not know, and parts add up") {
        const test::Scratch scratch;
        const Model model = {{2, 5}, {1.5, -2}};
        std::string text;
        for (int i = 0; i < 300; ++i)
            text += "+1 2:2 9:100\n-1 5:1\n+1 5:0.5 77:3\n";
        const std::vector<std::string> paths = {scratch.file("a", text)};
        const auto whole = evaluate(model, paths);
        REQUIRE(whole);
        CHECK(whole->read.example_count == 900);
        Scores all = whole->scores;
        const Metrics metrics = measure(all);
        CHECK(metrics.accuracy == doctest::Approx(2.0 / 3));
        CHECK(whole->keys == std::vector<uint64_t>{2, 9, 5, 77});
        const double loss =
            300 * (std::log1p(std::exp(-3)) + std::log1p(std::exp(-2)) + std::log1p(std::exp(1)));
        CHECK(metrics.log_loss == doctest::Approx(loss / 900));
        uint64_t count = 0;
        for (uint32_t part = 0; part < 4; ++part) {
            const auto some = evaluate(model, paths, {{part, 4}, 0, {}});
            REQUIRE(some);
            count += some->scores.positive.size() + some->scores.negative.size();
        }
        CHECK(count == 900);
    }
}

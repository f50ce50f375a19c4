// SPDX-License-Identifier: Apache-2.0
#include "lib/data/labels.h"

#include <string>

#include <doctest/doctest.h>

#include "lib/data/examples.h"
#include "tests/data/scratch.h"

namespace {

using namespace weir;
using namespace weir::data;

LabelCensus census(std::initializer_list<LabelCensus::Entry> entries) {
    LabelCensus all;
    for (const LabelCensus::Entry& entry : entries)
        all.add(entry.value, entry.line_count);
    return all;
}

std::string verdict(const LabelCensus& all, const LabelMap& labels = {}) {
    const Status status = check_labels(all, labels, "x");
    return status ? "" : status.error().message();
}

std::string labels_refusal(const std::string& text) {
    const auto map = LabelMap::parse(text);
    REQUIRE_FALSE(map);
    return map.error().message();
}

bool has(const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("labels") {
    TEST_CASE("by default -1 and 0 are one class, +1 is the other, and other values have none") {
        const LabelMap map;
        CHECK(map.class_of(-1) == -1);
        CHECK(map.class_of(0) == -1);
        CHECK(map.class_of(1) == 1);
        CHECK(map.class_of(2) == 0);
        CHECK(map.value_of(-1) == "-1");
        CHECK(map.value_of(1) == "+1");
        CHECK(map.text().empty());
    }

    TEST_CASE("a map gives the class of each of its values, and no class to other values") {
        const auto map = LabelMap::parse("1:-1,2:+1,3.5:1,-7:-1");
        REQUIRE(map);
        CHECK(map->class_of(1) == -1);
        CHECK(map->class_of(2) == 1);
        CHECK(map->class_of(3.5) == 1);
        CHECK(map->class_of(-7) == -1);
        CHECK(map->class_of(0) == 0);
        CHECK(map->value_of(1) == "2");
        CHECK(map->value_of(-1) == "1");
        CHECK(map->text() == "1:-1,2:+1,3.5:+1,-7:-1");
    }

    TEST_CASE("an invalid map is refused with the reason") {
        CHECK(has(labels_refusal(""), "does not begin with a label"));
        CHECK(has(labels_refusal("a:1"), "'a:1' does not begin with a label"));
        CHECK(has(labels_refusal("1:-1,2"), "'2' does not end with :-1 or :+1"));
        CHECK(has(labels_refusal("1:-1,2:3"), "'2:3' does not end with :-1 or :+1"));
        CHECK(has(labels_refusal("1:-1,1:+1"), "the label 1 is given twice"));
        CHECK(has(labels_refusal("1:-1"), "no label stands for +1"));
        CHECK(has(labels_refusal("1:+1,2:1"), "no label stands for -1"));
        CHECK(has(labels_refusal("1:-1,nan:1"), "'nan:1' does not begin with a label"));
    }

    TEST_CASE("two labels, one of them without a class, are an error that says what to do") {
        CHECK(has(verdict(census({{1, 3}, {2, 1}})), "the labels are 1 and 2"));
        CHECK(has(verdict(census({{2, 1}, {1, 3}})), "like labels 1:-1,2:+1"));
        CHECK(has(verdict(census({{0, 3}, {2, 1}})), "like labels 0:-1,2:+1"));
        CHECK(has(verdict(census({{3, 1}, {5, 1}})), "like labels 3:-1,5:+1"));
        CHECK(has(verdict(census({{7, 1}})), "all labels are 7"));
        const std::string digits = verdict(census({{0, 90}, {1, 90}, {2, 90}, {3, 90}, {4, 90}}));
        CHECK(has(digits, "the labels are 0, 1, 2, 3 and 4"));
        CHECK(has(digits, "like labels 0:+1,1:-1,2:-1,3:-1,... (a model has two classes"));
    }

    TEST_CASE("labels with a class are no error, nor is a rare wrong label between them") {
        CHECK(verdict(census({})).empty());
        CHECK(verdict(census({{-1, 5}, {1, 5}})).empty());
        CHECK(verdict(census({{0, 5}, {1, 5}})).empty());
        CHECK(verdict(census({{1, 5}})).empty());
        CHECK(verdict(census({{-1, 5}, {1, 5}, {5, 9}})).empty());
        CHECK(verdict(census({{-1, 500}, {1, 500}, {5, 10}})).empty());
        CHECK(has(verdict(census({{-1, 50}, {1, 50}, {5, 10}})), "the labels are -1, 1 and 5"));
    }

    TEST_CASE("labels that a map does not name are an error") {
        const auto map = LabelMap::parse("1:-1,2:+1");
        REQUIRE(map);
        CHECK(verdict(census({{1, 5}, {2, 5}}), *map).empty());
        CHECK(has(verdict(census({{0, 50}, {1, 50}}), *map),
                  "the labels are 0 and 1, but labels 1:-1,2:+1 has no class for 0"));
    }

    TEST_CASE("one class alone, and -1 beside 0, cause a warning") {
        CHECK(has(label_warning(census({{1, 300}}), {}, "x"),
                  "all 300 examples are of the class +1"));
        CHECK(has(label_warning(census({{-1, 2}, {0, 1}}), {}, "x"), "all 3 examples"));
        CHECK(has(label_warning(census({{-1, 2}, {0, 1}, {1, 1}}), {}, "x"), "both -1 and 0"));
        CHECK(label_warning(census({{0, 2}, {1, 1}}), {}, "x").empty());
        CHECK(label_warning(census({}), {}, "x").empty());
    }

    TEST_CASE("a census travels as numbers, and adds up, also with more values than it names") {
        LabelCensus a = census({{-1, 5}, {2.5, 7}});
        LabelCensus b;
        for (int i = 0; i < 20; ++i)
            b.add(static_cast<float>(i));
        std::vector<uint64_t> words = a.encode();
        for (const uint64_t word : b.encode())
            words.push_back(word);
        LabelCensus all;
        all.add_encoded(words);
        CHECK(all.line_count() == 32);
        REQUIRE(all.entries().size() == LabelCensus::kValueCountMax);
        CHECK(all.entries()[1].value == 2.5F);
        CHECK(all.entries()[1].line_count == 7);
    }

    TEST_CASE("every worker that reads a label 2 recognises labels 1 and 2; a map reads them") {
        const test::Scratch scratch;
        std::string ones;
        std::string twos;
        for (int i = 0; i < 5000; ++i) {
            ones += "1 1:1 2:0.5\n";
            twos += "2 3:1 4:0.5\n";
        }
        const std::vector<std::string> paths = {scratch.file("sorted.svm", ones + twos)};
        const std::vector<std::string> packed = {scratch.gzip("sorted.svm.gz", ones + twos)};
        for (const uint64_t skip_bad : {0, 100}) {
            for (const auto& files : {paths, packed}) {
                ReadOptions options;
                // The packed file is one piece, which the first part reads.
                options.parts = {{files == packed ? 0U : 1U, 2}};
                options.skip_bad = skip_bad;
                const auto refused = read_libsvm(files, options);
                REQUIRE_FALSE(refused);
                CHECK(has(refused.error().message(), "the labels are 1 and 2"));
                CHECK(has(refused.error().message(), "labels 1:-1,2:+1"));
            }
        }
        ReadOptions options;
        options.thread_count = 3;
        options.format.labels = *LabelMap::parse("1:-1,2:+1");
        const auto examples = read_libsvm(paths, options);
        REQUIRE(examples);
        CHECK(examples->report.example_count == 10000);
        CHECK(examples->report.labels.line_count() == 10000);
        int64_t sum = 0;
        for (const RowChunk& chunk : examples->chunks) {
            for (const int8_t label : chunk.labels)
                sum += label;
        }
        CHECK(sum == 0);
    }
}

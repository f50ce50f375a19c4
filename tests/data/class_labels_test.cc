// SPDX-License-Identifier: Apache-2.0
#include "lib/data/class_labels.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "lib/data/libsvm_parser.h"

namespace {

using namespace weir;
using namespace weir::data;

}  // namespace

TEST_SUITE("class labels") {
    TEST_CASE("ranges and numbers name classes in their order, and come back as text") {
        const auto classes = ClassLabels::parse("3-5,-1,0.5,9");
        REQUIRE(classes);
        CHECK(classes->count() == 6);
        CHECK(classes->place_of(3) == 0);
        CHECK(classes->place_of(5) == 2);
        CHECK(classes->place_of(-1) == 3);
        CHECK(classes->place_of(0.5) == 4);
        CHECK_FALSE(classes->place_of(6));
        CHECK(classes->label_of(5) == 9);
        CHECK(classes->text() == "3-5,-1,0.5,9");
        for (const char* const text : {"0-9", "-3--1", "1,2", "0,10,20"})
            CHECK(ClassLabels::parse(text)->text() == text);
    }

    TEST_CASE("what names no classes is refused, and says how to write it") {
        for (const char* const text :
             {"", "1", "1-1", "5-1", "a,b", "1,1", "1-3,2", "1,,2", "0-5000", "nan,1"}) {
            CAPTURE(text);
            const auto classes = ClassLabels::parse(text);
            REQUIRE_FALSE(classes);
            CHECK(classes.error().text().find("like 1-7 or 0,1,5") != std::string::npos);
        }
    }

    TEST_CASE("of classes the place stands in place of a label, and other labels are bad lines") {
        LibsvmFormat format;
        format.any_label = true;
        format.label_optional = true;
        format.classes = *ClassLabels::parse("4-6");
        ParsedLines lines;
        CHECK_FALSE(parse_libsvm("5 1:1\n4 2:1\n3:1\n", lines, format));
        CHECK(lines.numbers[0] == 1);
        CHECK(lines.numbers[1] == 0);
        CHECK(std::isnan(lines.numbers[2]));
        const auto bad = parse_libsvm("7 1:1\n", lines, format);
        REQUIRE(bad);
        CHECK(bad->unknown_label);
        CHECK(bad->expected == "a label of one of the classes");
    }
}

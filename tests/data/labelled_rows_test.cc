// SPDX-License-Identifier: Apache-2.0
#include "lib/data/labelled_rows.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/data/scratch.h"

namespace weir {
namespace {

using test::Scratch;

/// A row as text: its label, then key:value by ascending key.
std::vector<std::string> rows_of(const LabelledRows& all) {
    std::vector<std::string> rows;
    const auto& x = all.rows;
    for (size_t i = 0; i + 1 < x.offsets.size(); ++i) {
        std::string& row = rows.emplace_back(fmt::format("{}", all.labels[i]));
        for (auto k = static_cast<size_t>(x.offsets[i]); k < static_cast<size_t>(x.offsets[i + 1]);
             ++k) {
            row += fmt::format(" {}:{}", all.keys[static_cast<size_t>(x.places[k])],
                               x.values.empty() ? 1 : x.values[k]);
        }
    }
    return rows;
}

}  // namespace

TEST_SUITE("labelled_rows") {
    TEST_CASE("rows have the columns of their keys, and labels are as they stand there") {
        const Scratch scratch;
        const std::vector<std::string> paths{
            scratch.file("a.svm", "3 900:1.5 7:2\n# nothing\n-0.25 7:1 18446744073709551615:4\n"),
            scratch.gzip("b.svm.gz", "12\n1 8:1 # one\n")};
        const Result<LabelledRows> all = read_libsvm_rows(paths);
        REQUIRE_MESSAGE(all, all.error().text());
        CHECK(all->keys == std::vector<uint64_t>{7, 8, 900, ~uint64_t{0}});
        CHECK(all->rows.place_count == 4);
        CHECK(rows_of(*all) == std::vector<std::string>{"3 7:2 900:1.5",
                                                        "-0.25 7:1 18446744073709551615:4", "12",
                                                        "1 8:1"});
        CHECK(all->rows.view().row_count() == 4);
        // The product with what is pulled for the keys.
        const std::vector<float> w{10, 20, 30, 40};
        std::vector<float> margins(4);
        linalg::multiply(all->rows.view(), w, margins);
        CHECK(margins == std::vector<float>{65, 170, 0, 20});
    }

    TEST_CASE("parts and threads read everything once") {
        std::string text;
        for (int i = 0; i < 5000; ++i)
            text += fmt::format("{} {}:1 {}:1\n", i, i % 97, 100 + i % 31);
        const Scratch scratch;
        const std::vector<std::string> paths{scratch.file("a.svm", text)};
        std::vector<bool> seen(5000);
        size_t count = 0;
        for (uint32_t part = 0; part < 3; ++part) {
            LibsvmOptions options;
            options.part = part;
            options.parts = 3;
            options.threads = 2;
            const Result<LabelledRows> some = read_libsvm_rows(paths, options);
            REQUIRE_MESSAGE(some, some.error().text());
            CHECK(some->rows.values.empty());  // all are 1
            for (const float label : some->labels) {
                const auto i = static_cast<size_t>(label);
                CHECK_FALSE(seen[i]);
                seen[i] = true;
                ++count;
            }
        }
        CHECK(count == 5000);
    }

    TEST_CASE("what is wrong is named, and what to do") {
        const Scratch scratch;
        const auto text_of = [](const Result<LabelledRows>& all) {
            REQUIRE_FALSE(all);
            return std::string(all.error().text());
        };
        const std::vector<std::string> bad{scratch.file("a.svm", "1 3:1\ncat 4:1\n2 4:x\n")};
        const std::string why = text_of(read_libsvm_rows(bad));
        CHECK_MESSAGE(why.find("a.svm:2") != std::string::npos, why);
        CHECK_MESSAGE(why.find("a label: a number") != std::string::npos, why);
        LibsvmOptions lenient;
        lenient.skip_bad = 2;
        const Result<LabelledRows> rest = read_libsvm_rows(bad, lenient);
        REQUIRE(rest);
        CHECK(rest->bad_line_count == 2);
        CHECK(rest->first_bad_line.find("a.svm:2") != std::string::npos);
        CHECK(rows_of(*rest) == std::vector<std::string>{"1 3:1"});
        LibsvmOptions beyond;
        beyond.part = 2;
        beyond.parts = 2;
        CHECK(read_libsvm_rows(bad, beyond).code() == Errc::kInvalidArgument);
        const std::vector<std::string> none{scratch.path("none.svm")};
        CHECK(text_of(read_libsvm_rows(none)).find("none.svm") != std::string::npos);
    }
}

}  // namespace weir

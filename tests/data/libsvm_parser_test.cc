// SPDX-License-Identifier: Apache-2.0
#include "lib/data/libsvm_parser.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace {

using namespace weir::data;

BadLine bad(std::string_view text) {
    ParsedLines lines;
    const auto result = parse_libsvm(text, lines);
    REQUIRE(result.has_value());
    CHECK(lines.labels.empty());
    CHECK(lines.keys.empty());
    CHECK(lines.values.empty());
    return *result;
}

float value_of(const std::string& text) {
    ParsedLines lines;
    REQUIRE_FALSE(parse_libsvm("1 7:" + text, lines).has_value());
    return lines.values.empty() ? 0.0F : lines.values[0];
}

}  // namespace

TEST_SUITE("libsvm_parser") {
    TEST_CASE("labels, features and values of every allowed form are read") {
        ParsedLines lines;
        const std::string_view text =
            "+1 3:1 18446744073709551615:-2.5\n"
            "0 0:1e-3\t7:+4 # a comment 9:9\r\n"
            "\n"
            "# only a comment\n"
            "   \t\r\n"
            "-1 9:1 2:1 5:0\n"
            "1.0\n"
            "-1 00000000000000000000000012:.5";
        REQUIRE_FALSE(parse_libsvm(text, lines).has_value());
        CHECK(lines.labels == std::vector<int8_t>{1, -1, -1, 1, -1});
        CHECK(lines.lengths == std::vector<uint32_t>{2, 2, 2, 0, 1});
        CHECK(lines.keys == std::vector<uint64_t>{3, ~uint64_t{0}, 0, 7, 9, 2, 12});
        CHECK(lines.values == std::vector<float>{1, -2.5F, 1e-3F, 4, 1, 1, 0.5F});
        CHECK(lines.line_count == 8);
        CHECK_FALSE(lines.all_ones);
    }

    TEST_CASE("a click log is recognised: every value is one, and zeros do not count") {
        ParsedLines lines;
        REQUIRE_FALSE(parse_libsvm("1 1:1 2:1.0\n0 5:1 6:0\n", lines).has_value());
        CHECK(lines.all_ones);
        CHECK(lines.keys.size() == 3);
    }

    TEST_CASE("the error of a bad line has the column, what was expected and what was found") {
        CHECK(bad("2 1:1\n").expected == "a label: -1, 0 or +1");
        CHECK(bad("2 1:1\n").found == "'2'");
        CHECK(bad("1:1 2:1\n").column == 1);
        CHECK(bad("nan 1:1").expected == "a label: -1, 0 or +1");
        CHECK(bad("1 x:1\n").expected == "a feature number from 0 to 2^64 - 1");
        CHECK(bad("1 x:1\n").column == 3);
        CHECK(bad("1 -3:1\n").found == "'-3:1'");
        CHECK(bad("1 18446744073709551616:1").expected == "a feature number from 0 to 2^64 - 1");
        CHECK(bad("1 99999999999999999999999:1").column == 3);
        CHECK(bad("1 12 4:1\n").expected == "a ':' after the feature number");
        CHECK(bad("1 12 4:1\n").column == 5);
        CHECK(bad("1 12:\n").expected == "a finite decimal number within the range of float32");
        CHECK(bad("1 12:\n").found == "the end of the line");
        CHECK(bad("1 12: 5\n").column == 6);
        CHECK(bad("1 3:1x 4:1\n").expected == "a space before the next feature");
        CHECK(bad("1 3:1x 4:1\n").column == 6);
    }

    TEST_CASE("values that are no finite float32 are refused") {
        for (const char* value : {"nan", "NaN", "inf", "-inf", "1e39", "-1e39", "1e400", ".", "-",
                                  "+-1", "0x10", "1e", "--1", "1,5"}) {
            CAPTURE(value);
            ParsedLines lines;
            CHECK(parse_libsvm(std::string("1 3:") + value, lines).has_value());
        }
    }

    TEST_CASE("values too small for float32 are 0, however small") {
        const std::string zeros(400, '0');
        for (const std::string& value :
             {std::string("1e-50"), std::string("1e-400"), std::string("-1e-400"),
              std::string("+12.5E-99999999999999999999"), "0." + zeros + '1', "." + zeros + "1e-5",
              '1' + zeros + "e-900", "0e" + zeros + '9'}) {
            CAPTURE(value);
            CHECK(value_of(value) == 0);
        }
        for (const std::string& value :
             {std::string("1e+400"), std::string("0.1e99999999999999999999"), '1' + zeros,
              "0." + zeros + "1e900", "0" + zeros + "12" + zeros}) {
            CAPTURE(value);
            CHECK(bad("1 3:" + value).column == 5);
        }
        CHECK(value_of("0." + zeros + "1e401") == 1);
    }

    TEST_CASE("a feature that comes twice in a line is refused where it comes again") {
        const BadLine line = bad("1 5:1 3:1 5:2\n");
        CHECK(line.expected == "every feature only once in a line");
        CHECK(line.column == 11);
        CHECK(bad("-1 4:1 4:1").column == 8);
        ParsedLines lines;
        CHECK_FALSE(parse_libsvm("1 9:1 8:1 7:1\n-1 9:1\n", lines).has_value());
    }

    TEST_CASE("binary junk is refused and shown in printable characters") {
        const BadLine line =
            bad(std::string_view("\x7f"
                                 "ELF\x02\x00\x01",
                                 7));
        CHECK(line.found == "'\\x7fELF\\x02\\x00\\x01'");
    }

    TEST_CASE("parsing goes on after a bad line, and keeps what came before it") {
        const std::string text = "1 1:1\nrubbish\n-1 2:1\n1 2:x\n1 3:1\n";
        std::string_view rest = text;
        ParsedLines lines;
        std::vector<uint64_t> places;
        while (const auto line = parse_libsvm(rest, lines)) {
            places.push_back(line->line_index);
            rest.remove_prefix(line->next_offset);
        }
        CHECK(places == std::vector<uint64_t>{1, 1});
        CHECK(lines.keys == std::vector<uint64_t>{1, 2, 3});
        CHECK(lines.line_count == 5);
    }

    TEST_CASE("feature numbers of every length are read, whatever comes behind them") {
        WEIR_TEST_SEED(seed, 4);
        weir::Random random(seed);
        for (int round = 0; round < 20'000; ++round) {
            const uint64_t key = (random() >> random.below(64)) | 1;  // not one of those behind it
            const std::string zeros(random.below(10), '0');
            const std::string behind =
                random.below(2) == 0 ? "" : " 18446744073709551614:0.125 5000000000000000000:77";
            ParsedLines lines;
            INFO(key << ", behind it: " << behind);
            REQUIRE_FALSE(
                parse_libsvm(fmt::format("1 {}{}:4{}", zeros, key, behind), lines).has_value());
            REQUIRE(lines.keys.front() == key);
            REQUIRE(lines.values.front() == 4);
            REQUIRE(lines.keys.size() == (behind.empty() ? 1 : 3));
        }
    }

    TEST_CASE("only digits are digits, wherever they stand among eight") {
        for (int byte = 0; byte < 256; ++byte) {
            const auto c = static_cast<char>(byte);
            if (c == ':' || c == '\n' || c == '#' || (c >= '0' && c <= '9')) continue;
            for (uint64_t digits = 1; digits < 10; ++digits) {
                std::string text = "1 " + std::string(digits, '7') + c + "12345678:1 9:1";
                const BadLine line = bad(text);
                CHECK(line.column == 3 + digits);
                CHECK(line.expected == "a ':' after the feature number");
            }
        }
    }

    TEST_CASE("numbers are those that the C library reads") {
        WEIR_TEST_SEED(seed, 3);
        weir::Random random(seed);
        for (int i = 0; i < 20000; ++i) {
            std::string text = random.below(2) != 0 ? "-" : "";
            const uint64_t digits = 1 + random.below(22);
            const uint64_t point = random.below(digits + 3);
            for (uint64_t d = 0; d < digits; ++d) {
                if (d == point) text += '.';
                text += static_cast<char>('0' + random.below(10));
            }
            if (random.below(3) == 0)
                text += fmt::format("e{}", static_cast<int>(random.below(30)) - 15);
            CAPTURE(text);
            CHECK(value_of(text) == static_cast<float>(std::strtod(text.c_str(), nullptr)));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/key_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace weir::tools {
namespace {

template <class T>
GetReply reply_of(std::vector<KeyState> states, const std::vector<T>& values) {
    GetReply reply;
    reply.type = value_type_of<T>();
    reply.width = static_cast<uint32_t>(values.size() / states.size());
    reply.states = std::move(states);
    reply.values.resize(values.size() * sizeof(T));
    std::memcpy(reply.values.data(), values.data(), reply.values.size());
    return reply;
}

std::string error_of(std::vector<std::string> words) {
    const auto keys = parse_keys(words);
    CHECK_FALSE(keys);
    return keys ? "" : keys.error().text();
}

}  // namespace

TEST_SUITE("key_values") {
    TEST_CASE("keys are numbers and ranges, in the order in which they are given") {
        const std::vector<std::string> words = {"7", "10-12", "7", "18446744073709551615",
                                                "18446744073709551614-18446744073709551615"};
        const auto keys = parse_keys(words);
        REQUIRE(keys);
        CHECK(*keys == std::vector<uint64_t>{7, 10, 11, 12, 7, ~uint64_t{0}, ~uint64_t{0} - 1,
                                             ~uint64_t{0}});
        const std::vector<std::string> most = {"1-999", "0"};
        CHECK(parse_keys(most)->size() == kGetKeysMax);
    }

    TEST_CASE("what is no key is named") {
        for (const char* const word : {"abc", "", "-", "-5", "5-", "1.5", "+1", "0x10", " 1",
                                       "1-2-3", "18446744073709551616"})
            CHECK(error_of({"1", word}).find(std::string("key '") + word + "': must be a number") ==
                  0);
        CHECK(error_of({"5-3"}) == "key range '5-3': ends before it begins");
        for (const char* const word : {"0-1000", "0-18446744073709551615"})
            CHECK(error_of({word}).find(std::string("'") + word + "' makes more than 1000 keys") ==
                  0);
        CHECK(error_of({"0-999", "4"}).find("'4' makes more than 1000 keys") == 0);
    }

    TEST_CASE("values are shown with as many digits as tell them apart, keys below each other") {
        const auto found = reply_of<float>(
            {KeyState::kThere, KeyState::kInitial, KeyState::kUnknown}, {0.1F, -2, 0, 0.5F, 0, 0});
        const std::vector<uint64_t> keys = {7, 1000, 42};
        CHECK(values_text("w", keys, found) ==
              "table w: float32, 2 values for each key\n"
              "   7  0.1 -2\n"
              "1000  0 0.5  (not there: initial value)\n"
              "  42  no answer\n");
        CHECK(unknown_count(found) == 1);
    }

    TEST_CASE("a program reads the same values, and null where there is none") {
        auto found = reply_of<float>({KeyState::kThere, KeyState::kInitial, KeyState::kUnknown},
                                     {0.1F, std::numeric_limits<float>::infinity(), 0});
        found.why = "shard 1 does not answer";
        const std::vector<uint64_t> keys = {7, ~uint64_t{0}, 42};
        const auto json = nlohmann::json::parse(values_json("w", keys, found));
        CHECK(json["table"] == "w");
        CHECK(json["type"] == "float32");
        CHECK(json["width"] == 1);
        CHECK(json["unanswered"] == 1);
        CHECK(json["why"] == "shard 1 does not answer");
        CHECK(json["keys"][0] == nlohmann::json{{"key", 7}, {"there", true}, {"values", {0.1}}});
        CHECK(json["keys"][1]["key"] == ~uint64_t{0});
        CHECK(json["keys"][1]["there"] == false);
        CHECK(json["keys"][1]["values"][0] == "inf");
        CHECK(json["keys"][2]["there"].is_null());
        CHECK(json["keys"][2]["values"].is_null());
    }

    TEST_CASE("narrow values are shown as the floats that they are") {
        const auto found = reply_of<BFloat16>({KeyState::kThere, KeyState::kThere},
                                              {BFloat16(0.1F), BFloat16(-2), BFloat16(3), {}});
        const std::vector<uint64_t> keys = {7, 8};
        CHECK(values_text("w", keys, found) ==
              "table w: bfloat16, 2 values for each key\n"
              "7  0.100097656 -2\n"
              "8  3 0\n");
        const auto json = nlohmann::json::parse(values_json("w", keys, found));
        CHECK(json["keys"][1]["values"] == nlohmann::json{3.0, 0.0});
    }

    TEST_CASE("whole numbers are shown whole") {
        const auto found = reply_of<uint64_t>({KeyState::kThere}, {~uint64_t{0}});
        const std::vector<uint64_t> keys = {1};
        CHECK(values_text("n", keys, found).find("1  18446744073709551615\n") != std::string::npos);
        CHECK(nlohmann::json::parse(values_json("n", keys, found))["keys"][0]["values"][0] ==
              ~uint64_t{0});
    }
}

}  // namespace weir::tools

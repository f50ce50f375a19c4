// SPDX-License-Identifier: Apache-2.0
/// \file
/// Codecs that tables name: what is refused, and what a process must have for one.
#include "lib/store/rules/codec_entry.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/store/schema_codec.h"
#include "lib/store/table_schema.h"
#include "tests/filter/shorn_codec.h"

namespace weir::test {
namespace {

/// Copies floats, and does what a test wants then.
struct OddCodec final : ValueCodec {
    bool is_for_floats = true;
    std::function<std::optional<size_t>(std::span<std::byte>)> encoded = [](auto body) {
        return std::optional(body.size());
    };
    std::function<Status(std::span<std::byte>)> decoded = [](auto) { return Status(); };

    [[nodiscard]] bool takes(ValueType type) const noexcept override {
        return is_for_floats && type == ValueType::kFloat32;
    }

    [[nodiscard]] std::optional<size_t> encode(ValueType, std::span<const std::byte> values,
                                               std::span<std::byte> body) const override {
        std::ranges::copy(values, body.begin());
        return encoded(body);
    }

    [[nodiscard]] Status decode(ValueType, std::span<const std::byte> body,
                                std::span<std::byte> values) const override {
        std::ranges::copy(body.first(std::min(body.size(), values.size())), values.begin());
        return decoded(values);
    }
};

std::string why_no_codec(const std::function<void(OddCodec&)>& spoil) {
    const auto codec = std::make_shared<OddCodec>();
    spoil(*codec);
    const Result<CodecEntry> made = make_codec("odd", 1, codec);
    if (made) return "it is one";
    CHECK(made.code() == Errc::kInvalidArgument);
    return std::string(made.error().text());
}

TableSchema with_codec(std::string codec, uint32_t version, ValueType type = ValueType::kFloat32) {
    TableSchema schema{.name = "w", .layout = Layout::kSparse, .value_type = type};
    schema.codec = std::move(codec);
    schema.codec_version = version;
    return schema;
}

}  // namespace

TEST_SUITE("codec_entry") {
    TEST_CASE("a codec is tried before it is taken, and what is wrong with it is said") {
        CHECK(why_no_codec([](OddCodec&) {}) == "it is one");
        CHECK(why_no_codec([](OddCodec& odd) {
                  odd.encoded = [](auto) { return std::nullopt; };
              }) == "it is one");
        CHECK(why_no_codec([](OddCodec& odd) { odd.is_for_floats = false; }) ==
              "codec 'odd': it takes values of no type");
        CHECK(why_no_codec([](OddCodec& odd) {
                  odd.encoded = [](auto body) { return std::optional(body.size() + 1); };
              }) == "codec 'odd': 0 values of type float32, encoded, are longer than before");
        CHECK(why_no_codec([](OddCodec& odd) {
                  odd.decoded = [](auto values) {
                      if (values.size() == 28) values[27] ^= std::byte{1};
                      return Status();
                  };
              }) == "codec 'odd': 7 values of type float32, encoded, come back as others");
        CHECK(why_no_codec([](OddCodec& odd) {
                  odd.decoded = [](auto) { return Status(Error(Errc::kProtocol, "never")); };
              }) == "codec 'odd': 0 values of type float32, encoded, are refused: never");
        CHECK(why_no_codec([](OddCodec& odd) {
                  odd.encoded = [](auto) -> std::optional<size_t> {
                      throw std::runtime_error("no\nlicence");
                  };
              }) == "codec 'odd': it threw on values of type float32: no?licence");
        CHECK(make_codec("", 1, std::make_shared<OddCodec>()).code() == Errc::kInvalidArgument);
        CHECK(make_codec("a\nb", 1, std::make_shared<OddCodec>()).code() == Errc::kInvalidArgument);
        CHECK(make_codec("odd", 1, nullptr).error().text() == "codec 'odd': it has no code");
    }

    TEST_CASE("code that throws later: values travel as they are, and a body ends the shard") {
        const auto codec = std::make_shared<OddCodec>();
        const CodecEntry entry = make_codec("odd", 1, codec).value();
        std::vector<std::byte> values(8), body(8);
        codec->encoded = [](auto) -> std::optional<size_t> { throw std::runtime_error("tired"); };
        CHECK_FALSE(entry.codec->encode(ValueType::kFloat32, values, body));
        codec->encoded = [](auto) { return std::optional(size_t{9}); };
        CHECK_FALSE(entry.codec->encode(ValueType::kFloat32, values, body));
        codec->decoded = [](auto) -> Status { throw std::runtime_error("tired"); };
        CHECK_THROWS_WITH_AS((void)entry.codec->decode(ValueType::kFloat32, body, values),
                             "codec 'odd' threw as it decoded: tired", RuleThrew);
        codec->decoded = [](auto) -> Status { throw std::bad_alloc(); };
        CHECK_THROWS_AS((void)entry.codec->decode(ValueType::kFloat32, body, values),
                        std::bad_alloc);
    }

    TEST_CASE("a name is registered once, and found also behind another registry") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        CHECK(rules.find_codec("shorn").error().text().find("no codec 'shorn' in this process") ==
              0);
        REQUIRE(rules.register_codec("shorn", std::make_shared<ShornCodec>(), 3));
        CHECK(rules.register_codec("shorn", std::make_shared<ShornCodec>()).code() ==
              Errc::kAlreadyExists);
        const RuleRegistry more(&rules);
        const Result<const CodecEntry*> found = more.find_codec("shorn");
        REQUIRE(found);
        CHECK((*found)->version == 3);
        CHECK((*found)->facts() == "codec shorn 3 ++++++++");
        CHECK(more.find_codec("other").error().text().find("there are: shorn") !=
              std::string::npos);
    }

    TEST_CASE("a process that makes a table, or encodes, has its codec in the same version") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema named = with_codec("shorn", 0);
        CHECK(name_code(named, rules).code() == Errc::kNotFound);
        REQUIRE(check_schema(named, rules));  // who needs none may use the table
        REQUIRE(rules.register_codec("shorn", std::make_shared<ShornCodec>(), 3));
        REQUIRE(rules.register_codec("odd", std::make_shared<OddCodec>()));
        REQUIRE(name_code(named, rules));
        CHECK(named.codec_version == 3);
        CHECK(find_codec(named, rules).value() != nullptr);
        CHECK(find_codec(with_codec("", 0), rules).value() == nullptr);
        CHECK(find_codec(with_codec("shorn", 2), rules)
                  .error()
                  .text()
                  .find("table 'w': codec 'shorn' has version 3 here, and version 2 where the "
                        "table was "
                        "made") == 0);
        CHECK(find_codec(with_codec("odd", 0, ValueType::kBFloat16), rules));  // what is pushed
        CHECK(find_codec(with_codec("odd", 0, ValueType::kInt32), rules).error().text() ==
              "table 'w': codec 'odd' takes no values of type int32");
    }

    TEST_CASE("the codec is a part of the schema") {
        TableSchema schema = with_codec("shorn", 7);
        schema.combine = Combine::kMean;
        const std::string bytes = encode_schema(schema);
        const auto decoded = decode_schema(bytes);
        REQUIRE(decoded);
        CHECK(*decoded == schema);
        for (size_t length = 0; length < bytes.size(); ++length)
            CHECK_FALSE(decode_schema(bytes.substr(0, length)));
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        CHECK(check_same(schema, with_codec("", 0), rules).code() == Errc::kAlreadyExists);
        TableSchema other = schema;
        other.codec = "odd";
        CHECK(check_same(schema, other, rules).error().text() ==
              "table 'w' exists with codec shorn; odd was asked for; ask for the same, or choose "
              "another name");
    }
}

}  // namespace weir::test

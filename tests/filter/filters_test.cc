// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/filters.h"

#include <cmath>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"
#include "tests/filter/bytes.h"

TEST_SUITE("filters") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    constexpr RowKind kFloats{ValueType::kFloat32, 1, Combine::kSum};
    constexpr Codecs kOfIntegers = kIntegers | kHalvesB | kHalves;
    constexpr Codecs kOfCompress = kCompress | kKeyDifferences;

    /// The text of what is wrong with it; nothing: it is accepted.
    std::string fault_of(std::string_view text) {
        const Result<Filters> parsed = Filters::parse(text);
        return parsed ? std::string() : parsed.error().text();
    }

    Errc code_of(const Filter& filter, const RowKind& rows = kFloats) {
        return Filters{filter}.check(rows).code();
    }

    /// Keeps keys whose number is even.
    class EvenKeys final : public Selector {
    public:
        explicit EvenKeys(uint64_t seed, bool holds = false) : seed_(seed), holds_(holds) {}

        [[nodiscard]] Status check(const RowKind& rows) const override {
            if (rows.width == 1) return {};
            return Error(Errc::kTypeMismatch, "only single values");
        }

        [[nodiscard]] bool holds_back() const noexcept override { return holds_; }

        [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& /*held*/,
                                    Selection& selection) override {
            reset_bits(selection.kept, push.keys.size());
            for (size_t i = 0; i < push.keys.size(); ++i) {
                if (push.keys[i] % 2 == 0) set_bit(selection.kept, i);
            }
            selection.keep_of(push.values, rows.row_bytes());
            return {};
        }

        [[nodiscard]] uint64_t seed() const noexcept { return seed_; }

    private:
        uint64_t seed_;
        bool holds_;
    };

    class EvenKeysFactory final : public SelectorFactory {
    public:
        explicit EvenKeysFactory(bool holds = false) : holds_(holds) {}

        [[nodiscard]] Result<std::unique_ptr<Selector>> make(const RowKind& /*rows*/,
                                                             const Clock& /*clock*/,
                                                             uint64_t seed) const override {
            return std::unique_ptr<Selector>(std::make_unique<EvenKeys>(seed, holds_));
        }

    private:
        bool holds_;
    };

    class NoFactory final : public SelectorFactory {
    public:
        [[nodiscard]] Result<std::unique_ptr<Selector>> make(const RowKind& /*rows*/,
                                                             const Clock& /*clock*/,
                                                             uint64_t /*seed*/) const override {
            return std::unique_ptr<Selector>();
        }
    };

    /// What a selector of these filters makes of so many ones, call after call.
    std::vector<Selection> selections(const Filters& filters, uint64_t seed, int calls) {
        const ManualClock clock;
        auto selector = filters.make_selector(kFloats, clock, seed);
        REQUIRE(selector);
        REQUIRE(*selector != nullptr);
        HeldBack held(kFloats, size_t{1} << 20);
        const std::vector<float> values(1000, 1.1F);
        const PushedRows push{CallKeys(KeyRange{0, 1000}), std::as_bytes(std::span(values))};
        std::vector<Selection> all(static_cast<size_t>(calls));
        for (Selection& selection : all)
            REQUIRE((*selector)->select(kFloats, push, held, selection));
        return all;
    }

    }  // namespace

    TEST_CASE("text becomes the filters that it names, and they become it again") {
        using namespace filters;
        const std::pair<std::string_view, Filters> pairs[] = {
            {"none", {}},
            {"auto", {automatic()}},
            {"zeros", {zeros()}},
            {"zeros,integers,compress", {zeros(), integers(), compress()}},
            {"significant=0.01,zeros", {filters::significant(0.01), zeros()}},
            {"significant-relative=0.25", {significant_relative(0.25)}},
            {"random-skip=0.1,auto", {random_skip(0.1), automatic()}},
            {"top=1000000:65536", {top_by_budget(1e6, 65536)}},
            {"tail=3", {filters::tail(3)}},
            {"round=fixed8", {filters::round(RoundForm::kFixed8)}},
            {"round=bfloat16:no-rests", {filters::round(RoundForm::kBFloat16, false)}},
            {"tail=2,significant=1e-300,round=fixed16,integers",
             {filters::tail(2), filters::significant(1e-300), filters::round(RoundForm::kFixed16),
              integers()}},
        };
        for (const auto& pair : pairs) {
            const auto& [text, filters] = pair;
            CAPTURE(pair.first);
            CHECK(fault_of(text) == "");
            CHECK(Filters::parse(text).value() == filters);
            CHECK(filters.text() == text);
            CHECK(filters.check(kFloats));
        }
        CHECK(Filters::parse("top=1e6:65536").value() == Filters{top_by_budget(1e6, 65536)});
        CHECK(Filters{filters::significant(1)} != Filters{filters::significant(2)});
    }

    TEST_CASE("codecs have one order, and selectors keep theirs") {
        CHECK(Filters::parse("compress,tail=2,zeros,significant=1").value().text() ==
              "tail=2,significant=1,zeros,compress");
        CHECK(Filters::parse("significant=1,tail=2").value() !=
              Filters::parse("tail=2,significant=1").value());
        CHECK(Filters::parse("zeros,integers").value() == Filters::parse("integers,zeros").value());
    }

    TEST_CASE("without its selectors a list has the same codecs") {
        CHECK(Filters::parse("zeros,tail=2,significant=1,compress")
                  .value()
                  .without_selectors()
                  .text() == "zeros,compress");
        CHECK(Filters::parse("auto").value().without_selectors().is_automatic());
        CHECK(Filters::parse("tail=2").value().without_selectors().empty());
    }

    TEST_CASE("codecs are those that a body is to have") {
        using namespace filters;
        CHECK(Filters().codecs() == 0);
        CHECK(Filters{zeros()}.codecs() == kZeros);
        CHECK(Filters{integers()}.codecs() == kOfIntegers);
        CHECK(Filters{compress()}.codecs() == kOfCompress);
        const Codecs all = kZeros | kOfIntegers | kOfCompress;
        CHECK(Filters{automatic()}.codecs() == all);
        CHECK(Filters{zeros(), integers(), compress()}.codecs() == all);
        CHECK(Filters{filters::tail(2)}.codecs() == 0);
        CHECK(Filters{automatic()}.is_automatic());
        CHECK_FALSE(Filters{zeros(), integers(), compress()}.is_automatic());
        CHECK(Filters().empty());
        CHECK_FALSE(Filters{zeros()}.empty());
        CHECK_FALSE(Filters{zeros()}.has_selectors());
        CHECK(Filters{zeros(), filters::tail(2)}.has_selectors());
    }

    TEST_CASE("what is no filter is refused, and the message says what there is") {
        for (const std::string_view text :
             {"", ",", "zeros,", ",zeros", "zero", "Zeros", " zeros", "none,zeros", "zeros,none"}) {
            CAPTURE(text);
            CHECK(Filters::parse(text).code() == Errc::kParse);
            const std::string fault = fault_of(text);
            for (const std::string_view name :
                 {"significant=DELTA", "random-skip=Q", "top=RATE:BURST", "zeros", "auto", "none"})
                CHECK(fault.find(name) != std::string::npos);
        }
        CHECK(fault_of("zeros,foo=1").starts_with("filter 'foo': there is none of this name"));
    }

    TEST_CASE("numbers that are none, too few or too many are refused") {
        for (const std::string_view text : {"zeros=1",
                                            "auto=",
                                            "tail",
                                            "tail=",
                                            "tail=x",
                                            "tail=1x",
                                            "tail= 1",
                                            "tail=1:",
                                            "top=1::2",
                                            "top=:1",
                                            "top=1:2:",
                                            "significant=0.1=2",
                                            "round",
                                            "round=",
                                            "round=8",
                                            "round=fixed",
                                            "round=fixed8:",
                                            "round=fixed8:rests",
                                            "round=fixed8:no-rests:1",
                                            "round=fixed8:no-rests:"}) {
            CAPTURE(text);
            CHECK(Filters::parse(text).code() == Errc::kParse);
        }
        for (const std::string_view text : {"tail=1:2", "top=1", "top=1:2:3", "random-skip=1:1"}) {
            CAPTURE(text);
            CHECK(Filters::parse(text).code() == Errc::kInvalidArgument);
        }
        CHECK(fault_of("round=fixed9").find("fixed8, fixed16, fixed32, bfloat16, float16") !=
              std::string::npos);
    }

    TEST_CASE("numbers that are out of range are refused") {
        for (const std::string_view text :
             {"significant=-1", "significant=nan", "significant=inf", "significant-relative=-0.1",
              "random-skip=0", "random-skip=1.01", "random-skip=-0.5", "random-skip=nan",
              "top=0:1000", "top=1000:0", "top=1e19:1000", "top=1000:inf", "tail=0", "tail=1.5",
              "tail=4294967296", "tail=-1"}) {
            CAPTURE(text);
            CHECK(Filters::parse(text).code() == Errc::kInvalidArgument);
        }
        for (const std::string_view text : {"significant=0", "random-skip=1", "random-skip=1e-300",
                                            "top=1e18:1e18", "tail=4294967295"}) {
            CAPTURE(text);
            CHECK(fault_of(text) == "");
        }
        const double nan = std::numeric_limits<double>::quiet_NaN();
        CHECK(code_of(filters::significant(nan)) == Errc::kInvalidArgument);
        CHECK(code_of({"round", {5, 1}}) == Errc::kInvalidArgument);
        CHECK(code_of({"round", {1, 0.5}}) == Errc::kInvalidArgument);
        CHECK(code_of({"round", {1}}) == Errc::kInvalidArgument);
        CHECK(code_of({"zeros", {1}}) == Errc::kInvalidArgument);
        CHECK(code_of({"unknown"}) == Errc::kInvalidArgument);
        CHECK(Filters{{"round", {1e30, 1}}}.text() == "round=1e+30:1");
    }

    TEST_CASE("a filter twice is refused, also a codec that auto has already") {
        for (const std::string_view text :
             {"zeros,zeros", "auto,zeros", "compress,auto", "auto,auto", "tail=2,tail=3",
              "round=fixed8,round=fixed16"}) {
            CAPTURE(text);
            CHECK(Filters::parse(text).code() == Errc::kInvalidArgument);
        }
    }

    TEST_CASE("rounding is the last selector, and codecs may stand anywhere") {
        CHECK(fault_of("round=fixed8,tail=2").find("last") != std::string::npos);
        CHECK(fault_of("round=fixed8,zeros") == "");
        CHECK(fault_of("zeros,tail=2,round=fixed8") == "");
    }

    TEST_CASE("rows that a selector is not for are refused") {
        const RowKind mean{ValueType::kFloat32, 1, Combine::kMean};
        const RowKind integers{ValueType::kInt64, 1, Combine::kSum};
        CHECK(code_of(filters::significant(1), mean) == Errc::kInvalidArgument);
        CHECK(code_of(filters::top_by_budget(1e6, 1e6), mean) == Errc::kInvalidArgument);
        CHECK(code_of(filters::round(RoundForm::kFixed8), mean) == Errc::kInvalidArgument);
        CHECK(code_of(filters::round(RoundForm::kFixed8, false), mean) == Errc::kOk);
        CHECK(code_of(filters::tail(2), mean) == Errc::kOk);
        CHECK(code_of(filters::zeros(), mean) == Errc::kOk);
        CHECK(code_of(filters::random_skip(0.5), integers) == Errc::kTypeMismatch);
        CHECK(code_of(filters::round(RoundForm::kFixed8), integers) == Errc::kTypeMismatch);
        CHECK(code_of(filters::significant(1), integers) == Errc::kOk);
        CHECK(code_of(filters::top_by_budget(1e6, 11)) == Errc::kInvalidArgument);
        CHECK(code_of(filters::top_by_budget(1e6, 12)) == Errc::kOk);
        const ManualClock clock;
        CHECK(Filters{filters::significant(1)}.make_selector(mean, clock, 1).code() ==
              Errc::kInvalidArgument);
    }

    TEST_CASE("there is no selector where none is named") {
        const ManualClock clock;
        CHECK(Filters().make_selector(kFloats, clock, 1).value() == nullptr);
        CHECK(Filters{filters::automatic()}.make_selector(kFloats, clock, 1).value() == nullptr);
    }

    TEST_CASE("several selectors are applied one after the other") {
        const auto even = std::make_shared<EvenKeysFactory>();
        const Filters both{filters::own("even", even), filters::tail(3), filters::zeros()};
        REQUIRE(both.check(kFloats));
        const auto calls = selections(both, 1, 3);
        CHECK(calls[0].kept_count == 0);
        CHECK(calls[1].kept_count == 0);
        CHECK(calls[2].kept_count == 500);
        CHECK(has_bit(calls[2].kept, 2));
        CHECK_FALSE(has_bit(calls[2].kept, 3));
    }

    TEST_CASE("what is drawn differs from seed to seed and from call to call") {
        for (const Filters& filters :
             {Filters{filters::random_skip(0.5)},
              Filters{filters::round(RoundForm::kFixed8, false)},
              Filters{filters::random_skip(0.5), filters::round(RoundForm::kFixed8, false)}}) {
            CAPTURE(filters.text());
            std::vector<Selection> all;
            for (const uint64_t seed : {0, 1, 2, 3}) {
                for (Selection& selection : selections(filters, seed, 4))
                    all.push_back(std::move(selection));
            }
            for (size_t a = 0; a < all.size(); ++a) {
                for (size_t b = 0; b < a; ++b) {
                    CHECK((all[a].kept != all[b].kept || all[a].values != all[b].values));
                }
            }
            const auto again = selections(filters, 3, 4);
            CHECK(again[3].kept == all.back().kept);
            CHECK(again[3].values == all.back().values);
        }
    }

    TEST_CASE("a selector of the program has a name of its own, and is asked about rows") {
        const auto even = std::make_shared<EvenKeysFactory>();
        CHECK(code_of(filters::own("even", even)) == Errc::kOk);
        CHECK(Filters{filters::own("even", even)}.text() == "even");
        CHECK(code_of(filters::own("even", even), {ValueType::kFloat32, 2, Combine::kSum}) ==
              Errc::kTypeMismatch);
        for (const char* name : {"", "a,b", "a=b", "a:b", "zeros", "top"})
            CHECK(code_of(filters::own(name, even)) == Errc::kInvalidArgument);
        CHECK(code_of(filters::own("even", nullptr)) == Errc::kInvalidArgument);
        CHECK(code_of(filters::own("no", std::make_shared<NoFactory>())) == Errc::kInvalidArgument);
        const Filters twice{filters::own("even", even), filters::own("even", even)};
        CHECK(twice.check(kFloats).code() == Errc::kInvalidArgument);
    }

    TEST_CASE("a selector of the program that holds back is refused where pushes cannot be held") {
        const auto holds = std::make_shared<EvenKeysFactory>(true);
        CHECK(code_of(filters::own("even", holds)) == Errc::kOk);
        CHECK(code_of(filters::own("even", holds), {ValueType::kFloat32, 1, Combine::kMean}) ==
              Errc::kInvalidArgument);
    }

    TEST_CASE("selectors of a table get seeds of their own") {
        const auto factory = std::make_shared<EvenKeysFactory>();
        const ManualClock clock;
        std::vector<uint64_t> seeds;
        for (const uint64_t seed : {0, 1, 2}) {
            const auto made =
                Filters{filters::own("even", factory)}.make_selector(kFloats, clock, seed).value();
            seeds.push_back(static_cast<const EvenKeys&>(*made).seed());
        }
        CHECK(seeds[0] != seeds[1]);
        CHECK(seeds[1] != seeds[2]);
    }
}

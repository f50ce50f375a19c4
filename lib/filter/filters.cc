// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/random_skip.h"
#include "lib/filter/select/round.h"
#include "lib/filter/select/selector_chain.h"
#include "lib/filter/select/significant.h"
#include "lib/filter/select/tail.h"
#include "lib/filter/select/top_by_budget.h"

namespace weir {
namespace {

/// Of a number of a filter.
struct NumberLimits {
    double least = 0;
    double most = 0;
    bool is_whole = false;
    std::string_view must_be{};
};

constexpr double kGreatest = std::numeric_limits<double>::max();
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
/// So many in each of 2^64 nanoseconds, and in the burst, do not overflow a ByteBudget.
constexpr double kBytesMost = 1e18;
constexpr double kKeptMost = std::numeric_limits<uint32_t>::max();
constexpr double kFormMost = kRoundFormCount - 1;

constexpr NumberLimits kDelta{0, kGreatest, false, "DELTA must be 0 or more"};
constexpr NumberLimits kProbability{kAboveZero, 1, false, "Q must be above 0 and at most 1"};
constexpr NumberLimits kRate{1, kBytesMost, false, "RATE must be 1 to 1e18 bytes per second"};
constexpr NumberLimits kBurst{1, kBytesMost, false, "BURST must be 1 to 1e18 bytes"};
constexpr NumberLimits kOccurrence{1, kKeptMost, true, "N must be a whole number from 1 to 2^32-1"};
constexpr NumberLimits kForm{0, kFormMost, true, "FORM must be one of RoundForm"};
constexpr NumberLimits kAddsRests{0, 1, true, "rests are added (1) or not (0)"};

constexpr size_t kNumbersMax = 2;

struct FilterKind {
    std::string_view name;
    std::string_view form;  ///< as parse() takes it
    Codecs codecs;          ///< 0: a selector
    size_t number_count = 0;
    std::array<NumberLimits, kNumbersMax> numbers{};
};

constexpr Codecs kSmallValues = kIntegers | kHalvesB | kHalves;
constexpr Codecs kCompressed = kCompress | kKeyDifferences;

/// Codecs in the order in which they are shown.
constexpr FilterKind kFilterKinds[] = {
    {"significant", "significant=DELTA", 0, 1, {kDelta}},
    {"significant-relative", "significant-relative=DELTA", 0, 1, {kDelta}},
    {"random-skip", "random-skip=Q", 0, 1, {kProbability}},
    {"top", "top=RATE:BURST", 0, 2, {kRate, kBurst}},
    {"tail", "tail=N", 0, 1, {kOccurrence}},
    {"round", "round=FORM[:no-rests]", 0, 2, {kForm, kAddsRests}},
    {"zeros", "zeros", kZeros},
    {"integers", "integers", kSmallValues},
    {"compress", "compress", kCompressed},
    {"table-codec", "table-codec", kTablesOwn},
    {"auto", "auto", kZeros | kSmallValues | kCompressed},
};

constexpr std::string_view kNoFilters = "none";
constexpr std::string_view kNoRests = "no-rests";

const FilterKind* kind_named(std::string_view name) noexcept {
    const auto* const kind = std::ranges::find(kFilterKinds, name, &FilterKind::name);
    return kind == std::end(kFilterKinds) ? nullptr : kind;
}

/// null: it is one of the program, or none.
const FilterKind* kind_of(const Filter& filter) noexcept {
    return filter.own != nullptr ? nullptr : kind_named(filter.name);
}

Codecs codecs_of(const Filter& filter) noexcept {
    const FilterKind* const kind = kind_of(filter);
    return kind == nullptr ? Codecs{0} : kind->codecs;
}

bool is_selector(const Filter& filter) noexcept {
    return codecs_of(filter) == 0;
}

Error filter_error(Errc code, std::string_view name, std::string_view why) {
    return {code, fmt::format("filter '{}': {}", name, why)};
}

Error unknown_filter(Errc code, std::string_view name) {
    std::string forms;
    for (const FilterKind& kind : kFilterKinds)
        forms += fmt::format("{}{}", forms.empty() ? "" : ", ", kind.form);
    return filter_error(code, name,
                        fmt::format("there is none of this name; there are, with commas between "
                                    "them, {}; or {}",
                                    forms, kNoFilters));
}

std::string round_forms() {
    std::string names;
    for (size_t i = 0; i < kRoundFormCount; ++i)
        names += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(static_cast<RoundForm>(i)));
    return names;
}

// Numbers.

Status check_numbers_of(const Filter& filter) {
    const std::string_view name = filter.name;
    const FilterKind* const kind = kind_named(name);
    if (filter.own != nullptr) {
        if (kind == nullptr && !name.empty() && name.find_first_of(",=:") == name.npos) return {};
        return filter_error(Errc::kInvalidArgument, name,
                            "a filter of the program has a name that no other has, without comma, "
                            "colon and equals sign");
    }
    if (kind == nullptr) return unknown_filter(Errc::kInvalidArgument, name);
    if (filter.numbers.size() != kind->number_count) {
        return filter_error(Errc::kInvalidArgument, name,
                            fmt::format("it has {} numbers, not {}: {}", kind->number_count,
                                        filter.numbers.size(), kind->form));
    }
    for (size_t i = 0; i < filter.numbers.size(); ++i) {
        const NumberLimits& limits = kind->numbers[i];
        const double number = filter.numbers[i];
        // A NaN is not within any.
        const bool is_within = number >= limits.least && number <= limits.most;
        if (!is_within || (limits.is_whole && std::trunc(number) != number)) {
            return filter_error(Errc::kInvalidArgument, name,
                                fmt::format("{}, not {}", limits.must_be, number));
        }
    }
    return {};
}

// Text.

/// Takes what is before the next `separator`, and both off.
std::string_view take_until(char separator, std::string_view& rest) noexcept {
    const size_t at = rest.find(separator);
    const std::string_view taken = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
    return taken;
}

Result<std::vector<double>> parse_rounding(std::string_view text) {
    const std::optional<RoundForm> form = round_form_from(take_until(':', text));
    if (!form || (!text.empty() && text != kNoRests)) {
        return filter_error(Errc::kParse, "round",
                            fmt::format("it is round=FORM, or round=FORM:{}, and FORM is one of {}",
                                        kNoRests, round_forms()));
    }
    return std::vector<double>{static_cast<double>(*form), text.empty() ? 1.0 : 0.0};
}

Result<std::vector<double>> parse_numbers(const FilterKind& kind, std::string_view text) {
    std::vector<double> numbers;
    while (!text.empty()) {
        const std::string_view digits = take_until(':', text);
        const char* const end = digits.data() + digits.size();
        double number = 0;
        const auto [stop, error] = std::from_chars(digits.data(), end, number);
        if (error != std::errc{} || stop != end) {
            return filter_error(Errc::kParse, kind.name,
                                fmt::format("'{}' is no number; it is {}", digits, kind.form));
        }
        numbers.push_back(number);
    }
    return numbers;
}

Result<Filter> parse_filter(std::string_view text) {
    const std::string_view all = text;
    const std::string_view name = take_until('=', text);
    const FilterKind* const kind = kind_named(name);
    if (kind == nullptr) return unknown_filter(Errc::kParse, name);
    const bool has_numbers = !text.empty() && !text.ends_with(':');
    if (has_numbers != (kind->number_count != 0) || all.ends_with('='))
        return filter_error(Errc::kParse, name, fmt::format("it is {}, not {}", kind->form, all));
    WEIR_ASSIGN(std::vector<double> numbers,
                name == "round" ? parse_rounding(text) : parse_numbers(*kind, text));
    return Filter{std::string(name), std::move(numbers), nullptr};
}

std::string text_of(const Filter& filter) {
    const std::span<const double> numbers(filter.numbers);
    if (kind_of(filter) != nullptr && filter.name == "round" && check_numbers_of(filter)) {
        const auto form = static_cast<RoundForm>(numbers[0]);
        return fmt::format("round={}{}{}", to_string(form), numbers[1] != 0 ? "" : ":",
                           numbers[1] != 0 ? "" : kNoRests);
    }
    std::string text = filter.name;
    for (size_t i = 0; i < numbers.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? '=' : ':', numbers[i]);
    return text;
}

// Selectors.

/// Of `own` and of others alike. `for_use`: else it only answers questions, and takes no memory.
Result<std::unique_ptr<Selector>> make_one(const Filter& filter, const RowKind& rows,
                                           const Clock& clock, uint64_t seed, bool for_use) {
    using Made = std::unique_ptr<Selector>;
    const std::vector<double>& numbers = filter.numbers;
    if (filter.own != nullptr) {
        WEIR_ASSIGN(Made made, filter.own->make(rows, clock, seed));
        if (made != nullptr) return made;
        return filter_error(Errc::kInvalidArgument, filter.name, "its factory made nothing");
    }
    if (filter.name == "random-skip") return Made(std::make_unique<RandomSkip>(numbers[0], seed));
    if (filter.name == "top") {
        return Made(std::make_unique<TopByBudget>(
            clock, TopByBudget::Options{.bytes_per_second = static_cast<uint64_t>(numbers[0]),
                                        .burst_bytes = static_cast<uint64_t>(numbers[1])}));
    }
    if (filter.name == "tail") {
        Tail::Options options{.first_kept = static_cast<uint32_t>(numbers[0]), .seed = seed};
        if (!for_use) options.width = 1;
        WEIR_ASSIGN(Tail tail, Tail::make(options));
        return Made(std::make_unique<Tail>(std::move(tail)));
    }
    if (filter.name == "round") {
        return Made(
            std::make_unique<Round>(Round::Options{.form = static_cast<RoundForm>(numbers[0]),
                                                   .adds_rests = numbers[1] != 0,
                                                   .seed = seed}));
    }
    return Made(std::make_unique<Significant>(Significant::Options{
        .delta = numbers[0], .is_relative = filter.name == "significant-relative"}));
}

/// null: there are none. All of them have been asked whether they may be together, on such rows.
Result<std::unique_ptr<Selector>> make_all(std::span<const Filter> filters, const RowKind& rows,
                                           const Clock& clock, uint64_t seed, bool for_use) {
    std::vector<std::unique_ptr<Selector>> selectors;
    Random seeds(seed);
    for (const Filter& filter : filters) {
        if (!is_selector(filter)) continue;
        WEIR_ASSIGN(auto selector, make_one(filter, rows, clock, seeds(), for_use));
        if (selector->holds_back()) WEIR_TRY(HeldBack::check(rows));
        selectors.push_back(std::move(selector));
    }
    if (selectors.empty()) return std::unique_ptr<Selector>();
    auto all = selectors.size() == 1 ? std::move(selectors.front())
                                     : std::make_unique<SelectorChain>(std::move(selectors));
    WEIR_TRY(all->check(rows));
    return all;
}

}  // namespace

Filters::Filters(std::initializer_list<Filter> filters) : Filters(std::vector(filters)) {}

Filters::Filters(std::vector<Filter> filters) : filters_(std::move(filters)) {
    std::ranges::stable_sort(filters_, {}, [](const Filter& filter) {
        return is_selector(filter) ? kFilterKinds : kind_of(filter);
    });
}

Result<Filters> Filters::parse(std::string_view text) {
    if (text == kNoFilters) return Filters();
    std::vector<Filter> filters;
    for (bool more = true; more;) {
        const size_t size = text.size();
        const std::string_view one = take_until(',', text);
        more = one.size() != size;
        WEIR_ASSIGN(Filter filter, parse_filter(one));
        filters.push_back(std::move(filter));
    }
    Filters parsed(std::move(filters));
    WEIR_TRY(parsed.check_numbers());
    return parsed;
}

std::string Filters::text() const {
    if (empty()) return std::string(kNoFilters);
    std::string text;
    for (const Filter& filter : filters_)
        text += fmt::format("{}{}", text.empty() ? "" : ",", text_of(filter));
    return text;
}

Codecs Filters::codecs() const noexcept {
    unsigned codecs = 0;
    for (const Filter& filter : filters_)
        codecs |= codecs_of(filter);
    return static_cast<Codecs>(codecs);
}

bool Filters::is_automatic() const noexcept {
    return std::ranges::any_of(filters_, [](const Filter& filter) {
        return filter.own == nullptr && filter.name == "auto";
    });
}

bool Filters::has_selectors() const noexcept {
    return !filters_.empty() && is_selector(filters_.front());
}

Filters Filters::without_selectors() const {
    std::vector<Filter> codecs;
    std::ranges::copy_if(filters_, std::back_inserter(codecs), std::not_fn(is_selector));
    return Filters(std::move(codecs));
}

Status Filters::check_numbers() const {
    unsigned codecs = 0;
    for (size_t i = 0; i < filters_.size(); ++i) {
        const Filter& filter = filters_[i];
        WEIR_TRY(check_numbers_of(filter));
        const unsigned its = codecs_of(filter);
        const bool is_twice =
            (codecs & its) != 0 || std::ranges::count(filters_, filter.name, &Filter::name) > 1;
        if (is_twice) {
            return filter_error(Errc::kInvalidArgument, filter.name,
                                "it is there twice (auto is zeros, integers and compress)");
        }
        codecs |= its;
        if (is_automatic() && has_table_codec()) {
            return filter_error(Errc::kInvalidArgument, "table-codec",
                                "auto does not use it: name zeros, integers and compress in the "
                                "place of auto");
        }
        const bool is_last = i + 1 == filters_.size() || !is_selector(filters_[i + 1]);
        if (filter.own == nullptr && filter.name == "round" && !is_last) {
            return filter_error(Errc::kInvalidArgument, filter.name,
                                "it must be the last selector: those behind it would change what "
                                "it rounded");
        }
    }
    return {};
}

Status Filters::check(const RowKind& rows) const {
    const SteadyClock clock;
    WEIR_TRY(check_numbers());
    WEIR_TRY(make_all(filters_, rows, clock, 0, false));
    return {};
}

Result<std::unique_ptr<Selector>> Filters::make_selector(const RowKind& rows, const Clock& clock,
                                                         uint64_t seed) const {
    WEIR_TRY(check_numbers());
    return make_all(filters_, rows, clock, seed, true);
}

}  // namespace weir

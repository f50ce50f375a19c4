// SPDX-License-Identifier: Apache-2.0
#include "lib/data/libsvm_parser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>

namespace weir::data {

namespace {

constexpr std::string_view kWantLabel = "a label: -1, 0 or +1";
constexpr std::string_view kWantMappedLabel = "a label of the label map";
constexpr std::string_view kWantClass = "a label of one of the classes";
constexpr std::string_view kWantNumber = "a label: a number";
constexpr std::string_view kWantSpace = "a space before the next feature";
constexpr std::string_view kWantFeature = "a feature number from 0 to 2^64 - 1";
constexpr std::string_view kWantColon = "a ':' after the feature number";
constexpr std::string_view kWantValue = "a finite decimal number within the range of float32";
constexpr std::string_view kWantOnce = "every feature only once in a line";

bool is_digit(char c) noexcept {
    return static_cast<unsigned char>(c - '0') < 10;
}

bool is_blank(char c) noexcept {
    return c == ' ' || c == '\t';
}

/// A place in one line. At the end of the line `*at` must not be read.
struct Cursor {
    const char* at;
    const char* end;
    std::string_view expected = {};  // set when the line is bad; `at` is the place then

    [[nodiscard]] bool done() const noexcept { return at == end; }

    bool fail(const char* place, std::string_view wanted) noexcept {
        at = place;
        expected = wanted;
        return false;
    }

    void skip_blanks() noexcept {
        while (at != end && is_blank(*at))
            ++at;
    }
};

constexpr std::array<double, 23> kPowersOfTen = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

constexpr std::array<uint64_t, 9> kWholePowersOfTen = {
    1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

/// The leading digits of 8 bytes of text: how many there are, and their number.
struct Digits {
    uint32_t count = 0;
    uint64_t number = 0;
};

/// Works on all 8 bytes at once. The first byte of the text is the lowest of `text`.
Digits digits_of(uint64_t text) noexcept {
    const uint64_t digits = text ^ 0x3030303030303030;  // turns '0'..'9' into 0..9
    const uint64_t others = (digits | (digits + 0x7676767676767676)) & 0x8080808080808080;
    const uint32_t count = others == 0 ? 8 : static_cast<uint32_t>(std::countr_zero(others)) / 8;
    if (count == 0) return {};
    uint64_t sum = digits << (64 - 8 * count);  // pads with zeros in front
    sum = sum * 10 + (sum >> 8);                // every other byte: two digits
    sum = ((sum & 0x000000ff000000ff) * 0x000f424000000064 +
           (sum >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >>
          32;
    return {count, sum};
}

/// Reads digits, up to 19 in all with the `digit_count` that came before, and returns their
/// number. The caller handles further digits.
uint32_t read_digits(Cursor& cursor, uint64_t& number, uint32_t digit_count) noexcept {
    while (cursor.end - cursor.at >= 8 && digit_count + 8 <= 19) {
        uint64_t text = 0;
        std::memcpy(&text, cursor.at, sizeof text);
        const Digits digits = digits_of(text);
        number = number * kWholePowersOfTen[digits.count] + digits.number;
        cursor.at += digits.count;
        digit_count += digits.count;
        if (digits.count < 8) return digit_count;
    }
    while (!cursor.done() && is_digit(*cursor.at) && digit_count < 19) {
        number = number * 10 + static_cast<uint64_t>(*cursor.at - '0');
        ++cursor.at;
        ++digit_count;
    }
    return digit_count;
}

/// Whether a number outside the range of a double is too small, and not too large. The decimal
/// place of its first digit that is not 0 decides.
bool is_too_small(const char* at, const char* end) noexcept {
    int64_t place = 0;
    bool behind_point = false;
    bool found = false;
    for (; at != end && *at != 'e' && *at != 'E'; ++at) {
        found = found || (*at >= '1' && *at <= '9');
        if (*at == '.') {
            behind_point = true;
        } else if (is_digit(*at)) {
            place += !behind_point && found ? 1 : 0;
            place -= behind_point && !found ? 1 : 0;
        }
    }
    if (at == end) return place < 0;
    const bool negative = ++at != end && *at == '-';
    int64_t exponent = 0;
    constexpr int64_t kExponentMax = int64_t{1} << 50;  // no line has so many digits
    for (; at != end && exponent < kExponentMax; ++at) {
        if (is_digit(*at)) exponent = exponent * 10 + (*at - '0');
    }
    return place + (negative ? -exponent : exponent) < 0;
}

bool parse_value_slowly(Cursor& cursor, const char* begin, float& value) noexcept {
    const char* digits = begin;
    if (digits != cursor.end && (*digits == '+' || *digits == '-')) ++digits;
    if (digits == cursor.end || !(is_digit(*digits) || *digits == '.')) {
        return cursor.fail(begin, kWantValue);  // "inf" and "nan" too
    }
    double number = 0;
    const auto [rest, problem] =
        std::from_chars(*begin == '+' ? begin + 1 : begin, cursor.end, number);
    if (problem == std::errc::result_out_of_range && is_too_small(begin, rest)) {
        number = 0;  // as a number that is too small for float32
    } else if (problem != std::errc{} || std::abs(number) > std::numeric_limits<float>::max()) {
        return cursor.fail(begin, kWantValue);
    }
    value = static_cast<float>(number);
    cursor.at = rest;
    return true;
}

/// Parses a number of at most 19 digits, up to 2^53 without the point and without exponent,
/// exactly as strtod() would. Other numbers go to parse_value_slowly().
bool parse_value(Cursor& cursor, float& value) noexcept {
    const char* begin = cursor.at;
    if (!cursor.done() && is_digit(*begin) && (begin + 1 == cursor.end || is_blank(begin[1]))) {
        value = static_cast<float>(*begin - '0');  // most often 1
        ++cursor.at;
        return true;
    }
    bool negative = false;
    if (!cursor.done() && (*cursor.at == '-' || *cursor.at == '+')) {
        negative = *cursor.at == '-';
        ++cursor.at;
    }
    uint64_t number = 0;
    uint32_t digit_count = read_digits(cursor, number, 0);
    uint32_t fraction_count = 0;
    if (!cursor.done() && *cursor.at == '.') {
        ++cursor.at;
        fraction_count = read_digits(cursor, number, digit_count) - digit_count;
        digit_count += fraction_count;
    }
    const bool ended = cursor.done() || is_blank(*cursor.at);
    if (digit_count == 0 || !ended || number > (uint64_t{1} << 53)) {
        return parse_value_slowly(cursor, begin, value);
    }
    const double magnitude = static_cast<double>(number) / kPowersOfTen[fraction_count];
    value = static_cast<float>(negative ? -magnitude : magnitude);
    return true;
}

bool parse_key(Cursor& cursor, uint64_t& key) noexcept {
    const char* begin = cursor.at;
    key = 0;
    const uint32_t digit_count = read_digits(cursor, key, 0);
    if (digit_count == 0) return cursor.fail(begin, kWantFeature);
    while (!cursor.done() && is_digit(*cursor.at)) {  // the 20th digit, and leading zeros
        const auto digit = static_cast<uint64_t>(*cursor.at - '0');
        if (__builtin_mul_overflow(key, uint64_t{10}, &key) ||
            __builtin_add_overflow(key, digit, &key)) {
            return cursor.fail(begin, kWantFeature);
        }
        ++cursor.at;
    }
    if (cursor.done() || *cursor.at != ':') return cursor.fail(cursor.at, kWantColon);
    ++cursor.at;
    return true;
}

/// The label of one line.
struct Label {
    float value = 0;
    float number = std::numeric_limits<float>::quiet_NaN();  ///< as ParsedLines::numbers
    int8_t which = 0;                                        ///< -1 or +1; 0: no class
    bool there = true;  ///< false: the line begins with its first feature
};

/// On failure label.there is true for a number that stands for no class, and false for text that
/// is not a number.
bool parse_label(Cursor& cursor, const LibsvmFormat& format, Label& label) noexcept {
    const char* begin = cursor.at;
    const std::string_view wanted = format.classes.count() > 0   ? kWantClass
                                    : format.any_label           ? kWantNumber
                                    : format.labels.is_default() ? kWantLabel
                                                                 : kWantMappedLabel;
    label.there = false;
    if (!parse_value(cursor, label.value)) return cursor.fail(begin, wanted);
    if (!cursor.done() && *cursor.at == ':' && format.label_optional) {
        cursor.at = begin;
        return true;
    }
    if (!cursor.done() && !is_blank(*cursor.at)) return cursor.fail(begin, wanted);
    label.there = true;
    label.number = label.value;
    if (format.classes.count() > 0) {
        const std::optional<uint32_t> place = format.classes.place_of(label.value);
        label.number = static_cast<float>(place.value_or(0));
        return place || cursor.fail(begin, wanted);
    }
    if (format.any_label) return true;
    label.which = format.labels.class_of(label.value);
    return label.which != 0 || cursor.fail(begin, wanted);
}

/// Fails at the first feature that the line has already named. The line is known to have one.
bool fail_at_repeat(Cursor& cursor, const char* begin) {
    std::unordered_set<uint64_t> seen;
    Cursor again{begin, cursor.end};
    while (true) {
        again.skip_blanks();
        const char* place = again.at;
        uint64_t key = 0;
        float value = 0;
        if (again.done() || !parse_key(again, key) || !parse_value(again, value)) break;
        if (!seen.insert(key).second) return cursor.fail(place, kWantOnce);
    }
    return cursor.fail(begin, kWantOnce);
}

bool has_repeat(const uint64_t* begin, const uint64_t* end) {
    std::vector<uint64_t> sorted(begin, end);
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

/// Parses the features of a line and appends them to lines.keys and lines.values. `spaced`: a
/// label stands before the first feature, so a blank must separate them.
bool parse_features(Cursor& cursor, ParsedLines& lines, bool spaced) {
    const char* begin = cursor.at;
    const uint64_t first = lines.keys.size();
    uint64_t last_key = 0;
    bool rising = true;
    bool any = false;
    bool zeros = false;
    while (true) {
        const char* before = cursor.at;
        cursor.skip_blanks();
        if (cursor.done()) break;
        if (before == cursor.at && spaced) return cursor.fail(cursor.at, kWantSpace);
        spaced = true;
        uint64_t key = 0;
        float value = 0;
        if (!parse_key(cursor, key) || !parse_value(cursor, value)) return false;
        rising = rising && (!any || key > last_key);
        any = true;
        last_key = key;
        lines.all_ones = lines.all_ones && (value == 1 || value == 0);
        zeros = zeros || value == 0;
        lines.keys.push_back(key);
        lines.values.push_back(value);
    }
    if (!rising && has_repeat(lines.keys.data() + first, lines.keys.data() + lines.keys.size())) {
        return fail_at_repeat(cursor, begin);
    }
    if (zeros) {
        uint64_t kept = first;
        for (uint64_t i = first; i < lines.keys.size(); ++i) {
            if (lines.values[i] == 0) continue;
            lines.keys[kept] = lines.keys[i];
            lines.values[kept++] = lines.values[i];
        }
        lines.keys.resize(kept);
        lines.values.resize(kept);
    }
    return true;
}

std::string shown(const char* at, const char* end) {
    if (at == end) return "the end of the line";
    std::string text = "'";
    constexpr int kShownCount = 20;
    int count = 0;
    for (; at != end && count < kShownCount; ++at, ++count) {
        const auto byte = static_cast<unsigned char>(*at);
        if (count > 0 && is_blank(*at)) break;
        if (byte >= 0x20 && byte < 0x7f) {
            text += *at;
        } else {
            constexpr std::string_view kHex = "0123456789abcdef";
            text += "\\x";
            text += kHex[byte >> 4];
            text += kHex[byte & 15];
        }
    }
    if (count == kShownCount && at != end) text += "...";
    return text + "'";
}

}  // namespace

void ParsedLines::clear() {
    labels.clear();
    numbers.clear();
    lengths.clear();
    keys.clear();
    values.clear();
    all_ones = true;
    line_count = 0;
    label_census = {};
}

std::optional<BadLine> parse_libsvm(std::string_view text, ParsedLines& lines,
                                    const LibsvmFormat& format) {
    const char* at = text.data();
    const char* const text_end = at + text.size();
    for (uint64_t line_index = 0; at != text_end; ++line_index) {
        const char* begin = at;
        const auto* newline =
            static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(text_end - at)));
        const char* end = newline == nullptr ? text_end : newline;
        at = newline == nullptr ? text_end : newline + 1;
        ++lines.line_count;
        if (end != begin && end[-1] == '\r') --end;
        if (const void* hash = std::memchr(begin, '#', static_cast<size_t>(end - begin))) {
            end = static_cast<const char*>(hash);
        }
        Cursor cursor{begin, end};
        cursor.skip_blanks();
        if (cursor.done()) continue;
        const uint64_t first = lines.keys.size();
        const bool all_ones = lines.all_ones;
        Label label;
        const bool labelled = parse_label(cursor, format, label);
        if (!labelled || !parse_features(cursor, lines, label.there)) {
            const bool unknown_label = !labelled && label.there;
            if (unknown_label) lines.label_census.add(label.value);
            lines.keys.resize(first);
            lines.values.resize(first);
            lines.all_ones = all_ones;
            return BadLine{line_index,
                           static_cast<uint64_t>(at - text.data()),
                           static_cast<uint64_t>(cursor.at - begin) + 1,
                           cursor.expected,
                           shown(cursor.at, end),
                           unknown_label};
        }
        if (label.there) lines.label_census.add(label.value);
        if (format.any_label) lines.numbers.push_back(label.number);
        lines.labels.push_back(label.which);
        lines.lengths.push_back(static_cast<uint32_t>(lines.keys.size() - first));
    }
    return std::nullopt;
}

}  // namespace weir::data

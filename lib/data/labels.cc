// SPDX-License-Identifier: Apache-2.0
#include "lib/data/labels.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/core.h>

#include "lib/data/input_file.h"

namespace weir::data {
namespace {

/// A value is a class of its own if at least kClassLineCount lines, and at least one line in
/// kClassLineShare, have it.
constexpr uint64_t kClassLineCount = 10;
constexpr uint64_t kClassLineShare = 20;

/// Marks the count of further values in encode(). It is a NaN, which no label is.
constexpr uint32_t kOthersBits = 0x7fc00000;

std::optional<float> number(std::string_view text) {
    if (text.starts_with('+')) text.remove_prefix(1);
    float value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

/// The values in rising order, at most `most` of them: "1, 2 and 3", "0, 1, 2, 3 and 6 more".
std::string listed(std::vector<float> values, size_t most) {
    std::sort(values.begin(), values.end());
    const size_t shown = std::min(values.size(), most);
    std::string text;
    for (size_t i = 0; i < shown; ++i) {
        const bool last = i + 1 == shown && shown == values.size();
        text += i == 0 ? "" : last ? " and " : ", ";
        text += label_text(values[i]);
    }
    if (shown < values.size()) text += fmt::format(" and {} more", values.size() - shown);
    return text;
}

/// A map for these values, as an example for the user. Of two values the smaller stands for -1
/// and the greater for +1; of more than two the smallest stands for +1 and the others for -1.
std::string proposal(std::vector<float> values) {
    std::sort(values.begin(), values.end());
    constexpr size_t kShown = 4;
    std::string text;
    for (size_t i = 0; i < values.size() && i < kShown; ++i) {
        const bool positive = values.size() == 2 ? i == 1 : i == 0;
        text += fmt::format("{}{}:{}", i == 0 ? "" : ",", label_text(values[i]),
                            positive ? "+1" : "-1");
    }
    return values.size() > kShown ? text + ",..." : text;
}

}  // namespace

std::string label_text(float value) {
    return fmt::format("{}", value == 0 ? 0.0F : value);
}

Result<LabelMap> LabelMap::parse(std::string_view text) {
    const auto refused = [&](const std::string& why) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("label map {}: {}; write it like 1:-1,2:+1", text, why));
    };
    LabelMap map;
    for (std::string_view rest = text; !rest.empty() || map.entries_.empty();) {
        const std::string_view part = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
        const size_t colon = std::min(part.find(':'), part.size());
        const std::optional<float> value = number(part.substr(0, colon));
        const std::optional<float> which = number(part.substr(std::min(part.size(), colon + 1)));
        if (!value) return refused(fmt::format("'{}' does not begin with a label", part));
        if (!which || (*which != 1 && *which != -1))
            return refused(fmt::format("'{}' does not end with :-1 or :+1", part));
        for (const Entry& entry : map.entries_) {
            if (entry.value == *value)
                return refused(fmt::format("the label {} is given twice", label_text(*value)));
        }
        map.entries_.push_back({*value, static_cast<int8_t>(*which)});
    }
    for (const int8_t which : {int8_t{-1}, int8_t{1}}) {
        const auto has = [which](const Entry& entry) { return entry.which == which; };
        if (std::none_of(map.entries_.begin(), map.entries_.end(), has))
            return refused(fmt::format("no label stands for {:+}", which));
    }
    return map;
}

int8_t LabelMap::class_of(float value) const noexcept {
    if (entries_.empty()) {
        if (value == 1) return 1;
        return value == 0 || value == -1 ? int8_t{-1} : int8_t{0};
    }
    for (const Entry& entry : entries_) {
        if (entry.value == value) return entry.which;
    }
    return 0;
}

std::string LabelMap::value_of(int8_t which) const {
    for (const Entry& entry : entries_) {
        if (entry.which == which) return label_text(entry.value);
    }
    return which > 0 ? "+1" : "-1";
}

std::string LabelMap::text() const {
    std::string text;
    for (const Entry& entry : entries_)
        text +=
            fmt::format("{}{}:{:+}", text.empty() ? "" : ",", label_text(entry.value), entry.which);
    return text;
}

void LabelCensus::add(float value, uint64_t line_count) noexcept {
    for (uint32_t i = 0; i < entry_count_; ++i) {
        if (entries_[i].value != value) continue;
        entries_[i].line_count += line_count;
        return;
    }
    if (entry_count_ == kValueCountMax) {
        other_count_ += line_count;
    } else {
        entries_[entry_count_++] = {value, line_count};
    }
}

void LabelCensus::add(const LabelCensus& other) noexcept {
    for (const Entry& entry : other.entries())
        add(entry.value, entry.line_count);
    other_count_ += other.other_count_;
}

uint64_t LabelCensus::line_count() const noexcept {
    uint64_t count = other_count_;
    for (const Entry& entry : entries())
        count += entry.line_count;
    return count;
}

std::vector<uint64_t> LabelCensus::encode() const {
    std::vector<uint64_t> words;
    for (const Entry& entry : entries()) {
        words.push_back(std::bit_cast<uint32_t>(entry.value));
        words.push_back(entry.line_count);
    }
    words.push_back(kOthersBits);
    words.push_back(other_count_);
    return words;
}

void LabelCensus::add_encoded(std::span<const uint64_t> words) noexcept {
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
        const auto bits = static_cast<uint32_t>(words[i]);
        if (bits == kOthersBits) {
            other_count_ += words[i + 1];
        } else {
            add(std::bit_cast<float>(bits), words[i + 1]);
        }
    }
}

Status check_labels(const LabelCensus& census, const LabelMap& labels, const std::string& where,
                    const OptionNames& names) {
    constexpr size_t kShown = 8;
    const uint64_t line_count = census.line_count();
    std::vector<float> known;
    std::vector<float> unknown;
    bool is_class = false;
    bool has[2] = {false, false};
    for (const LabelCensus::Entry& entry : census.entries()) {
        const int8_t which = labels.class_of(entry.value);
        (which == 0 ? unknown : known).push_back(entry.value);
        if (which != 0) has[which > 0 ? 1 : 0] = true;
        is_class |= which == 0 && labels.is_default() && entry.line_count >= kClassLineCount &&
                    entry.line_count * kClassLineShare >= line_count;
    }
    if (unknown.empty() || (has[0] && has[1] && !is_class)) return {};
    std::vector<float> all = known;
    all.insert(all.end(), unknown.begin(), unknown.end());
    if (!labels.is_default()) {
        return Error(
            Errc::kParse,
            fmt::format("{}: the labels are {}, but {} {} has no class for {}; add them", where,
                        listed(all, kShown), names.labels, labels.text(), listed(unknown, kShown)));
    }
    if (all.size() == 1) {
        return Error(Errc::kParse,
                     fmt::format("{}: all labels are {}, but only -1, 0 and +1 are understood; say "
                                 "which class it stands for with {}, like 1:-1,2:+1",
                                 where, label_text(all[0]), names.labels));
    }
    return Error(
        Errc::kParse,
        fmt::format("{}: the labels are {}, but only -1, 0 and +1 are understood; say which class "
                    "each stands for, like {} {}{}",
                    where, listed(all, kShown), names.labels, proposal(all),
                    all.size() > 2
                        ? " (a model has two classes: several labels may stand for one "
                          "class, and labels that are not in the map are bad lines; a softmax has "
                          "as many as there are labels)"
                        : ""));
}

std::string files_text(std::span<const std::string> paths) {
    if (paths.empty()) return "no files";
    std::string first = input_name(paths[0]);
    if (paths.size() == 1) return first;
    return fmt::format("{} and {} more file{}", first, paths.size() - 1,
                       paths.size() == 2 ? "" : "s");
}

std::string label_warning(const LabelCensus& census, const LabelMap& labels,
                          const std::string& where) {
    uint64_t counts[2] = {0, 0};
    bool minus_one = false;
    bool zero = false;
    for (const LabelCensus::Entry& entry : census.entries()) {
        const int8_t which = labels.class_of(entry.value);
        if (which != 0) counts[which > 0 ? 1 : 0] += entry.line_count;
        minus_one |= entry.value == -1;
        zero |= entry.value == 0;
    }
    if (counts[0] + counts[1] > 0 && (counts[0] == 0 || counts[1] == 0)) {
        return fmt::format(
            "{}: all {} examples are of the class {}: a model needs examples of both classes",
            where, counts[0] + counts[1], counts[0] == 0 ? "+1" : "-1");
    }
    if (labels.is_default() && minus_one && zero) {
        return fmt::format(
            "{}: the labels are -1, 0 and +1, and both -1 and 0 stand for the class "
            "-1; a label map can leave one of them out",
            where);
    }
    return "";
}

}  // namespace weir::data

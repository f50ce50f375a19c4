// SPDX-License-Identifier: Apache-2.0
#include "lib/data/class_labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "lib/data/labels.h"

namespace weir::data {
namespace {

/// As text.
template <class Number>
std::optional<Number> whole(std::string_view text) {
    Number number = 0;
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

/// "3-7" as its first and last label. A minus sign that begins a number makes no range.
std::optional<std::pair<int32_t, int32_t>> range_of(std::string_view text) {
    const size_t minus = text.find('-', 1);
    if (minus == std::string_view::npos) return std::nullopt;
    const auto first = whole<int32_t>(text.substr(0, minus));
    const auto last = whole<int32_t>(text.substr(minus + 1));
    const bool is_range = first && last && *first <= *last &&
                          int64_t{*last} - *first < int64_t{ClassLabels::kCountMax};
    if (!is_range) return std::nullopt;
    return std::pair(*first, *last);
}

}  // namespace

Result<ClassLabels> ClassLabels::parse(std::string_view text) {
    const auto refused = [&](const std::string& why) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("classes {}: {}; name their labels like 1-7 or 0,1,5", text, why));
    };
    ClassLabels classes;
    std::vector<float>& labels = classes.labels_;
    for (std::string_view rest = text; labels.size() <= kCountMax;) {
        const size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view word = rest.substr(0, comma);
        const std::optional<float> number = whole<float>(word);
        if (const auto range = range_of(word)) {
            for (int32_t label = range->first; label <= range->second; ++label)
                labels.push_back(static_cast<float>(label));
        } else if (number && std::isfinite(*number)) {
            labels.push_back(*number);
        } else {
            return refused(fmt::format("'{}' is neither a number nor a range of at most {} labels",
                                       word, kCountMax));
        }
        if (comma == rest.size()) break;
        rest.remove_prefix(comma + 1);
    }
    if (labels.size() < 2) return refused("there must be two at least");
    if (labels.size() > kCountMax) return refused(fmt::format("there may be {}", kCountMax));
    for (uint32_t place = 0; place < labels.size(); ++place)
        classes.places_.push_back({labels[place], place});
    std::ranges::sort(classes.places_, {}, &Place::label);
    const auto twice = std::ranges::adjacent_find(classes.places_, {}, &Place::label);
    if (twice != classes.places_.end())
        return refused(fmt::format("the label {} is given twice", label_text(twice->label)));
    return classes;
}

std::optional<uint32_t> ClassLabels::place_of(float label) const noexcept {
    const auto found = std::ranges::lower_bound(places_, label, {}, &Place::label);
    if (found == places_.end() || found->label != label) return std::nullopt;
    return found->place;
}

std::string ClassLabels::text() const {
    constexpr float kRangesBelow = 1e6F;
    std::string text;
    for (size_t i = 0; i < labels_.size();) {
        size_t end = i + 1;
        const bool is_whole =
            labels_[i] == std::floor(labels_[i]) && std::abs(labels_[i]) < kRangesBelow;
        while (is_whole && end < labels_.size() && labels_[end] == labels_[end - 1] + 1)
            ++end;
        if (end - i < 3) end = i + 1;
        if (!text.empty()) text += ',';
        text += label_text(labels_[i]);
        if (end - i > 1) text += '-' + label_text(labels_[end - 1]);
        i = end;
    }
    return text;
}

}  // namespace weir::data

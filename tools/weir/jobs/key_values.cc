// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/key_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/key/narrow_values.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

std::optional<uint64_t> number_in(std::string_view text) {
    uint64_t value = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Calls use(value) for each value of the row; narrow ones as floats.
template <class Use>
void for_values(const GetReply& found, size_t row, Use&& use) {
    if (is_narrow(found.type)) {
        std::vector<float> values(found.width);
        widen(found.type,
              std::span(found.values).subspan(row * found.row_bytes(), found.row_bytes()),
              values.data());
        std::ranges::for_each(values, use);
        return;
    }
    with_value_type(found.type, [&]<class T>() {
        for (uint32_t i = 0; i < found.width; ++i) {
            T value;
            std::memcpy(&value, &found.values[row * found.row_bytes() + i * sizeof(T)], sizeof(T));
            use(value);
        }
    });
}

}  // namespace

size_t unknown_count(const GetReply& found) {
    return static_cast<size_t>(std::ranges::count(found.states, KeyState::kUnknown));
}

Result<std::vector<uint64_t>> parse_keys(std::span<const std::string> words) {
    std::vector<uint64_t> keys;
    for (const std::string& word : words) {
        const size_t dash = word.find('-');
        const auto first = number_in(std::string_view(word).substr(0, dash));
        const auto last =
            dash == word.npos ? first : number_in(std::string_view(word).substr(dash + 1));
        if (!first || !last) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("key '{}': must be a number from 0 to {}, or a range of keys "
                                     "such as 10-20",
                                     word, ~uint64_t{0}));
        }
        if (*last < *first) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("key range '{}': ends before it begins", word));
        }
        if (*last - *first >= kGetKeysMax - keys.size()) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("'{}' makes more than {} keys, the most that this command "
                                     "reads: name fewer, or export a checkpoint",
                                     word, kGetKeysMax));
        }
        for (uint64_t i = 0; i <= *last - *first; ++i)
            keys.push_back(*first + i);
    }
    return keys;
}

std::string values_text(std::string_view table, std::span<const uint64_t> keys,
                        const GetReply& found) {
    std::string text = fmt::format("table {}: {}, {} for each key\n", table, to_string(found.type),
                                   counted(found.width, "value"));
    size_t columns = 0;
    for (const uint64_t key : keys)
        columns = std::max(columns, std::to_string(key).size());
    for (size_t i = 0; i < keys.size(); ++i) {
        text += fmt::format("{:>{}} ", keys[i], columns);
        if (found.states[i] == KeyState::kUnknown) {
            text += " no answer\n";
            continue;
        }
        for_values(found, i, [&](auto value) { text += fmt::format(" {}", value); });
        text += found.states[i] == KeyState::kInitial ? "  (not there: initial value)\n" : "\n";
    }
    return text;
}

std::string values_json(std::string_view table, std::span<const uint64_t> keys,
                        const GetReply& found) {
    Json list = Json::array();
    for (size_t i = 0; i < keys.size(); ++i) {
        const bool is_known = found.states[i] != KeyState::kUnknown;
        Json values;  // null
        if (is_known) values = Json::array();
        if (is_known) {
            for_values(found, i, [&](auto value) {
                if constexpr (std::is_same_v<decltype(value), float>) {
                    // The shortest number that is this float, not this float as a double.
                    values.push_back(std::isfinite(value)
                                         ? Json(std::stod(fmt::format("{}", value)))
                                         : Json(fmt::format("{}", value)));
                } else if constexpr (std::is_same_v<decltype(value), double>) {
                    values.push_back(std::isfinite(value) ? Json(value)
                                                          : Json(fmt::format("{}", value)));
                } else {
                    values.push_back(value);
                }
            });
        }
        list.push_back({{"key", keys[i]},
                        {"there", is_known ? Json(found.states[i] == KeyState::kThere) : Json()},
                        {"values", std::move(values)}});
    }
    Json all = {{"table", table},       {"type", to_string(found.type)},
                {"width", found.width}, {"unanswered", unknown_count(found)},
                {"why", found.why},     {"keys", std::move(list)}};
    return json_text(all);
}

}  // namespace weir::tools

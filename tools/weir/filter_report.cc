// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/filter_report.h"

#include <array>
#include <span>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace weir::tools {
namespace {

struct Named {
    const char* name;
    FilterBytes FilterTraffic::*bytes;
};

constexpr std::array<Named, 4> kPushed = {{{"selectors", &FilterTraffic::selectors},
                                           {"zeros", &FilterTraffic::zeros},
                                           {"integers", &FilterTraffic::integers},
                                           {"compress", &FilterTraffic::compress}}};
constexpr std::array<Named, 3> kPulled = {{{"zeros", &FilterTraffic::pulled_zeros},
                                           {"integers", &FilterTraffic::pulled_integers},
                                           {"compress", &FilterTraffic::pulled_compress}}};
static_assert(kPushed.size() + kPulled.size() + 1 == kFilterBytes.size());

nlohmann::json json_of(std::span<const Named> named, const FilterTraffic& filters) {
    nlohmann::json json = nlohmann::json::object();
    for (const Named& one : named)
        json[one.name] = filter_bytes_json(filters.*one.bytes);
    return json;
}

/// Of the filters that took something away; empty: none did.
std::string text_of(const char* direction, std::span<const Named> named,
                    const FilterTraffic& filters) {
    std::string text;
    for (const Named& one : named) {
        const FilterBytes& bytes = filters.*one.bytes;
        if (bytes.before <= bytes.after) continue;
        const double share =
            static_cast<double>(bytes.before - bytes.after) / static_cast<double>(bytes.before);
        text += fmt::format("{}{} {:.2g} %", text.empty() ? "" : ", ", one.name, 100 * share);
    }
    return text.empty() ? text : fmt::format("; {}: {} less", direction, text);
}

}  // namespace

nlohmann::json filter_bytes_json(const FilterBytes& bytes) {
    return {{"before", bytes.before}, {"after", bytes.after}};
}

nlohmann::json filters_json(const FilterTraffic& filters) {
    return {{"pushed", json_of(kPushed, filters)},
            {"pulled", json_of(kPulled, filters)},
            {"rows_pushed", filters.rows_pushed},
            {"rows_kept", filters.rows_kept}};
}

std::string filters_text(const FilterTraffic& filters) {
    return text_of("pushes", kPushed, filters) + text_of("pulls", kPulled, filters);
}

}  // namespace weir::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_traffic.h"

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

nlohmann::json to_json(const FilterBytes& bytes) {
    return {{"before", bytes.before}, {"after", bytes.after}};
}

nlohmann::json to_json(std::span<const Named> named, const FilterTraffic& filters) {
    nlohmann::json json = nlohmann::json::object();
    for (const Named& one : named)
        json[one.name] = to_json(filters.*one.bytes);
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

nlohmann::json traffic_json(const apps::LrTraffic& traffic) {
    const FilterTraffic& filters = traffic.filters;
    return {{"server_bytes", traffic.server_bytes},    {"worker_bytes", traffic.worker_bytes},
            {"key_lists", to_json(filters.key_cache)}, {"pushed", to_json(kPushed, filters)},
            {"pulled", to_json(kPulled, filters)},     {"rows_pushed", filters.rows_pushed},
            {"rows_kept", filters.rows_kept},          {"rows_held", filters.rows_held}};
}

std::string traffic_text(const apps::LrTraffic& traffic) {
    return fmt::format("{:.4g} MB sent by workers, {:.4g} MB by servers{}{}",
                       static_cast<double>(traffic.worker_bytes) / 1e6,
                       static_cast<double>(traffic.server_bytes) / 1e6,
                       text_of("pushes", kPushed, traffic.filters),
                       text_of("pulls", kPulled, traffic.filters));
}

}  // namespace weir::tools

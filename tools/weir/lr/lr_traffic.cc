// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_traffic.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "tools/weir/filter_report.h"

namespace weir::tools {

nlohmann::json traffic_json(const TrainingTraffic& traffic) {
    nlohmann::json json = filters_json(traffic.filters);
    json["server_bytes"] = traffic.server_bytes;
    json["worker_bytes"] = traffic.worker_bytes;
    json["key_lists"] = filter_bytes_json(traffic.filters.key_cache);
    json["rows_held"] = traffic.filters.rows_held;
    return json;
}

std::string traffic_text(const TrainingTraffic& traffic) {
    return fmt::format("{:.4g} MB sent by workers, {:.4g} MB by servers{}",
                       static_cast<double>(traffic.worker_bytes) / 1e6,
                       static_cast<double>(traffic.server_bytes) / 1e6,
                       filters_text(traffic.filters));
}

}  // namespace weir::tools

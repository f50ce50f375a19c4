// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Accuracy, AUC and log loss as text and as JSON, the same for training and prediction.

#include <optional>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/apps/metrics.h"

namespace weir::tools {

/// "accuracy 0.8490  AUC 0.9052  log loss 0.3229  (32561 examples)"
[[nodiscard]] inline std::string metrics_text(const apps::Metrics& m) {
    return fmt::format("accuracy {:.4f}  AUC {}  log loss {:.4f}  ({} examples)", m.accuracy,
                       m.auc ? fmt::format("{:.4f}", *m.auc) : "-", m.log_loss, m.example_count);
}

/// Sets PREFIXaccuracy, PREFIXauc and PREFIXlog_loss; null for a metric that does not exist.
inline void add_metrics(nlohmann::json& json, const std::string& prefix,
                        const std::optional<apps::Metrics>& m) {
    json[prefix + "accuracy"] = m ? nlohmann::json(m->accuracy) : nlohmann::json();
    json[prefix + "auc"] = m && m->auc ? nlohmann::json(*m->auc) : nlohmann::json();
    json[prefix + "log_loss"] = m ? nlohmann::json(m->log_loss) : nlohmann::json();
}

}  // namespace weir::tools

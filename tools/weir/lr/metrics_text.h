// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Accuracy, AUC, log loss and squared error as text and as JSON, the same for training and prediction.

#include <optional>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/apps/metrics.h"

namespace weir::tools {

/// "accuracy 0.8490  AUC 0.9052  log loss 0.3229  (32561 examples)"; of a softmax without AUC, of a squared loss
/// "squared error 1.23  (32561 examples)"
[[nodiscard]] inline std::string metrics_text(const apps::Metrics& m) {
    if (m.loss == apps::Loss::kSquared)
        return fmt::format("squared error {:.4g}  ({} examples)", m.squared_error, m.example_count);
    std::string auc;
    if (m.loss == apps::Loss::kLogistic)
        auc = fmt::format("  AUC {}", m.auc ? fmt::format("{:.4f}", *m.auc) : "-");
    return fmt::format("accuracy {:.4f}{}  log loss {:.4f}  ({} examples)", m.accuracy, auc,
                       m.log_loss, m.example_count);
}

/// Sets PREFIXaccuracy, PREFIXauc, PREFIXlog_loss and PREFIXsquared_error; null for a metric that does not exist.
inline void add_metrics(nlohmann::json& json, const std::string& prefix,
                        const std::optional<apps::Metrics>& m) {
    const bool is_squared = m && m->loss == apps::Loss::kSquared;
    const auto set = [&](const char* name, bool is_there, double value) {
        json[prefix + name] = is_there ? nlohmann::json(value) : nlohmann::json();
    };
    set("accuracy", m && !is_squared, m ? m->accuracy : 0);
    set("auc", m && m->auc, m ? m->auc.value_or(0) : 0);
    set("log_loss", m && !is_squared, m ? m->log_loss : 0);
    set("squared_error", is_squared, m ? m->squared_error : 0);
}

}  // namespace weir::tools

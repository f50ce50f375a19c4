// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir predict`: writes the prediction of a model for each LIBSVM line, one per line.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/data/labels.h"

namespace weir::tools {

/// What `weir predict` writes for an example.
enum class PredictAs : uint8_t { kProbability, kLabel, kScore };

struct PredictFlags {
    std::string model;
    std::vector<std::string> files;
    std::string out = "-";
    std::string json;
    PredictAs as = PredictAs::kProbability;
    data::LabelMap labels;
    uint64_t skip_bad = 0;
};

/// Runs the command and returns the exit code.
int run_predict(const PredictFlags& flags);

}  // namespace weir::tools

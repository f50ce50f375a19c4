// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir predict`: writes the prediction of a model for each LIBSVM line, one per line.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/labels.h"

namespace weir::tools {

/// What `weir predict` writes for an example: of a softmax the probabilities or scores of all classes.
enum class PredictAs : uint8_t { kProbability, kLabel, kScore };

struct PredictFlags {
    std::string model;
    std::vector<std::string> files;
    std::string out = "-";
    std::string json;
    std::optional<PredictAs> as;  ///< none: probabilities, of the squared loss scores
    data::LabelMap labels;
    uint64_t skip_bad = 0;
};

/// Runs the command and returns the exit code.
int run_predict(const PredictFlags& flags);

}  // namespace weir::tools

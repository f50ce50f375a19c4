// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Model: the weights of a linear classifier, as a text file (`feature value`, one a line), and how
/// well it does on files it has not seen.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/libsvm_stream.h"

namespace weir::apps {

/// Weights that are not 0, by feature number. A feature that is not here has weight 0.
struct Model {
    std::vector<uint64_t> keys;   ///< rising
    std::vector<double> weights;  ///< beside keys
};

/// Writes the model; every weight with as many digits as bring exactly it back. The
/// file is there whole or not at all.
/// Errors: kIo
[[nodiscard]] Status write_model(const std::string& path, const Model& model);

/// Reads what write_model() wrote, or a person: features in any order, '#' begins a comment.
/// Errors: kNotFound, kIo; kParse with file, line and what is wrong there
[[nodiscard]] Result<Model> read_model(const std::string& path);

/// How a model does on examples.
struct Evaluation {
    data::ReadReport read;
    uint64_t correct_count = 0;
    double loss_sum = 0;
};

/// Applies the model to this part of LIBSVM files, streaming. The parts' counts may be summed.
/// Errors: of data::stream_libsvm()
[[nodiscard]] Result<Evaluation> evaluate(const Model& model, std::span<const std::string> paths,
                                          data::Part part = {}, uint64_t skip_bad = 0);

}  // namespace weir::apps

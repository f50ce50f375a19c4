// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Model: the weights of a linear classifier, as a text file (`feature value`, one a line), and how
/// well it does on files it has not seen.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/apps/metrics.h"
#include "lib/base/result.h"
#include "lib/data/feature_dictionary.h"
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

/// Reads what write_model() wrote, or a person; from standard input for `-`: features in any order, '#' begins a comment.
/// Errors: kNotFound, kIo; kParse with file, line and what is wrong there
[[nodiscard]] Result<Model> read_model(const std::string& path);

/// What a model says of examples: w.x of each, in their order. Thread: any number at a time.
class Scorer {
public:
    /// Errors: kOutOfRange for a model of more than 2^32 - 66 weights
    [[nodiscard]] static Result<Scorer> make(const Model& model);

    /// scores[i] becomes that of the i-th example; their number. Returns how many of the examples'
    /// values met a weight.
    uint64_t score(const data::ParsedLines& lines, std::vector<double>& scores) const;

private:
    explicit Scorer(const Model& model) : model_(&model) {}

    const Model* model_;
    data::FeatureDictionary dictionary_;
};

/// How a model does on examples.
struct Evaluation {
    data::ReadReport read;
    Scores scores;
    std::vector<uint64_t> keys;  ///< the different features, in order of appearance
};

/// Applies the model to this part of LIBSVM files, streaming; a score per example and the features
/// stay in memory.
/// Errors: of data::stream_libsvm(); kOutOfRange for too many different features
[[nodiscard]] Result<Evaluation> evaluate(const Model& model, std::span<const std::string> paths,
                                          const data::StreamOptions& options = {});

}  // namespace weir::apps

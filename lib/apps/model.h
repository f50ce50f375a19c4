// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Model: the weights of a linear model. Its text file has one `feature weight` per line, of a softmax with a
/// weight of each class.
/// Evaluation applies a model to other files.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/apps/loss.h"
#include "lib/apps/metrics.h"
#include "lib/base/result.h"
#include "lib/data/class_labels.h"
#include "lib/data/feature_dictionary.h"
#include "lib/data/libsvm_stream.h"

namespace weir::apps {

/// Weights that are not 0, by feature number. A feature that is not here has weight 0.
struct Model {
    std::vector<uint64_t> keys;   ///< rising
    std::vector<double> weights;  ///< width() for each of keys
    Loss loss = Loss::kLogistic;
    data::ClassLabels classes{};  ///< of a softmax

    [[nodiscard]] LossFunction function() const noexcept { return {loss, classes.count()}; }

    [[nodiscard]] size_t width() const noexcept { return function().width(); }
};

/// Writes the model. That of another loss than the logistic one begins with a line `weir-model 2 LOSS [CLASSES]`,
/// which earlier versions of Weir refuse. Every weight has as many digits as reading it back exactly needs. The file
/// is written whole or not at all.
/// Errors: kIo
[[nodiscard]] Status write_model(const std::string& path, const Model& model);

/// Reads a model file; `-` is standard input. Features may be in any order; '#' begins a comment.
/// Errors: kNotFound, kIo; kParse with the file, the line and what is wrong there
[[nodiscard]] Result<Model> read_model(const std::string& path);

/// Computes the score w.x of examples. Borrows the model. Thread: any number of threads at a
/// time.
class Scorer {
public:
    /// Errors: kOutOfRange for a model of more than 2^32 - 66 weights
    [[nodiscard]] static Result<Scorer> make(const Model& model);

    /// Resizes `scores` to the number of examples times Model::width(), and sets them, example after example. Returns how many of the examples' non-zeros have a feature of the model.
    uint64_t score(const data::ParsedLines& lines, std::vector<double>& scores) const;

private:
    explicit Scorer(const Model& model) : model_(&model) {}

    const Model* model_;
    data::FeatureDictionary dictionary_;
};

/// The scores of examples under a model.
struct Evaluation {
    data::ReadReport read;
    Scores scores;               ///< of the logistic loss
    LossSums sums;               ///< of another one
    std::vector<uint64_t> keys;  ///< the different features, in order of appearance
};

/// Applies a model to one part (options.part) of LIBSVM files, whose format is that of its loss. It streams the files:
/// only a score per example, of the logistic loss, and the different features stay in memory.
/// Errors: those of data::stream_libsvm(); kOutOfRange for too many different features
[[nodiscard]] Result<Evaluation> evaluate(const Model& model, std::span<const std::string> paths,
                                          const data::StreamOptions& options = {});

}  // namespace weir::apps

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BatchSolver: one worker of a training on examples that it holds, whichever way it goes to the optimum.

#include <cstdint>
#include <span>

#include "lib/apps/lr/lr_types.h"
#include "lib/apps/model.h"
#include "lib/base/result.h"

namespace weir::apps {

/// All workers make the same calls of solve() and model() in the same order: each is a collective.
/// Errors: those of the exchange
/// Thread: the worker's own
class BatchSolver {
public:
    virtual ~BatchSolver() = default;

    /// Trains from the weights of LrOptions::init; other weights start at 0. Call it once.
    [[nodiscard]] virtual Result<LrResult> solve() = 0;

    /// Returns the weights that are not 0, of all workers' features. One worker sends each weight
    /// to the servers; every worker that wants the model receives it once.
    ///
    /// wanted: false: this worker only contributes, and gets an empty model
    [[nodiscard]] virtual Result<Model> model(bool wanted) = 0;

    /// This worker's features, and the labels and margins (w.x) of its examples after solve().
    [[nodiscard]] virtual std::span<const uint64_t> keys() const noexcept = 0;
    [[nodiscard]] virtual std::span<const int8_t> labels() const noexcept = 0;
    [[nodiscard]] virtual std::span<const double> margins() const noexcept = 0;

    /// What these examples cost, with another loss than the logistic one.
    [[nodiscard]] virtual LossSums loss_sums() const noexcept { return {}; }

    /// Bytes of this worker's matrix, keys and labels.
    [[nodiscard]] virtual uint64_t data_bytes() const noexcept = 0;

protected:
    BatchSolver() = default;
    BatchSolver(BatchSolver&&) = default;
    BatchSolver& operator=(BatchSolver&&) = default;
};

}  // namespace weir::apps

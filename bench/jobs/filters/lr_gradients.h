// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// lr_gradients: what the solver of sparse logistic regression pushes, pass by pass.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace weir::bench {

struct LrGradients {
    std::vector<uint64_t> keys;  ///< features, sorted
    /// By pass: for each key the gradient, then the curvature. All 0: the pass has not pushed it.
    std::vector<std::vector<float>> passes;
};

/// Trains for so many passes as the only worker, without servers.
///
/// `files`: LIBSVM
/// Errors: those of data::read_libsvm() and apps::LrSolver
[[nodiscard]] Result<LrGradients> lr_gradients(std::span<const std::string> files,
                                               uint32_t pass_count);

/// The same of a click log of `weir synth` with so many examples.
/// Errors: kIo as well
[[nodiscard]] Result<LrGradients> synthetic_lr_gradients(uint64_t example_count,
                                                         uint32_t pass_count);

}  // namespace weir::bench

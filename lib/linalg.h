// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For programs that compute with what they pulled: vectors and matrices by key, and sparse matrices of examples,
/// which are read from LIBSVM files. Views of these for Eigen are in eigen.h.

#include "lib/data/labelled_rows.h"  // IWYU pragma: export
#include "lib/linalg/sparse.h"       // IWYU pragma: export
#include "lib/linalg/threads.h"      // IWYU pragma: export
#include "lib/linalg/vectors.h"      // IWYU pragma: export

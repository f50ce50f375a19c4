// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The version of Weir.

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION "0.1.0"

/// For comparisons: `#if WEIR_VERSION_NUMBER >= WEIR_MAKE_VERSION(0, 2, 0)`
#define WEIR_MAKE_VERSION(major, minor, patch) ((major)*1'000'000 + (minor)*1'000 + (patch))
#define WEIR_VERSION_NUMBER \
    WEIR_MAKE_VERSION(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH)

namespace weir {

/// WEIR_VERSION of the library that the program runs with.
[[nodiscard]] const char* version() noexcept;

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WEIR_CHECK: for what only a bug of ours can cause. On in release builds too.

#include <cstdint>

namespace weir {

/// Prints the failed condition and its place to stderr, then aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace weir

#define WEIR_CHECK(condition)                          \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::weir::check_failed(#condition, __FILE__, __LINE__))

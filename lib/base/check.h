// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WEIR_CHECK: for what only a bug of ours can cause. On in release builds too.

#include <cstdint>

namespace weir {

/// Prints the failed condition and its place to stderr, then aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

/// Says on stderr that a program used the value of a Result that has an error, with that error and,
/// if it is known (`file` is not null), where; then aborts.
[[noreturn]] void value_of_error(const char* message, const char* file, int line) noexcept;

/// The same of a program that asked for the error where there is none.
[[noreturn]] void error_of_value(const char* file, int line) noexcept;

}  // namespace weir

#define WEIR_CHECK(condition)                          \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::weir::check_failed(#condition, __FILE__, __LINE__))

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// WEIR_CHECK: tests what only a bug in Weir can make false. On in release builds too.

namespace weir {

/// Prints the failed condition and its place to stderr, then aborts.
[[noreturn, gnu::cold]] void check_failed(const char* condition, const char* file,
                                          int line) noexcept;

/// Prints to stderr that a program used the value of a Result that holds an error: the error
/// (`message`) and, unless `file` is null, the place of the use. Then aborts.
[[noreturn, gnu::cold]] void value_of_error(const char* message, const char* file,
                                            int line) noexcept;

/// Prints to stderr that a program asked for the error of a Result or Status that has none, and
/// the place. Then aborts.
[[noreturn, gnu::cold]] void error_of_value(const char* file, int line) noexcept;

}  // namespace weir

#define WEIR_CHECK(condition)                          \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::weir::check_failed(#condition, __FILE__, __LINE__))

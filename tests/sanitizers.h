// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// kHasSanitizer: whether a sanitizer with an allocator of its own watches this program: ASan or TSan.

namespace weir::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif
#else
inline constexpr bool kHasSanitizer = false;
#endif

}  // namespace weir::testing

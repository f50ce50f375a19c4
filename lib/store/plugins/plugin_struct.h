// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is checked of every struct that a plugin gives.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/core.h>

#include "lib/base/printable.h"
#include "lib/base/result.h"
#include "lib/store/plugins/weir_plugin.h"

namespace weir {

/// Of what a plugin says of its errors.
inline constexpr size_t kErrorBytesMax = 256;

/// Of a field `size`: whatever is larger is no size.
inline constexpr size_t kStructBytesMax = 4096;

/// Errors: Errc::kInvalidArgument: its `size` cannot be, or it sets fields that are not known
template <class Struct>
[[nodiscard]] Status check_struct(const Struct& given, std::string_view type) {
    if (given.size < sizeof given) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("has a struct {0} of {1} bytes, and {2} are needed: set its `size` "
                        "to sizeof(struct {0})",
                        type, given.size, sizeof given));
    }
    if (given.size > kStructBytesMax)
        return Error(Errc::kInvalidArgument,
                     fmt::format("has a struct {0} of {1} bytes: set its `size` to "
                                 "sizeof(struct {0})",
                                 type, given.size));
    const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
    const bool is_known = std::all_of(bytes + sizeof given, bytes + given.size,
                                      [](std::byte byte) { return byte == std::byte{0}; });
    if (is_known) return {};
    return Error(Errc::kInvalidArgument,
                 "sets fields that this version of Weir does not know: build the plugin with the "
                 "weir_plugin.h of this version, or use a newer Weir");
}

/// nullptr: none, or too long, or not to be shown.
[[nodiscard]] inline const char* name_or_null(const char* name) {
    if (name == nullptr || ::strnlen(name, WEIR_NAME_BYTES_MAX + 1) > WEIR_NAME_BYTES_MAX)
        return nullptr;
    return is_printable_name(name) ? name : nullptr;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Names that are safe to show: without bytes that a terminal would act on.

#include <algorithm>
#include <string_view>

namespace weir {

/// Whether a name has one byte at least, and no control characters: neither those of ASCII, nor, as
/// UTF-8, U+0080 to U+009F.
[[nodiscard]] constexpr bool is_printable_name(std::string_view name) noexcept {
    unsigned char before = 0;
    for (const char character : name) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte < 0x20 || byte == 0x7f || (before == 0xc2 && byte < 0xa0)) return false;
        before = byte;
    }
    return !name.empty();
}

}  // namespace weir

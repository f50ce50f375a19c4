// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// printable_line(): what code that is not Weir's says, safe to show.

#include <string>
#include <string_view>

#include "lib/base/printable.h"

namespace weir {

/// The first 400 bytes of a text, as one line. Unless all of them can be shown as they are, all but
/// printable ASCII is replaced.
[[nodiscard]] inline std::string printable_line(std::string_view text) {
    constexpr size_t kBytesMax = 400;
    std::string line(text.substr(0, kBytesMax));
    if (is_printable_name(line)) return line;
    for (char& character : line) {
        if (character < ' ' || character > '~') character = '?';
    }
    return line;
}

}  // namespace weir

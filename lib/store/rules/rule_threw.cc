// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_threw.h"

#include <exception>
#include <string_view>

#include "lib/base/printable.h"

namespace weir {

std::string text_of_exception() {
    constexpr size_t kBytesMax = 300;
    std::string text = "something that is no std::exception";
    try {
        throw;
    } catch (const std::exception& thrown) {
        text = std::string_view(thrown.what()).substr(0, kBytesMax);
    } catch (...) {  // NOLINT(bugprone-empty-catch): as the text says
    }
    if (is_printable_name(text)) return text;
    for (char& character : text) {
        const bool is_plain = character >= ' ' && character <= '~';
        character = is_plain ? character : '?';
    }
    return text;
}

}  // namespace weir

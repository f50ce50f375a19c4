// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_threw.h"

#include <exception>

#include "lib/base/printable_line.h"

namespace weir {

std::string text_of_exception() {
    try {
        throw;
    } catch (const std::exception& thrown) {
        return printable_line(thrown.what());
    } catch (...) {
        return "something that is no std::exception";
    }
}

}  // namespace weir

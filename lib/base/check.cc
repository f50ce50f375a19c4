// SPDX-License-Identifier: Apache-2.0
#include "lib/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weir {

void check_failed(const char* condition, const char* file, int line) noexcept {
    std::fprintf(stderr, "weir: internal error: %s is false at %s:%d; please report this\n",
                 condition, file, line);
    std::abort();
}

void value_of_error(const char* message, const char* file, int line) noexcept {
    const char* const advice = "the program did not check a weir::Result before it used the value";
    if (file == nullptr) {
        std::fprintf(stderr, "weir: %s\nweir: %s\n", message, advice);
    } else {
        std::fprintf(stderr, "weir: %s\nweir: %s, at %s:%d\n", message, advice, file, line);
    }
    std::abort();
}

void error_of_value(const char* file, int line) noexcept {
    std::fprintf(stderr,
                 "weir: the program asked for the error of a weir::Result or weir::Status that has "
                 "none, at %s:%d\n",
                 file, line);
    std::abort();
}

}  // namespace weir

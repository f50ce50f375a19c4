// SPDX-License-Identifier: Apache-2.0
#include "lib/base/version.h"

#include <string_view>

#include "weir_features.h"  // WEIR_VERSION of meson.build: the compiler refuses another one

namespace weir {

#define WEIR_TEXT_INNER(x) #x
#define WEIR_TEXT(x) WEIR_TEXT_INNER(x)
static_assert(std::string_view(WEIR_VERSION) ==
              WEIR_TEXT(WEIR_VERSION_MAJOR) "." WEIR_TEXT(WEIR_VERSION_MINOR) "." WEIR_TEXT(
                  WEIR_VERSION_PATCH));

const char* version() noexcept {
    return WEIR_VERSION;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The errors of check_view(): they name the view.

#include <cstdint>
#include <utility>

#include <fmt/core.h>

#include "lib/base/result.h"

namespace weir {

template <class... Args>
[[nodiscard]] Error wrong_view(uint64_t epoch, fmt::format_string<Args...> text, Args&&... args) {
    return Error(Errc::kInvalidArgument,
                 fmt::format("view {}: {}", epoch, fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The address of an endpoint with several transports is their addresses, joined by ';'.

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "lib/base/result.h"

namespace weir::transport {

/// Removes the part before the next ';' from the front of `address` and returns it.
[[nodiscard]] inline std::string_view take_part(std::string_view& address) noexcept {
    const size_t end = std::min(address.find(';'), address.size());
    const std::string_view part = address.substr(0, end);
    address.remove_prefix(std::min(end + 1, address.size()));
    return part;
}

/// The first part of `address` that begins with `scheme` ("tcp:"); all of it if there is none.
[[nodiscard]] inline std::string_view part_of_scheme(std::string_view address,
                                                     std::string_view scheme) noexcept {
    for (std::string_view rest = address; !rest.empty();) {
        const std::string_view part = take_part(rest);
        if (part.starts_with(scheme)) return part;
    }
    return address;
}

/// That none of its parts begins with `scheme`.
[[nodiscard]] inline Error wrong_scheme(std::string_view address, std::string_view scheme) {
    return Error(Errc::kUnavailable,
                 fmt::format("the process at '{}' takes no connections over {}; give all ranks the "
                             "same WEIR_TRANSPORT",
                             address.substr(0, 80), scheme.substr(0, scheme.find(':'))));
}

}  // namespace weir::transport

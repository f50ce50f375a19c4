// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The address of an endpoint with several transports is their addresses, joined by ';'.

#include <algorithm>
#include <string_view>

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

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HostPort: "node7:4000", "10.0.0.1:4000", "[::1]:4000".

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir {

struct HostPort {
    static constexpr size_t kHostBytesMax = 255;  ///< the longest host name that DNS allows

    std::string host;  ///< a name or an address, without brackets
    uint16_t port = 0;

    /// Parses HOST:PORT; the port is 1 to 65535. An address with colons must be in brackets,
    /// nothing else may be.
    /// Errors:  kInvalidArgument naming the text, the part that is wrong, and what it must look like
    [[nodiscard]] static Result<HostPort> parse(std::string_view text);
    [[nodiscard]] std::string text() const;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A short transfer between two `weir doctor`, over one transport or over a plain TCP stream.

#include <cstdint>
#include <string>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "tools/weir/doctor/talk.h"
#include "transport/net/secret.h"
#include "transport/net/socket_address.h"

namespace weir::tools {

/// What both sides have in common.
struct TransferSetting {
    Config config;
    transport::Secret secret{};
    transport::SocketAddress own;  ///< the address of this side
};

// Each returns bytes per second, as the side that sends measures it.
// Errors: why the transport cannot be used here, or there

/// Writes 1 MiB again and again into memory of the other side, which runs serve_transfer().
[[nodiscard]] Result<double> try_transfer(Talk& talk, const TransferSetting& setting,
                                          const std::string& transport);
/// `transport`: as the other side has said it.
[[nodiscard]] Status serve_transfer(Talk& talk, const TransferSetting& setting,
                                    const std::string& transport);

/// A plain stream to `at`, where serve_stream() accepts.
[[nodiscard]] Result<double> try_stream(Talk& talk, const transport::SocketAddress& at);
[[nodiscard]] Status serve_stream(Talk& talk, int listener);

}  // namespace weir::tools

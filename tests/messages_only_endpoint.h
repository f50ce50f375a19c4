// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MessagesOnlyEndpoint: an endpoint of a test that moves no memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace weir::testing {

class MessagesOnlyEndpoint : public transport::Endpoint {
public:
    using ConnectionId = transport::ConnectionId;
    using Parts = std::span<const std::span<const std::byte>>;

    [[nodiscard]] Result<transport::RemoteSpan> expose(
        ConnectionId /*connection*/, std::span<const std::byte> /*memory*/) override {
        return Error(Errc::kUnavailable, "no memory is moved");
    }

    [[nodiscard]] transport::Post read(ConnectionId /*connection*/, std::span<std::byte> /*into*/,
                                       const transport::RemoteSpan& /*from*/,
                                       uint64_t /*context*/) override {
        return transport::Post::kInvalid;
    }

    [[nodiscard]] transport::Post write(ConnectionId /*connection*/,
                                        std::span<const std::byte> /*from*/,
                                        const transport::RemoteSpan& /*to*/,
                                        uint64_t /*context*/) override {
        return transport::Post::kInvalid;
    }

    [[nodiscard]] transport::Post write_immediate(ConnectionId /*connection*/,
                                                  std::span<const std::byte> /*from*/,
                                                  const transport::RemoteSpan& /*to*/,
                                                  uint32_t /*immediate*/,
                                                  uint64_t /*context*/) override {
        return transport::Post::kInvalid;
    }

protected:
    [[nodiscard]] static std::vector<std::byte> joined(Parts parts) {
        std::vector<std::byte> message;
        for (const auto part : parts)
            message.insert(message.end(), part.begin(), part.end());
        return message;
    }
};

}  // namespace weir::testing

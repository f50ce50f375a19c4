// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Frames for tests that play a worker or a shard themselves.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "lib/wire/frame.h"
#include "lib/wire/messages.h"
#include "transport/transport.h"

namespace weir::testing {

/// The pass of members that tests play.
inline constexpr uint64_t kPass = 4711;

/// A header of `kind`, all other fields of which are zero but `request`.
[[nodiscard]] inline wire::FrameHeader frame_header(wire::Kind kind, uint64_t request = 0) {
    wire::FrameHeader header = wire::header_of(kind);
    header.request = request;
    return header;
}

/// Sends `header`, with the right body_bytes, and `body`.
inline transport::Post send_frame(transport::Endpoint& endpoint, transport::ConnectionId connection,
                                  wire::FrameHeader header, std::span<const std::byte> body = {}) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array parts{wire::bytes_of(header), body};
    const transport::Post posted = endpoint.send(connection, parts);
    endpoint.flush();
    return posted;
}

/// Tells the manager behind `connection` that `endpoint` is shard `number`, of rank 0.
inline transport::Post join_as_shard(transport::Endpoint& endpoint,
                                     transport::ConnectionId connection, uint32_t number) {
    JoinMessage join{JoinMessage::Role::kShard, 0, number, endpoint.address()};
    join.pass = kPass;
    return send_frame(endpoint, connection, frame_header(wire::Kind::kJoin), join.encode());
}

}  // namespace weir::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Asker: who sent the manager a request, and what a reply to it needs, now or later.

#include <cstdint>
#include <span>

#include "lib/node/outbox.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

struct Asker {
    transport::ConnectionId connection = 0;
    uint64_t request = 0;
    uint32_t worker = 0;
};

inline void answer(Outbox& outbox, const Asker& to, Errc status,
                   std::span<const std::byte> body = {}) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kReply);
    header.request = to.request;
    header.status = status;
    outbox.send(to.connection, header, body);
}

}  // namespace weir

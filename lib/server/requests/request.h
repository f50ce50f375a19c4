// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardRequest: a push or pull that was admitted, and whose keys and values are in memory of
/// this process.

#include <cstddef>
#include <span>

#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

struct ShardRequest {
    transport::ConnectionId connection = 0;
    wire::FrameHeader header;
    std::span<const std::byte> keys;
    std::span<const std::byte> values;
    wire::MemoryHandle values_at;
    wire::ListEnds ends;
    std::byte* out = nullptr;   ///< pull: the worker's memory if it is mapped, or nullptr
    std::span<std::byte> room;  ///< pull of a list, not mapped: buffer for the values
    uint32_t number = 0;        ///< push: its place among those of its connection in the table
};

/// The push or pull of a frame. Keys and values that are not in the frame are still to be found.
[[nodiscard]] inline ShardRequest request_of(transport::ConnectionId connection,
                                             const wire::Frame& frame) noexcept {
    return {connection, frame.header, frame.keys, frame.values, frame.values_at,
            frame.ends, nullptr,      {},         frame.number};
}

/// Of a request that has keys.
[[nodiscard]] inline uint64_t first_key_of(const ShardRequest& request) noexcept {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysRange) != 0) return h.first;
    if ((h.flags & wire::kKeysKnown) != 0) return request.ends.first_key;
    return reinterpret_cast<const uint64_t*>(request.keys.data())[0];
}

}  // namespace weir

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

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Frames: what a connection carries once the handshake is over. A frame has a head of 8 bytes
/// {type u8, 3 zero bytes, number u32}, then for some types the span of the peer's memory (24
/// bytes), then data. Data are followed by zeros up to a multiple of 8, so that every head and
/// every message lies at a multiple of 8 bytes of the stream. Numbers are little-endian.
///
///     type             number             span   data
///     kMessage         bytes of the data  -      the message
///     kRead            0                  yes    -
///     kWrite           0                  yes    as many as the span has
///     kWriteImmediate  the immediate      yes    as many as the span has
///     kReadData        0                  -      as many as were asked for
///     kWritten         writes that ended  -      -
///     kBye             0                  -      -
///
/// A side answers reads (kReadData) and writes (kWritten) in the order in which they came, reads
/// and writes alike. kBye says that the side asks for nothing more: only answers come behind it.
/// What a side may not do ends the connection.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "transport/transport.h"

namespace weir::transport::tcp {

enum class FrameType : uint8_t {
    kMessage = 1,
    kRead = 2,
    kWrite = 3,
    kWriteImmediate = 4,
    kReadData = 5,
    kWritten = 6,
    kBye = 7,
};

struct Frame {
    FrameType type = FrameType::kBye;
    uint32_t number = 0;
    RemoteSpan span{};

    friend bool operator==(const Frame& a, const Frame& b) noexcept {
        return a.type == b.type && a.number == b.number && a.span.address == b.span.address &&
               a.span.length_bytes == b.span.length_bytes && a.span.key == b.span.key;
    }
};

inline constexpr size_t kFrameAlignment = 8;
inline constexpr size_t kHeadBytes = 8;
inline constexpr size_t kHeadBytesMax = kHeadBytes + sizeof(RemoteSpan);

[[nodiscard]] constexpr bool has_span(FrameType type) noexcept {
    return type == FrameType::kRead || type == FrameType::kWrite ||
           type == FrameType::kWriteImmediate;
}

[[nodiscard]] constexpr size_t head_bytes(FrameType type) noexcept {
    return has_span(type) ? kHeadBytesMax : kHeadBytes;
}

/// The zeros that follow so many bytes of data.
[[nodiscard]] constexpr size_t padding_of(uint64_t data_bytes) noexcept {
    return static_cast<size_t>(-data_bytes % kFrameAlignment);
}

/// A frame's head and span; head_bytes(frame.type) of the bytes count.
[[nodiscard]] std::array<std::byte, kHeadBytesMax> encode(const Frame& frame) noexcept;

/// The type of the frame that begins with these bytes.
/// Errors: kProtocol (no frame begins so)
[[nodiscard]] Result<FrameType> frame_type(std::span<const std::byte, kHeadBytes> head);

/// Decodes head and span: head_bytes() of its type.
/// Errors: kProtocol
[[nodiscard]] Result<Frame> decode_frame(std::span<const std::byte> head);

}  // namespace weir::transport::tcp

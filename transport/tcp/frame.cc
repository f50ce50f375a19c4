// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame.h"

#include <bit>
#include <cstring>

#include <fmt/core.h>

namespace weir::transport::tcp {

static_assert(std::endian::native == std::endian::little);

namespace {

struct Head {
    uint8_t type = 0;
    std::array<uint8_t, 3> zero{};
    uint32_t number = 0;
};

static_assert(sizeof(Head) == kHeadBytes);

}  // namespace

std::array<std::byte, kHeadBytesMax> encode(const Frame& frame) noexcept {
    std::array<std::byte, kHeadBytesMax> bytes{};
    const Head head{static_cast<uint8_t>(frame.type), {}, frame.number};
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &frame.span, sizeof frame.span);
    return bytes;
}

Result<FrameType> frame_type(std::span<const std::byte, kHeadBytes> bytes) {
    Head head;
    std::memcpy(&head, bytes.data(), sizeof head);
    const bool is_known = head.type >= static_cast<uint8_t>(FrameType::kMessage) &&
                          head.type <= static_cast<uint8_t>(FrameType::kBye);
    if (!is_known || head.zero != std::array<uint8_t, 3>{}) {
        return Error(Errc::kProtocol, fmt::format("it sent a frame of type {} that does not exist, "
                                                  "or with bits that must be zero",
                                                  head.type));
    }
    return static_cast<FrameType>(head.type);
}

Result<Frame> decode_frame(std::span<const std::byte> bytes) {
    if (bytes.size() < kHeadBytes) return Error(Errc::kProtocol, "a frame without a head");
    WEIR_ASSIGN(const FrameType type, frame_type(bytes.first<kHeadBytes>()));
    if (bytes.size() != head_bytes(type)) {
        return Error(Errc::kProtocol, "a frame whose head is too short or too long");
    }
    Frame frame;
    frame.type = type;
    std::memcpy(&frame.number, bytes.data() + offsetof(Head, number), sizeof frame.number);
    if (has_span(type)) {
        std::memcpy(&frame.span, bytes.data() + kHeadBytes, sizeof frame.span);
    }
    const bool has_number = type == FrameType::kMessage || type == FrameType::kWriteImmediate ||
                            type == FrameType::kWritten;
    if (!has_number && frame.number != 0) {
        return Error(Errc::kProtocol,
                     fmt::format("it sent a frame of type {} with a number, {}, that has none",
                                 static_cast<int>(type), frame.number));
    }
    return frame;
}

}  // namespace weir::transport::tcp

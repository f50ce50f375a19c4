// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/frame.h"

#include <array>
#include <cstring>

namespace weir::wire {
namespace {

template <class T>
bool take(std::span<const std::byte>& rest, T& into) noexcept {
    if (rest.size() < sizeof(T)) return false;
    std::memcpy(&into, rest.data(), sizeof(T));
    rest = rest.subspan(sizeof(T));
    return true;
}

bool is_known(Kind kind) noexcept {
    const auto number = static_cast<uint8_t>(kind);
    return number >= 1 && number <= kKindMax;
}

/// Exactly one bit.
constexpr bool is_single(unsigned bits) noexcept {
    return bits != 0 && (bits & (bits - 1)) == 0;
}

/// Of a push or pull whose encoding is not 0.
bool encoding_is_consistent(const FrameHeader& h) noexcept {
    if (h.kind == Kind::kPull)
        return h.encoding == kAsksWritten || h.encoding == kWholeRows || h.encoding == kEncoded;
    if ((h.encoding & (kErases | kHasStamp)) != 0 && (h.flags & kIteration) != 0) return false;
    const unsigned rest = h.encoding & ~unsigned{kHasStamp};
    if (rest == kErases || rest == (kErases | kHasArguments) || rest == kWholeRows)
        return (h.flags & kAggregate) == 0;
    if (rest == (kCalls | kHasArguments)) return (h.flags & kIteration) == 0;
    if ((h.encoding & kEncoded) != 0 && h.count == 0) return false;
    constexpr unsigned kOfPushes = kHasArguments | kWantsValues | kOutRemote | kHasStamp | kEncoded;
    const bool wants_values = (h.encoding & kWantsValues) != 0;
    return (h.encoding & ~kOfPushes) == 0 && h.part_status == Errc::kOk &&
           (wants_values || (h.encoding & kOutRemote) == 0) &&
           !(wants_values && (h.flags & kIteration) != 0);
}

/// Of a push or pull: one key form, one value form, no contradicting flags, count within limits. A push
/// that is no part has keys: one that changes nothing would raise no time.
bool request_is_consistent(const FrameHeader& h) noexcept {
    const bool aggregate = (h.flags & kAggregate) != 0;
    const bool in_iteration = (h.flags & kIteration) != 0;
    const uint64_t keys_max = kRequestKeysMax * ((h.flags & kKeysRange) != 0 ? 16 : 1);
    return is_single(h.flags & kKeyForms) && is_single(h.flags & kValueForms) &&
           h.count <= keys_max && in_iteration == (h.iteration > 0) && h.reserved3 == 0 &&
           (h.part_status == Errc::kOk || (aggregate && h.count == 0)) &&
           (!aggregate || (h.kind == Kind::kPush && in_iteration && h.parts > 0)) &&
           (h.kind != Kind::kPush || aggregate || h.count > 0) &&
           (h.encoding == 0 || encoding_is_consistent(h));
}

/// Reads the part of the header that only pushes and pulls have; sets what is not sent to 0. Each copy is
/// of two vectors at most.
bool take_rest(std::span<const std::byte>& rest, FrameHeader& h) noexcept {
    constexpr size_t kRequestAt = kHeaderBytesMin;
    constexpr size_t kIterationAt = offsetof(FrameHeader, iteration);
    static constexpr std::array<std::byte, sizeof(FrameHeader) - kRequestAt> kZeros{};
    const size_t bytes = header_bytes(h) - kHeaderBytesMin;
    if (rest.size() < bytes) return false;
    auto* const into = reinterpret_cast<std::byte*>(&h);
    if (bytes == kZeros.size()) {
        std::memcpy(into + kRequestAt, rest.data(), kZeros.size());
    } else {
        std::memcpy(into + kRequestAt, kZeros.data(), kZeros.size());
        if (bytes > 0) std::memcpy(into + kRequestAt, rest.data(), kIterationAt - kRequestAt);
    }
    rest = rest.subspan(bytes);
    return true;
}

bool take_stamp(std::span<const std::byte>& rest, uint32_t& stamp) noexcept {
    uint64_t wide = 0;
    if (!take(rest, wide) || wide == 0 || wide > ~uint32_t{0}) return false;
    stamp = static_cast<uint32_t>(wide);
    return true;
}

bool take_arguments(std::span<const std::byte>& rest, uint64_t count_max,
                    std::span<const std::byte>& arguments) noexcept {
    uint64_t count = 0;
    if (!take(rest, count) || count == 0 || count > count_max) return false;
    if (rest.size() < count * sizeof(double)) return false;
    arguments = rest.first(count * sizeof(double));
    rest = rest.subspan(arguments.size());
    return true;
}

/// The codecs of a push, or those that a pull takes.
bool take_codecs(std::span<const std::byte>& rest, const FrameHeader& h, Codecs& codecs) noexcept {
    uint64_t wide = 0;
    if (!take(rest, wide) || wide == 0 || wide > kAllCodecs) return false;
    codecs = static_cast<Codecs>(wide);
    if (h.kind == Kind::kPull) return (codecs & ~kPulledCodecs) == 0;
    const bool may_have_keys = (h.flags & kKeysInline) != 0 && (h.encoding & kWantsValues) == 0;
    return are_codecs(codecs) && ((codecs & kKeyDifferences) == 0 || may_have_keys);
}

/// How many words may stand in place of arguments.
uint64_t arguments_max(const FrameHeader& h) noexcept {
    if ((h.encoding & kCalls) != 0) return kCallWordsMax;
    return (h.encoding & kErases) != 0 ? 1 : kArgumentsMax;
}

/// What comes before all else, where the encoding says so.
bool take_encoded(std::span<const std::byte>& rest, Frame& frame) noexcept {
    const FrameHeader& h = frame.header;
    return ((h.encoding & kHasStamp) == 0 || take_stamp(rest, frame.stamp)) &&
           ((h.encoding & kHasArguments) == 0 ||
            take_arguments(rest, arguments_max(h), frame.arguments)) &&
           ((h.encoding & kEncoded) == 0 || take_codecs(rest, h, frame.codecs));
}

/// Takes off the zeros behind a frame that another one follows.
bool take_padding(std::span<const std::byte>& rest, size_t frame_bytes) noexcept {
    if (rest.empty()) return true;
    const size_t bytes = aligned(frame_bytes) - frame_bytes;
    if (rest.size() < bytes + kHeaderBytesMin) return false;
    for (const std::byte zero : rest.first(bytes)) {
        if (zero != std::byte{0}) return false;
    }
    rest = rest.subspan(bytes);
    return true;
}

/// Finds the parts of a push's or pull's body.
Errc decode_request(std::span<const std::byte> rest, Frame& frame) noexcept {
    const FrameHeader& h = frame.header;
    if (!request_is_consistent(h)) return Errc::kProtocol;
    if (h.encoding != 0 && !take_encoded(rest, frame)) return Errc::kProtocol;
    const bool has_keys_in_body = frame.has_keys_in_body();
    if ((h.flags & kKeysRemote) != 0) {
        if (!take(rest, frame.keys_at) ||
            frame.keys_at.length_bytes != h.count * sizeof(uint64_t)) {
            return Errc::kProtocol;
        }
    }
    if ((h.flags & kValuesRemote) != 0) {
        if (!take(rest, frame.values_at) || frame.values_at.length_bytes > kRequestBytesMax) {
            return Errc::kProtocol;
        }
    }
    if ((h.encoding & kOutRemote) != 0) {
        if (!take(rest, frame.out_at) || frame.out_at.length_bytes > kRequestBytesMax)
            return Errc::kProtocol;
    }
    if (((h.flags & kKeysKnown) != 0 || has_keys_in_body) && !take(rest, frame.ends))
        return Errc::kProtocol;
    if ((h.flags & kKeysInline) != 0 && !has_keys_in_body) {
        if (rest.size() / sizeof(uint64_t) < h.count) return Errc::kProtocol;
        frame.keys = rest.first(h.count * sizeof(uint64_t));
        rest = rest.subspan(frame.keys.size());
    }
    const bool carries_values = h.kind == Kind::kPush && (h.flags & kValuesInline) != 0;
    if (!carries_values && !rest.empty()) return Errc::kProtocol;
    frame.values = rest;
    return Errc::kOk;
}

}  // namespace

bool glance(std::span<const std::byte> message, FrameHeader& header) noexcept {
    constexpr size_t kBytes = offsetof(FrameHeader, iteration);
    if (message.size() < kBytes) return false;
    std::memcpy(static_cast<void*>(&header), message.data(), kBytes);
    return header.kind == Kind::kPush || header.kind == Kind::kPull;
}

Errc decode_next(std::span<const std::byte>& rest, Frame& frame) noexcept {
    const std::span<const std::byte> message = rest;
    FrameHeader& h = frame.header;
    if (rest.size() < kHeaderBytesMin) return Errc::kProtocol;
    std::memcpy(static_cast<void*>(&h), rest.data(), kHeaderBytesMin);
    rest = rest.subspan(kHeaderBytesMin);
    if (h.magic != kMagic || !is_known(h.kind) || (h.reserved2 != 0 && !is_request(h.kind)) ||
        !take_rest(rest, h) || h.body_bytes > rest.size()) {
        return Errc::kProtocol;
    }
    const std::span<const std::byte> body = rest.first(h.body_bytes);
    rest = rest.subspan(body.size());
    if (!take_padding(rest, message.size() - rest.size())) return Errc::kProtocol;
    frame.keys_at = {};
    frame.values_at = {};
    frame.out_at = {};
    frame.ends = {};
    frame.number = 0;
    frame.stamp = 0;
    frame.codecs = 0;
    frame.arguments = {};
    frame.keys = {};
    frame.values = body;
    if (!is_request(h.kind)) return h.encoding == 0 ? Errc::kOk : Errc::kProtocol;
    return decode_request(body, frame);
}

}  // namespace weir::wire

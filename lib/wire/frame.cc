// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/frame.h"

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

/// Push and pull: one key form, one value form, sizes within the limits.
bool request_makes_sense(const FrameHeader& h) noexcept {
    const bool aggregate = (h.flags & kAggregate) != 0;
    return std::has_single_bit(static_cast<unsigned>(h.flags & kKeyForms)) &&
           std::has_single_bit(static_cast<unsigned>(h.flags & kValueForms)) &&
           (h.flags & ~(kKeyForms | kValueForms | kAggregate)) == 0 &&
           (!aggregate || (h.kind == Kind::kPush && h.parts > 0 && h.iteration > 0)) &&
           h.width > 0 && h.count <= kRequestKeysMax * ((h.flags & kKeysRange) != 0 ? 16 : 1);
}

}  // namespace

Errc decode(std::span<const std::byte> message, Frame& frame) noexcept {
    std::span<const std::byte> rest = message;
    FrameHeader& h = frame.header;
    if (!take(rest, h)) return Errc::kProtocol;
    if (h.magic != kMagic || !is_known(h.kind) || h.reserved != 0 || h.reserved2 != 0 ||
        h.body_bytes != rest.size()) {
        return Errc::kProtocol;
    }
    frame.keys_at = {};
    frame.values_at = {};
    frame.ends = {};
    frame.keys = {};
    frame.values = rest;
    if (h.kind != Kind::kPush && h.kind != Kind::kPull) return Errc::kOk;
    if (!request_makes_sense(h)) return Errc::kProtocol;
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
    if ((h.flags & kKeysKnown) != 0 && !take(rest, frame.ends)) return Errc::kProtocol;
    if ((h.flags & kKeysInline) != 0) {
        if (rest.size() / sizeof(uint64_t) < h.count) return Errc::kProtocol;
        frame.keys = rest.first(h.count * sizeof(uint64_t));
        rest = rest.subspan(frame.keys.size());
    }
    const bool carries_values = h.kind == Kind::kPush && (h.flags & kValuesInline) != 0;
    if (!carries_values && !rest.empty()) return Errc::kProtocol;
    frame.values = rest;
    return Errc::kOk;
}

}  // namespace weir::wire

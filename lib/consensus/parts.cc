// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/parts.h"

#include <algorithm>
#include <array>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"

namespace weir::consensus {
namespace {

constexpr uint32_t kPartMagic = 0x31474c57;  // "WLG1": the protocol and its version
constexpr size_t kPartHeadBytes = 8;

enum class PartKind : uint8_t { kGreeting = 1, kMore = 2, kLast = 3 };

ByteWriter& write_head(ByteWriter& to, PartKind kind) {
    return to.number(kPartMagic).number(kind).raw(std::array<std::byte, 3>{});
}

/// nullopt: it is not a head.
std::optional<PartKind> read_head(ByteReader& from) {
    const auto magic = from.number<uint32_t>();
    const auto kind = from.number<PartKind>();
    const std::array zeros = from.array<3>();
    if (!from.ok() || magic != kPartMagic || zeros != std::array<std::byte, 3>{})
        return std::nullopt;
    return kind;
}

}  // namespace

std::vector<std::byte> encode_greeting(const Greeting& greeting) {
    ByteWriter to;
    write_head(to, PartKind::kGreeting).number(greeting.group).number(greeting.sender);
    to.number(greeting.receiver);
    return std::move(to).take();
}

std::optional<Greeting> decode_greeting(std::span<const std::byte> part) {
    ByteReader from(part);
    if (read_head(from) != PartKind::kGreeting) return std::nullopt;
    Greeting greeting;
    greeting.group = from.number<uint64_t>();
    greeting.sender = from.number<uint64_t>();
    greeting.receiver = from.number<uint64_t>();
    return from.done() ? std::optional(greeting) : std::nullopt;
}

std::vector<std::vector<std::byte>> cut_message(std::span<const std::byte> message,
                                                size_t part_bytes_max) {
    WEIR_CHECK(part_bytes_max > kPartHeadBytes);
    std::vector<std::vector<std::byte>> parts;
    do {
        const auto piece = message.first(std::min(message.size(), part_bytes_max - kPartHeadBytes));
        message = message.subspan(piece.size());
        ByteWriter to;
        write_head(to, message.empty() ? PartKind::kLast : PartKind::kMore).raw(piece);
        parts.push_back(std::move(to).take());
    } while (!message.empty());
    return parts;
}

bool PartJoiner::take(std::span<const std::byte> part) {
    ByteReader from(part);
    const std::optional<PartKind> kind = read_head(from);
    if (kind != PartKind::kMore && kind != PartKind::kLast) return false;
    const std::span<const std::byte> piece = from.rest();
    if (is_whole_ || piece.size() > message_bytes_max_ - bytes_.size()) return false;
    bytes_.insert(bytes_.end(), piece.begin(), piece.end());
    is_whole_ = kind == PartKind::kLast;
    return true;
}

}  // namespace weir::consensus

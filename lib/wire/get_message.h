// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of Kind::kGet, by which a command reads values of a table through the manager. They are
/// encoded field by field, in the order of declaration. decode() returns nothing if the body is
/// malformed, or has bytes left over.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/key/value_type.h"

namespace weir {

struct GetLimits {
    static constexpr size_t kKeysMax = 64;                    ///< of a question
    static constexpr size_t kRowBytesMax = size_t{64} << 10;  ///< rows that are longer are refused
    static constexpr size_t kValueBytesMax = size_t{64} << 10;  ///< of a reply
    static constexpr size_t kWhyBytesMax = 600;                 ///< longer text is cut off
};

/// Command -> manager.
struct GetMessage {
    std::string table;           ///< its name
    std::vector<uint64_t> keys;  ///< 1 to kKeysMax, in any order

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<GetMessage> decode(std::span<const std::byte> body);
};

/// Manager -> shard. The shard sends KeyState and values of each key, in this order, in one frame or more;
/// `first` says how many bytes these have in all.
struct ShardGetMessage {
    uint32_t table = 0;
    std::vector<uint64_t> keys;  ///< 1 to kKeysMax

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<ShardGetMessage> decode(std::span<const std::byte> body);
};

enum class KeyState : uint8_t {
    kThere = 0,    ///< it has a row
    kInitial = 1,  ///< it was never written: these are its initial values
    kUnknown =
        2  ///< the shard is not primary of it, or (in a reply) nobody has said; the values are zeros
};

/// Manager -> command, in one reply or more, as a status.
struct GetReply {
    ValueType type = ValueType::kFloat32;
    uint32_t width = 0;
    std::string why;  ///< of the first key that is kUnknown
    /// Of the first keys of the question: at least one, and as many as fit into kValueBytesMax.
    std::vector<KeyState> states;
    std::vector<std::byte> values;  ///< width values for each of these keys

    [[nodiscard]] size_t row_bytes() const noexcept { return width * size_of(type); }

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<GetReply> decode(std::span<const std::byte> body);
};

}  // namespace weir

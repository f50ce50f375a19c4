// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parts: how a message of any length travels in messages of a transport, which are short. Each part has a
/// head of 8 bytes; the last one of a message says so. A connection begins with a greeting.
///
///   head      magic (4) | kind (1) | zero (3)
///   greeting  head | group (8) | sender (8) | receiver (8)
///   part      head | the next bytes of the message

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weir::consensus {

/// The sender of a connection's messages, and the one whom they are for.
struct Greeting {
    uint64_t group = 0;
    uint64_t sender = 0;
    uint64_t receiver = 0;
    friend bool operator==(const Greeting&, const Greeting&) = default;
};

[[nodiscard]] std::vector<std::byte> encode_greeting(const Greeting& greeting);
/// nullopt if it is none.
[[nodiscard]] std::optional<Greeting> decode_greeting(std::span<const std::byte> part);

/// Cuts a message into parts of at most `part_bytes_max` bytes, which must be more than a head. An empty
/// message is one part.
[[nodiscard]] std::vector<std::vector<std::byte>> cut_message(std::span<const std::byte> message,
                                                              size_t part_bytes_max);

/// Joins the parts that one connection brings. It takes memory only for what has come.
class PartJoiner {
public:
    explicit PartJoiner(size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

    /// False: it is not a part, or the message is too long; the connection is of no use any more.
    [[nodiscard]] bool take(std::span<const std::byte> part);

    /// The message that the last part has completed, once.
    [[nodiscard]] std::optional<std::vector<std::byte>> message() {
        if (!std::exchange(is_whole_, false)) return std::nullopt;
        return std::exchange(bytes_, {});
    }

private:
    size_t message_bytes_max_;
    std::vector<std::byte> bytes_;
    bool is_whole_ = false;
};

}  // namespace weir::consensus

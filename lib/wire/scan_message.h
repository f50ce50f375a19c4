// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of a kScan and of the reply to it: some rows of a table, from where the last reply
/// ended. They are encoded field by field, in the order of declaration.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/key/position.h"

namespace weir {

/// A worker asks a shard for rows.
struct ScanMessage {
    static constexpr size_t kRangesMax = 32;

    uint64_t epoch = 0;  ///< of a view of the sender, in which the shard has all `positions`
    uint32_t table = 0;
    uint32_t width = 0;      ///< values per key of the sender's table
    uint8_t value_type = 0;  ///< weir::ValueType of the sender's table
    bool begins = true;      ///< from the first row on; else from `cursor` on
    uint64_t cursor = 0;     ///< as the last reply gave it
    uint64_t first_key = 0;  ///< only rows of the keys first_key..last_key
    uint64_t last_key = ~uint64_t{0};
    /// Only rows at these positions: 1 to kRangesMax ranges, ascending and disjoint.
    std::vector<PositionRange> positions{PositionRange{}};

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<ScanMessage> decode(std::span<const std::byte> body);
};

/// What a reply begins with. The keys of the rows follow, ascending, unless they are a range;
/// then their values, unless a row does not fit into a message.
struct ScanReply {
    static constexpr size_t kHeadBytes = 24;

    enum Flags : uint8_t {
        kAtEnd = 1,     ///< there are no more rows
        kRange = 2,     ///< the keys are first_key, first_key + 1, ...
        kKeysOnly = 4,  ///< values do not follow: pull them
    };

    uint64_t cursor = 0;     ///< of the next request
    uint64_t first_key = 0;  ///< with kRange
    uint32_t row_count = 0;
    uint32_t flags = 0;
    std::span<const std::byte> keys{};  ///< 8 bytes each, at any address
    std::span<const std::byte> values{};

    /// Only what the reply begins with.
    [[nodiscard]] std::vector<std::byte> encode_head() const;
    /// `row_bytes`: of a row's values. The spans point into `body`.
    [[nodiscard]] static std::optional<ScanReply> decode(std::span<const std::byte> body,
                                                         size_t row_bytes);
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CallMessage: which function is to run, and with what. A push that calls a function that changes begins its body with
/// it, a scan that calls one that reads ends with it. The rest of both says on which rows.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/frame.h"

namespace weir {

/// Encoded in words of 8 bytes: the function; how many numbers and tables there are, 4 bytes each; the numbers; the
/// tables, 4 bytes each, and 4 zeros behind an odd number of them.
struct CallMessage {
    static constexpr size_t kNumbersMax = 64;
    static constexpr size_t kTablesMax = 4;

    uint64_t function = 0;  ///< its id, as FunctionEntry has it
    std::vector<double> numbers{};
    std::vector<uint32_t> tables{};  ///< others, that it reads

    [[nodiscard]] std::vector<std::byte> encode() const;
    /// The number of words before them, as a push has it.
    [[nodiscard]] std::vector<std::byte> encode_with_count() const;
    /// Of whole words, and nothing else.
    [[nodiscard]] static std::optional<CallMessage> decode(std::span<const std::byte> words);
};

static_assert(wire::kCallWordsMax == 2 + CallMessage::kNumbersMax + CallMessage::kTablesMax / 2);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableListMessage: some tables of the job, as the manager names them to a worker.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/messages.h"

namespace weir {

/// The reply to a kOpenTable without a body, which asks for tables from number `first` on.
struct TableListMessage {
    uint32_t next = 0;  ///< the first number of the next question; 0: there are no more
    std::vector<TableMessage> tables = {};  ///< their numbers ascend

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<TableListMessage> decode(std::span<const std::byte> body);
};

}  // namespace weir

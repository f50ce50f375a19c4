// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SelectedRows: what a call pushes in the place of the caller's keys and values.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/worker/calls/call_rows.h"

namespace weir {

/// As filters have selected them.
struct SelectedRows final : CallRows {
    std::vector<std::byte> kept;  ///< a bit for each key; empty: all
    std::vector<uint64_t> keys;   ///< if more than the caller's are pushed
    std::unique_ptr<std::byte[]>
        values;  ///< a row for each key; those that are not kept are any bytes

    void begin() override {}

    void end(bool /*succeeded*/) noexcept override {}

    [[nodiscard]] bool is_referenced(
        std::span<const std::byte> /*memory*/) const noexcept override {
        return false;
    }
};

}  // namespace weir

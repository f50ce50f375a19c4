// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CallRows: rows that lie between the caller's memory and what a call pushes and pulls.

#include <cstddef>
#include <span>

namespace weir {

/// Thread: the client's
class CallRows {
public:
    CallRows() = default;
    virtual ~CallRows() = default;
    CallRows(const CallRows&) = delete;
    CallRows& operator=(const CallRows&) = delete;

    /// The call starts: makes what it pushes.
    virtual void begin() = 0;
    /// The call has ended. With `succeeded`, gives the caller what it has pulled. Called once, if ever.
    virtual void end(bool succeeded) noexcept = 0;
    /// Whether it will read or write a part of this memory of the caller's.
    [[nodiscard]] virtual bool is_referenced(std::span<const std::byte> memory) const noexcept = 0;
};

}  // namespace weir

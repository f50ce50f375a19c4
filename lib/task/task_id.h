// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TaskId: the name of a task.

#include <cstdint>
#include <string>

namespace weir {

/// Cheap to copy, and valid for as long as the process lives. Numbers begin at 1 and are never used
/// twice by a client.
struct TaskId {
    uint32_t client = 0;  ///< the worker's number
    uint64_t number = 0;
    uint32_t instance = 0;  ///< tells apart clients of several jobs that have the same number
    friend bool operator==(TaskId, TaskId) noexcept = default;
};

/// Names no task: what waits for it does not wait.
inline constexpr TaskId kNoTask{~uint32_t{0}, ~uint64_t{0}, ~uint32_t{0}};

/// Names a task that nobody knows: what is to wait for it is refused.
inline constexpr TaskId kUnknownTask{~uint32_t{0}, 0, ~uint32_t{0}};

/// "task 7 of client 3"
[[nodiscard]] std::string to_string(TaskId id);

}  // namespace weir

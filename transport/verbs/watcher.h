// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Watcher: the descriptors that an endpoint watches and sleeps on, and its alarm.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport::verbs {

/// Thread: one.
class Watcher {
public:
    enum class For : uint8_t { kNothing, kInput, kInputAndOutput };

    /// `alarm_name` is what ready() calls the alarm; nobody else has that name.
    /// Errors: kIo
    [[nodiscard]] static Result<Watcher> make(uint64_t alarm_name);

    /// Watches a descriptor, or does so for something else from now on.
    /// Errors: kIo
    [[nodiscard]] Status watch(int fd, uint64_t name, For what);
    void forget(int fd) noexcept;

    /// Puts the names of what is ready into `names` and says how many. Does not wait.
    [[nodiscard]] size_t ready(std::span<uint64_t> names) const noexcept;

    /// Makes fd() readable in so many nanoseconds.
    void set_alarm(uint64_t in_ns) const noexcept;

    /// Readable when something is ready.
    [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

private:
    Descriptor epoll_;
    Descriptor timer_;
    uint64_t alarm_name_ = 0;
};

}  // namespace weir::transport::verbs

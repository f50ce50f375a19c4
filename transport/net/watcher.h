// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Watcher: the descriptors that an endpoint watches and sleeps on, and a timer.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport {

/// Thread: one.
class Watcher {
public:
    enum class For : uint8_t { kNothing, kInput, kInputAndOutput };

    /// ready() reports the timer as `alarm_name`; no descriptor may have that name.
    /// Errors: kIo
    [[nodiscard]] static Result<Watcher> make(uint64_t alarm_name);

    /// Watches a descriptor, or changes what a watched one is watched for.
    /// Errors: kIo
    [[nodiscard]] Status watch(int fd, uint64_t name, For what);
    void forget(int fd) noexcept;

    /// Puts the names of ready descriptors into `names` and returns how many. Does not block.
    [[nodiscard]] size_t ready(std::span<uint64_t> names) const noexcept;

    /// Makes fd() readable after so many nanoseconds.
    void set_alarm(uint64_t in_ns) const noexcept;

    /// Readable when a watched descriptor is ready.
    [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

private:
    Descriptor epoll_;
    Descriptor timer_;
    uint64_t alarm_name_ = 0;
};

}  // namespace weir::transport

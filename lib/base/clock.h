// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Clock: the source of time of every state machine: the machine's clock in a process, a
/// simulated one in a test.

#include <cstdint>
#include <ctime>

namespace weir {

/// Monotonic nanoseconds from an arbitrary origin.
class Clock {
public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual uint64_t now_ns() const noexcept = 0;

protected:
    Clock() = default;
    Clock(const Clock&) = default;
    Clock& operator=(const Clock&) = default;
};

/// The machine's monotonic clock; time in which the machine was suspended counts, because for others
/// it went on. Thread: any.
class SteadyClock final : public Clock {
public:
    [[nodiscard]] uint64_t now_ns() const noexcept override {
        timespec now{};
        (void)::clock_gettime(CLOCK_BOOTTIME,
                              &now);  // does not fail: the kernel has had it since 2.6.39
        return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
               static_cast<uint64_t>(now.tv_nsec);
    }
};

/// A clock that a test or a simulation sets. Thread: one.
class ManualClock final : public Clock {
public:
    [[nodiscard]] uint64_t now_ns() const noexcept override { return now_ns_; }

    void advance(uint64_t by_ns) noexcept { now_ns_ += by_ns; }

    void set(uint64_t now_ns) noexcept { now_ns_ = now_ns; }

private:
    uint64_t now_ns_ = 1;
};

inline constexpr uint64_t kMicrosecond = 1'000;
inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Clock: the source of time of every state machine: the machine's clock in a process, a
/// simulated one in a test.

#include <chrono>
#include <cstdint>

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

/// The machine's monotonic clock. Thread: any.
class SteadyClock final : public Clock {
public:
    [[nodiscard]] uint64_t now_ns() const noexcept override {
        return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
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

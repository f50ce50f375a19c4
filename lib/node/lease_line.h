// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LeaseLine: asks the manager again and again for the lease of a process. Shards whose segments have
/// copies elsewhere let answers go only while it holds: the manager gives what they hold to others
/// only when it has ended. Of a process that has only workers it asks less often: the manager then
/// knows that the process runs, and leaves it its part of the work (ManagerOptions::work_lease_ns).
/// Clocks of hosts are not compared; each counts on its own.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/node/life_line.h"
#include "lib/node/state_machine.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// How long the manager says that a lease holds, counted from when it was asked for; and how long the
/// manager itself counts, from when it answered. The distance is more than two clocks differ that go
/// 10 % too slow and 10 % too fast.
[[nodiscard]] constexpr uint64_t lease_of_server_ns(uint64_t lease_ns) noexcept {
    return lease_ns / 4 * 3;
}

[[nodiscard]] constexpr uint64_t lease_of_manager_ns(uint64_t lease_ns) noexcept {
    return lease_ns / 4 * 5;
}

/// The lease of this process. Thread: any
class ServerLease {
public:
    /// Whether answers may leave. Look after the work that they report.
    [[nodiscard]] bool holds(uint64_t now_ns) const noexcept {
        // Relaxed: nothing else is read because of it, and an older value only ends earlier.
        return now_ns < until_ns_.load(std::memory_order_relaxed);
    }

    void extend_until(uint64_t until_ns) noexcept {
        until_ns_.store(until_ns, std::memory_order_relaxed);
    }

    /// How long one holds, counted from when it was asked for; 0: there was none yet.
    [[nodiscard]] uint64_t length_ns() const noexcept {
        return length_ns_.load(std::memory_order_relaxed);
    }

    void set_length_ns(uint64_t length_ns) noexcept {
        length_ns_.store(length_ns, std::memory_order_relaxed);
    }

private:
    std::atomic<uint64_t> until_ns_ = 0;
    std::atomic<uint64_t> length_ns_ = 0;
};

/// It has a connection of its own, because nothing may be sent on the life line. One question is open
/// at a time: a server that hears no answers asks no more, so that its lease ends at the manager, too.
/// Its thread sleeps. It is finished once the manager has ended.
///
/// Thread: one
class LeaseLine final : public StateMachine {
public:
    /// A manager that leaves a question unanswered for so long is silent.
    static constexpr uint64_t kSilentNs = 120 * kSecond;

    /// `process`: as its life line says it. `lease`: null if the process has no server.
    LeaseLine(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock,
              std::string address, uint64_t process, std::shared_ptr<ManagerLife> manager,
              std::shared_ptr<ServerLease> lease);

    size_t poll() override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;

    [[nodiscard]] bool finished() const override { return manager_->has_ended.load(); }

    [[nodiscard]] std::string name() const override { return "lease"; }

private:
    void connect();
    void try_later();
    void ask();

    [[nodiscard]] bool has_several() const noexcept { return !manager_->places.empty(); }

    size_t follow_leader();
    void answered(const wire::FrameHeader& answer);
    void look_for_silence();

    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    std::string address_;
    uint64_t process_;
    std::shared_ptr<ManagerLife> manager_;
    std::shared_ptr<ServerLease> lease_;
    std::array<transport::Completion, 4> completions_;
    transport::ConnectionId connection_ = 0;  ///< 0: none
    bool is_open_ = false;
    bool is_asking_ = false;
    uint64_t question_ = 0;  ///< number of the last one
    uint64_t asked_ns_ = 0;
    uint64_t due_ns_ = 0;  ///< of the next question, or attempt to connect
    uint64_t pause_ns_ = 0;
    uint64_t made_to_ = 0;  ///< ManagerLife::leading, when the connection was made
};

}  // namespace weir

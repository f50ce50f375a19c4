// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LifeLine: a connection of a process to the manager on which nothing is sent once it is open, and
/// which neither process closes while it lives. So its orderly end proves to each that the other's
/// process has ended: the kernel closes it. If it breaks, nothing is proved, and it is made anew.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/node/state_machine.h"
#include "transport/transport.h"

namespace weir {

/// What a process knows of the manager's. Thread: any
struct ManagerLife {
    std::atomic<bool> is_tried = false;    ///< an attempt to make a life line has ended
    std::atomic<bool> is_reached = false;  ///< the manager has answered on a life line
    std::atomic<bool> has_ended = false;   ///< proved
};

/// Its thread sleeps. It is finished once the manager has ended.
///
/// Thread: one
class LifeLine final : public StateMachine {
public:
    /// `process`: a random number, not 0, which all members of this process name in their links.
    LifeLine(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock, std::string address,
             uint64_t process, std::shared_ptr<ManagerLife> manager);

    size_t poll() override;
    [[nodiscard]] int arm() override;

    [[nodiscard]] bool finished() const override { return manager_->has_ended.load(); }

    [[nodiscard]] std::string name() const override { return "life line"; }

private:
    void connect();
    void greet();
    void try_later();

    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    std::string address_;
    uint64_t process_;
    std::shared_ptr<ManagerLife> manager_;
    std::array<transport::Completion, 4> completions_;
    transport::ConnectionId connection_ = 0;  ///< 0: none
    bool is_answered_ = false;                ///< by the manager, on this connection
    uint64_t number_ = 0;                     ///< of the connection; the first has 1
    uint64_t not_before_ns_ = 0;
    uint64_t pause_ns_ = 0;
};

}  // namespace weir

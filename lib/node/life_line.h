// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LifeLine: a connection of a process to the manager on which nothing is sent once it is open, and
/// which neither process closes while it lives. So its orderly end proves to each that the other's
/// process has ended: the kernel closes it. If it breaks, nothing is proved, and it is made anew.
///
/// Of several managers (replicated_manager.h), it is made to the one that leads. Each of them is watched by a
/// connection of its own, over which it says who leads, and whether it takes part at all.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/manager_place.h"
#include "lib/node/state_machine.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// What a process knows of the manager's. Thread: any
struct ManagerLife {
    std::atomic<bool> is_tried = false;    ///< an attempt to make a life line has ended
    std::atomic<bool> is_reached = false;  ///< the manager has answered on a life line
    /// Proved. Of several, so many have, or take no part any more, that nobody can lead.
    std::atomic<bool> has_ended = false;
    /// For LeaseLine::kSilentNs no question for a lease was answered, though nothing is known to have broken.
    std::atomic<bool> is_silent = false;
    /// Where each of several managers is; empty: there is one. Set before others read it.
    std::vector<ManagerPlace> places = {};
    /// Which of them leads: its term << kLeaderBits, and its number, from 1. 0: not known yet.
    std::atomic<uint64_t> leading = 0;

    /// Those of which the process has ended, proved: a bit for each.
    std::atomic<uint64_t> ended = 0;

    static constexpr unsigned kLeaderBits = 8;

    /// The number of the manager that leads, of several. `of`: a value of `leading`
    [[nodiscard]] static uint64_t number(uint64_t of) noexcept {
        return of & ((uint64_t{1} << kLeaderBits) - 1);
    }

    /// Where it is.
    [[nodiscard]] const std::string& address(uint64_t of) const {
        const uint64_t leader = number(of);
        return places[leader == 0 ? 0 : leader - 1].address;
    }
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
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;

    [[nodiscard]] bool finished() const override { return manager_->has_ended.load(); }

    [[nodiscard]] std::string name() const override { return "life line"; }

private:
    /// A connection to one of several managers.
    struct Watch {
        transport::ConnectionId connection = 0;  ///< 0: none
        bool is_answered = false;
        bool has_ended = false;  ///< proved
        bool is_out = false;     ///< it says that it takes no part any more
        uint64_t not_before_ns = 0;
        uint64_t pause_ns = 0;
    };

    void connect();
    void greet();
    void try_later();
    void handle(const transport::Completion& completion);

    [[nodiscard]] bool has_several() const noexcept { return !watches_.empty(); }

    [[nodiscard]] bool is_due(uint64_t now_ns) const;
    void connect(size_t manager);
    void handle(size_t manager, const transport::Completion& completion);
    void learn_leader(const wire::FrameHeader& header);
    void look_for_ends();

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
    uint64_t made_to_ = 0;        ///< ManagerLife::leading, when the connection was made
    std::vector<Watch> watches_;  ///< of each of several managers
};

}  // namespace weir

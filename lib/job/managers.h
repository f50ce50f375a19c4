// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Managers: where the managers of a job are, one or several, and this process's one, if it has one. The
/// first servers' processes have them.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/consensus/peers.h"
#include "lib/job/devices.h"
#include "lib/node/manager.h"
#include "lib/node/replicated_manager.h"
#include "lib/node/state_machine.h"

namespace weir {

/// Thread: one, but for leads(), hand_over() and process_leaves()
class Managers {
public:
    static constexpr uint32_t kCountMax = 7;

    /// Whether this rank has one of `count`. Servers are the first ranks.
    [[nodiscard]] static bool is_at(uint32_t rank, uint32_t count) noexcept { return rank < count; }

    /// This process's one: makes its endpoints and publishes where they are.
    /// Errors: those of the bootstrap and of endpoints
    /// `process`: as its links name it.
    [[nodiscard]] Status publish(Bootstrap& bootstrap, Devices& devices, uint32_t count,
                                 uint64_t process);
    /// What the ranks with managers have published.
    /// Errors: those of the bootstrap; kProtocol
    [[nodiscard]] Status find(Bootstrap& bootstrap, uint32_t count);

    /// By their numbers.
    [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }

    /// This process's one, which was published. After find(), once.
    /// Errors: those of ReplicatedManager::start()
    [[nodiscard]] Result<std::unique_ptr<StateMachine>> make(
        ManagerOptions options, uint32_t rank, const Clock& clock,
        std::shared_ptr<const ManagerLife> life);

    /// Whether this process's one leads, of several, as far as the process has heard.
    [[nodiscard]] bool leads() const;

    /// If this process's one leads, of several, another one is to lead: waits for that.
    /// Errors: kUnavailable: none of the others takes over, so it leads on; kDeadline: it does not answer
    [[nodiscard]] Status hand_over();

    /// The others go on without this process: if it is told to end, its manager no longer takes that for the end
    /// of the whole job.
    void process_leaves() { is_leaving_->store(true); }

    /// This process's part in the job is over: its manager, if it does not lead, need not wait for one that
    /// does.
    void end_of_process() { is_unneeded_->store(true); }

    /// As one text, for Contact, and back.
    [[nodiscard]] static std::string join(const std::vector<std::string>& addresses);
    [[nodiscard]] static std::vector<std::string> split(std::string_view addresses);

private:
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::unique_ptr<transport::Endpoint> log_endpoint_;  ///< of one of several
    std::vector<std::string> addresses_;
    std::vector<consensus::Member> members_;
    std::vector<uint64_t> processes_;
    std::shared_ptr<std::atomic<bool>> is_unneeded_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> is_leaving_ = std::make_shared<std::atomic<bool>>(false);
    // null: this process has none of several
    std::shared_ptr<std::atomic<Handover>> handover_;
    std::shared_ptr<const ManagerLife> life_;
    uint64_t number_ = 0;  ///< of this process's one, as in ManagerLife::leading
};

}  // namespace weir

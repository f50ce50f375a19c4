// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Managers: where the managers of a job are, one or several, and this process's one, if it has one. Some of
/// the servers' processes have them: choose_manager_ranks().

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
#include "lib/manager/manager.h"
#include "lib/manager/replicated/replicated_manager.h"
#include "lib/node/manager_place.h"
#include "lib/node/state_machine.h"

namespace weir {

/// Thread: one, but for leads(), hand_over() and process_leaves()
class Managers {
public:
    static constexpr uint32_t kCountMax = 7;

    /// First, in a process that begins the job: the ranks with managers, in ascending order, and its own.
    void set_ranks(const std::vector<uint32_t>& ranks, uint32_t rank);

    /// Whether this process has one.
    [[nodiscard]] bool is_here() const noexcept { return number_ != 0; }

    /// This process's one: makes its endpoints and publishes where they are.
    /// Errors: those of the bootstrap and of endpoints
    /// `process`: as its links name it.
    [[nodiscard]] Status publish(Bootstrap& bootstrap, Devices& devices, uint64_t process);
    /// What the ranks with managers have published.
    /// Errors: those of the bootstrap; kProtocol
    [[nodiscard]] Status find(Bootstrap& bootstrap);

    /// By their numbers. After find()
    [[nodiscard]] const std::vector<ManagerPlace>& places() const noexcept { return places_; }

    /// This process's one, which was published. After find(), once.
    /// Errors: those of ReplicatedManager::start()
    [[nodiscard]] Result<std::unique_ptr<StateMachine>> make(
        ManagerOptions options, const Clock& clock, std::shared_ptr<const ManagerLife> life);

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

    /// As one text, for Contact: "RANK@ADDRESS", with spaces between several.
    [[nodiscard]] static std::string join(const std::vector<ManagerPlace>& places);
    /// And back. There is one at least.
    /// Errors: kParse
    [[nodiscard]] static Result<std::vector<ManagerPlace>> split(std::string_view text);

private:
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::unique_ptr<transport::Endpoint> log_endpoint_;  ///< of one of several
    std::vector<ManagerPlace> places_;                   ///< without addresses before find()
    std::vector<consensus::Member> members_;
    std::vector<uint64_t> processes_;
    std::shared_ptr<std::atomic<bool>> is_unneeded_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> is_leaving_ = std::make_shared<std::atomic<bool>>(false);
    // null: this process has none of several
    std::shared_ptr<std::atomic<Handover>> handover_;
    std::shared_ptr<const ManagerLife> life_;
    uint64_t number_ = 0;  ///< of this process's one, as in ManagerLife::leading; 0: it has none
};

}  // namespace weir

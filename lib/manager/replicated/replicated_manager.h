// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReplicatedManager: one of several managers of a job, of which one leads. What comes to the one that leads
/// goes through a log that all agree on (lib/consensus), and all of them do what follows from it; so another
/// one can go on at any time. Only the one that leads has connections, sends, and writes to the disk.
///
///   members --> leading manager: a ManagerInput --> log --> Manager, at all managers
///                                                               |
///   members <-- (at the one that leads) ------------------------+
///
/// A new leader begins with all connections broken. Members connect to it, and links (link.h) go on where they
/// were, since all managers count and keep the same frames.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/consensus/replicated_log.h"
#include "lib/manager/checkpoint_handover.h"
#include "lib/manager/manager.h"
#include "lib/manager/replicated/fed_endpoint.h"
#include "lib/manager/replicated/manager_disk.h"
#include "lib/manager/replicated/manager_input.h"
#include "lib/node/life_line.h"
#include "lib/node/manager_place.h"
#include "lib/node/state_machine.h"
#include "transport/transport.h"

namespace weir {

/// Of the wish that another manager leads than the one of this process: kWanted is set by whoever wants it,
/// the others by the manager.
enum class Handover : uint8_t {
    kNone,
    kWanted,
    kDone,       ///< it does not lead
    kImpossible  ///< no other one takes over; it was tried with each
};

struct ReplicatedManagerOptions {
    ManagerOptions manager;  ///< the same for all, but for its functions
    /// The managers, in the order of their numbers, in which members know them.
    /// How much of the log is kept is set here.
    consensus::ReplicatedLogOptions log;
    std::vector<ManagerPlace> places{};  ///< of each of them
    /// The processes of the managers, as their links name them, and what this one's process knows of them.
    /// Empty, null: nothing.
    std::vector<uint64_t> processes{};
    std::shared_ptr<const ManagerLife> life = nullptr;
    /// The job needs this process no more. Once it leads no more and nobody else does, it is finished, too.
    std::shared_ptr<const std::atomic<bool>> is_unneeded = nullptr;
    /// This process leaves the job: what ManagerOptions::is_being_stopped says is then about this process alone.
    std::shared_ptr<const std::atomic<bool>> is_leaving = nullptr;
    std::shared_ptr<std::atomic<Handover>> handover = nullptr;  ///< null: nobody will want it
};

/// Thread: one
class ReplicatedManager final : public StateMachine,
                                private consensus::Replicated,
                                private FedEndpoint::Connections {
public:
    /// Members connect to `endpoint`, managers to `log_endpoint`. Call start() next, once.
    ReplicatedManager(ReplicatedManagerOptions options,
                      std::unique_ptr<transport::Endpoint> endpoint,
                      std::unique_ptr<transport::Endpoint> log_endpoint, const Clock& clock);

    /// Errors: those of start_replicated_log()
    [[nodiscard]] Status start();

    size_t poll() override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;
    [[nodiscard]] bool finished() const override;
    [[nodiscard]] Status outcome() const override;

    [[nodiscard]] std::string name() const override { return "manager"; }

    /// It leads, and members may connect.
    [[nodiscard]] bool leads() const noexcept { return leads_; }

    /// As far as it knows.
    [[nodiscard]] const View& view() const { return manager_->view(); }

    [[nodiscard]] bool job_is_over() const { return manager_->is_ending(); }

    [[nodiscard]] bool has_loss() const noexcept { return manager_->has_loss(); }

private:
    using ConnectionId = transport::ConnectionId;

    /// A connection that is here. It has a number in the log from its first message on.
    struct Member {
        uint64_t number = 0;                              ///< in the log; 0: none yet
        std::deque<std::vector<std::byte>> waiting = {};  ///< there was no room
        size_t waiting_bytes = 0;
        bool is_watcher = false;  ///< it wants to know who leads
        bool is_closing = false;  ///< once nothing waits
    };

    struct OfferedEntry {
        uint64_t index = 0;
        std::vector<std::byte> entry;
    };

    /// For one that takes nothing. Beyond it, it is closed.
    static constexpr size_t kMembersBytesMax = size_t{64} << 20;
    /// After the end, so that the others learn it from this one, and see whether who leads still lives.
    static constexpr uint64_t kLingerNs = 600 * kMillisecond;
    /// And if nobody leads, so that somebody may.
    static constexpr uint64_t kAloneAtEndNs = 3 * kSecond;
    /// So long a manager that is to hand over waits for one that leads, if it does not lead itself.
    static constexpr uint64_t kHandoverNs = 2 * kSecond;
    /// So long a manager whose process the job does not need waits for one that leads, if one may.
    static constexpr uint64_t kAloneNs = 120 * kSecond;

    // consensus::Replicated
    void apply(uint64_t index, std::span<const std::byte> entry) override;
    [[nodiscard]] std::vector<std::byte> snapshot() override;
    [[nodiscard]] Status restore(std::span<const std::byte> snapshot) override;
    void lead(uint64_t term) override;
    void follow() override;
    // FedEndpoint::Connections
    void send(ConnectionId connection, FedEndpoint::Parts parts) override;
    void close(ConnectionId connection) override;
    [[nodiscard]] std::string name_of(ConnectionId connection) const override;

    [[nodiscard]] uint64_t common_ns() const;

    /// The manager looks for silent servers as often.
    [[nodiscard]] uint64_t tick_ns() const noexcept { return options_.manager.lease_ns / 8; }

    void run(ManagerInput input);
    void run_entry(std::span<const std::byte> entry);
    [[nodiscard]] JobStatus::Managers seat() const;
    [[nodiscard]] size_t number_of(uint64_t replica) const;
    [[nodiscard]] bool propose(const ManagerInput& input);
    void forget_offered(uint64_t index);
    size_t begin_to_lead();
    void go_on_with_handover();
    [[nodiscard]] Handover try_to_hand_over();
    [[nodiscard]] bool has_ended(size_t manager) const;
    size_t take_what_came();
    void take(const transport::Completion& completion);
    void take_message(ConnectionId connection, Member& member,
                      const transport::Completion& completion);
    size_t offer();
    size_t offer_disk();
    size_t offer_ends();
    [[nodiscard]] bool is_job_being_stopped() const;
    void look_for_checkpoint_asked();
    size_t hand_over_checkpoint();
    [[nodiscard]] std::string leader_address() const;
    size_t run_alone();
    void refuse(ConnectionId connection);
    void note(ManagerEvent event);
    size_t announce();
    size_t tell_watchers();
    void tell_leader(ConnectionId connection, Member& member);
    void post(ConnectionId connection, Member& member, FedEndpoint::Parts parts);
    size_t post_waiting();
    void close_all();
    void look_for_end();

    ReplicatedManagerOptions options_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::unique_ptr<transport::Endpoint> log_endpoint_;  ///< until start()
    const Clock& clock_;
    std::shared_ptr<AgreedDisk> disk_;
    ManualClock common_clock_;    ///< the managers' common time, as of the last input
    FedEndpoint* fed_ = nullptr;  ///< manager_ has it
    std::unique_ptr<Manager> manager_;
    Descriptor poller_;  ///< both endpoints

    size_t heard_count_ = 1;  ///< the log's, which may not be asked while it calls
    uint64_t log_bytes_ = 0;

    // of inputs: what Manager's functions say
    bool is_being_stopped_ = false;
    bool wants_checkpoint_ = false;

    bool is_checkpoint_asked_ = false;  ///< here, and neither offered nor handed over yet
    CheckpointHandover handover_;

    // as the one that leads
    uint64_t leads_in_term_ = 0;  ///< it may begin to; 0: it may not
    bool leads_ = false;
    uint64_t ahead_ns_ = 0;  ///< of the common time before its own clock; wraps around
    uint64_t last_number_ = 0;
    uint64_t all_offered_ns_ = 0;                                ///< the last input with is_all
    bool is_lead_applied_ = false;                               ///< of this term
    std::optional<std::pair<uint64_t, DiskAnswer>> disk_ended_;  ///< the same
    std::unordered_map<uint64_t, ConnectionId> by_number_;
    std::vector<ManagerEvent> came_;    ///< and is not offered yet
    std::deque<OfferedEntry> offered_;  ///< and is not applied yet
    bool is_all_ = true;
    uint64_t ends_offered_ = 0;  ///< in this term: a bit for each manager

    uint64_t handover_until_ns_ = 0;  ///< 0: nobody wants it to hand over
    size_t heirs_named_ = 0;          ///< of the other managers, to hand over to

    std::unordered_map<ConnectionId, Member> members_;
    std::set<ConnectionId> unposted_;
    std::array<transport::Completion, 32> completions_;
    consensus::Leadership announced_;
    bool announced_itself_ = false;
    bool announced_its_end_ = false;  ///< that its log has failed
    uint64_t ending_since_ns_ = 0;    ///< by its own clock; 0: the job does not end
    uint64_t led_ns_ = 0;             ///< when somebody led, as far as it knows
    bool has_failed_ = false;         ///< its log has, and that was logged
    bool is_over_ = false;
    std::unique_ptr<consensus::ReplicatedLog> log_;  // last, because it calls this
};

}  // namespace weir

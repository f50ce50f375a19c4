// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Manager: decides which shards and workers are in the job, which shard owns which keys, and
/// which tables there are. It runs in the process of the first server, or in
/// those of the first servers.
///
/// From file to file:
///   manager.cc          connections and messages; the start of the job and its end
///   manager_members.cc  who joins, leaves or dies; carries out what Membership decides
///   manager_silence.cc  servers that are out of reach: who may be given up, and when
///   manager_checkpoints.cc  when checkpoints are written
///   manager_operators.cc  commands of people: the state of the job, values, leave, stop
///   replicated_manager.h  one of several managers, which take over from each other
///   membership.h        decides the views
///   joiners.h           who asks to join a running job, until that is decided
///   job_tables.h, barrier.h, work_rounds.h, lost_workers.h, shard_counters.h,
///   key_reads.h: what else it keeps

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/manager/asker.h"
#include "lib/manager/checkpoints.h"
#include "lib/manager/job_tables.h"
#include "lib/manager/key_reads.h"
#include "lib/manager/member_links.h"
#include "lib/manager/members/barrier.h"
#include "lib/manager/members/joiners.h"
#include "lib/manager/members/lost_workers.h"
#include "lib/manager/members/membership.h"
#include "lib/manager/shard_counters.h"
#include "lib/manager/work_rounds.h"
#include "lib/node/outbox.h"
#include "lib/node/state_machine.h"
#include "lib/ring/view.h"
#include "lib/store/plugins/plugin_list.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/wire/job_status.h"
#include "lib/wire/messages.h"
#include "transport/transport.h"

namespace weir {

struct ManagerOptions {
    uint32_t server_count = 1;
    uint32_t shards_per_server = 1;
    uint32_t worker_count = 1;
    /// Ranks of servers and of workers, by number, for messages that name a missing process.
    std::vector<uint32_t> server_ranks;
    std::vector<uint32_t> worker_ranks;
    uint64_t join_timeout_ns = 30 * kSecond;
    OnWorkerLoss on_worker_loss = OnWorkerLoss::kStop;
    uint32_t replicas = 0;  ///< backups of each segment, on other servers
    uint32_t points = 0;    ///< segments of each shard in the beginning; 0: as points_for() says
    /// A worker whose process is out of reach for so long counts as lost. What a silent server holds is
    /// given to the servers that have copies of it after a quarter more (lease_line.h).
    uint64_t lease_ns = kSecond;
    /// JobOptions::work_lease: with kReassign, a worker whose process has shown no sign of life for so
    /// long, and a quarter more, counts as lost. 0: never.
    uint64_t work_lease_ns = 0;
    std::function<bool()> is_being_stopped{};  ///< JobOptions::is_being_stopped; may be empty
    /// For people; empty: it is the only one, in rank 0. Of several, each says what it knows.
    std::function<JobStatus::Managers()> managers{};
    CheckpointOptions checkpoints{};
    /// Of the job's servers, which those that join later must have, too.
    PluginList plugins{};
    /// That workers may ask about; it outlives the manager. Null: none.
    const RuleRegistry* rules = nullptr;
    /// The checkpoint that the job goes on from; CheckpointOptions::resumed_folder says where it is.
    std::optional<checkpoint::Manifest> resume{};
};

/// Life: waits until all shards and workers have joined; if one does not join in time, ends the
///       job with an error that names it. Then sends all of them the first view, epoch 1, and
///       serves workers until all have left or are lost, while servers and workers join and leave.
///       Then tells the shards to end.
///
/// Thread: one
class Manager final : public StateMachine {
public:
    Manager(ManagerOptions options, std::unique_ptr<transport::Endpoint> endpoint,
            const Clock& clock);

    size_t poll() override;
    [[nodiscard]] int arm() override;

    /// It looks for silent servers as often, and for what the disk has done.
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override {
        if (checkpoints_.waits_for_disk() || !status_askers_.empty()) return kMillisecond;
        return options_.lease_ns / 8;
    }

    [[nodiscard]] bool finished() const override { return phase_ == Phase::kOver; }

    /// The job ends: nothing that comes changes how.
    [[nodiscard]] bool is_ending() const noexcept {
        return phase_ == Phase::kEnding || phase_ == Phase::kOver;
    }

    /// Whether parameters are lost. The job ends when its workers have given up.
    [[nodiscard]] bool has_loss() const noexcept { return loss_.has_value(); }

    /// What ended the job early.
    [[nodiscard]] Status outcome() const override { return outcome_; }

    [[nodiscard]] std::string name() const override { return "manager"; }

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    /// The newest one; that before the first one while the job has not begun.
    [[nodiscard]] const View& view() const {
        static const View none;
        return membership_ ? membership_->view() : none;
    }

    /// Another manager led before. Whom that one did not hear is not silent yet.
    void begin_to_look() { led_since_ns_ = awake_since_ns_ = clock_.now_ns(); }

    /// As MemberLinks::process_has_ended().
    void process_has_ended(uint64_t process) { endpoint_->process_has_ended(process); }

    static constexpr const char* kIsBeingStopped = "the job is being stopped (`weir stop`)";
    static constexpr size_t kOperatorsMax = 64;  ///< at a time

    /// A server is to hand over all that it holds, and then to end.
    ///
    /// Errors: as Membership::leave_server(); Errc::kUnavailable if the job has not begun
    [[nodiscard]] Status leave_server(uint32_t server);

private:
    using ConnectionId = transport::ConnectionId;
    enum class Phase { kJoining, kRunning, kEnding, kOver };

    /// Who is at the other end of a connection.
    struct Peer {
        enum class State {
            kStranger,
            kAsking,  ///< it waits until it may join the running job
            kMember
        } state = State::kStranger;
        JoinMessage is = {};
    };

    struct Shard {
        ConnectionId connection = 0;
        uint32_t server = 0;
        uint32_t rank = 0;
        uint64_t host = 0;
        std::string address;
        uint64_t joiner = 0;    ///< of its server, as in JoinMessage; 0: it began with the job
        uint64_t process = 0;   ///< as in LinkMessage; 0: unknown
        std::string host_name;  ///< for people
    };

    /// A server that is dead, or of no use.
    struct Removed {
        uint32_t rank = 0;
        bool joined_later = false;
        std::vector<uint32_t> shards;
        std::string why;  ///< empty: it died, or the network to it is cut
    };

    /// Asked for before the copies that it needs were made.
    struct EarlyTable {
        Asker asker;
        TableMessage table;
        bool is_opened = false;  ///< not created
    };

    struct Worker {
        ConnectionId connection = 0;
        uint32_t rank = 0;
        /// It has joined the running job and has not said yet that it is connected to the shards:
        /// it has done nothing, and if it dies it might as well never have come.
        bool is_on_the_way = false;
        bool has_given_back = false;  ///< its work, and is to leave: it does not come to its end
        std::optional<uint64_t> rows_held = {};  ///< as it has answered to the last question
    };

    // manager.cc: messages, connections, start and end
    void handle(const transport::Completion& completion);
    void receive(ConnectionId connection, std::span<const std::byte> message);
    void receive_from_worker(const Asker& asker, const wire::Frame& frame);
    void join(ConnectionId connection, Peer& peer, const wire::Frame& frame);
    void begin_if_complete();
    [[nodiscard]] Result<View> make_first_view() const;
    [[nodiscard]] std::string missing() const;
    // manager_operators.cc: what people ask for
    void accept_operator(ConnectionId connection, Peer& peer);
    void receive_from_operator(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] Error job_is_over() const;
    void leave_server(const Asker& asker, const wire::Frame& frame);
    void end_unserved(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] Result<uint32_t> server_to_leave(const wire::Frame& frame) const;
    void ask_for_status(const Asker& asker);
    void stop(const Asker& asker, const wire::Frame& frame);
    void ask_for_held(uint64_t now_ns);
    void send_status(uint64_t now_ns);
    void get(const Asker& asker, const wire::Frame& frame);
    void go_on_reading(uint64_t now_ns);
    [[nodiscard]] JobStatus make_status() const;
    void note_process(JobStatus::Worker& worker) const;
    void note_process(JobStatus::Server& server) const;
    [[nodiscard]] std::vector<JobStatus::OpenIteration> open_iterations() const;
    [[nodiscard]] JobStatus::Checkpoints checkpoint_state() const;

    // manager.cc: tables, rules and the end
    void create_table(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] bool waits_for_first_copies() const;
    void look_for_first_copies(uint64_t now_ns);
    void add_made_table(std::optional<uint32_t> made);
    void forget_refused_tables();
    void open_table(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] Status check_plugins(const JoinMessage& join) const;
    void list_tables(const Asker& asker, uint64_t first);
    void describe_rule(const Asker& asker, const wire::Frame& frame);
    void drop_table(const Asker& asker, const wire::Frame& frame);
    void lost(ConnectionId connection);
    void lose_silent_workers(uint64_t now_ns);
    [[nodiscard]] uint64_t work_lease_end_ns(const Worker& worker) const;
    void end_if_no_worker_is_left();
    [[nodiscard]] bool shards_are_gone() const;
    void end(Errc status, const std::string& why);
    void refuse(ConnectionId connection, std::string_view why);

    // manager_members.cc: who joins, leaves or dies
    [[nodiscard]] Status ask_to_join(ConnectionId connection, Peer& peer);
    void receive_from_shard(ConnectionId connection, uint32_t shard, const wire::Frame& frame);
    void measure_joiners();
    void join_measured_servers();
    [[nodiscard]] Status check_room(const Joiners::Server& server) const;
    void turn_away_late_servers(uint64_t now_ns);
    void stop_asking(ConnectionId connection);
    void turn_away_joiner(uint64_t ticket, const Error& why);
    void turn_away(ConnectionId connection, const Error& why);
    void leave(const Asker& asker, const wire::Frame& frame);
    void lose_shard(uint32_t number);
    void remove_server(uint32_t server, const Error& why, const std::string& told = {});
    void lose_worker(uint32_t number, LeaveMessage why);
    void forget_removed();
    // manager_checkpoints.cc: checkpoints of the job
    size_t go_on_with_checkpoints(uint64_t now_ns);
    void hold_moves();
    [[nodiscard]] bool may_begin_checkpoint() const;
    [[nodiscard]] bool has_one_view() const;
    void ask_for_checkpoint(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] Status take_checkpoint_report(uint32_t shard, const wire::Frame& frame);
    // manager_silence.cc: servers that are out of reach
    void look_for_silence(uint64_t now_ns);
    void look_at_question(uint64_t now_ns);
    [[nodiscard]] bool were_shards_heard(uint64_t since_ns) const;
    void judge_silent(uint32_t server, uint64_t silent_ns, const std::set<uint32_t>& silent);
    [[nodiscard]] Status note_apart(uint32_t shard, const LearnerReport& report);
    void give_up_fenced(uint64_t now_ns);
    [[nodiscard]] std::map<uint32_t, uint64_t> silent_servers(uint64_t now_ns) const;
    [[nodiscard]] std::string name_of_server(uint32_t server) const;
    void tell_shards_of(uint32_t worker);
    void tell_workers_of(uint32_t shard);
    void settle_barrier();
    // manager_work.cc: who has which part of the work
    void ask_for_work(const Asker& asker, const wire::Frame& frame);
    void take_work(const Asker& asker, const wire::Frame& frame);
    [[nodiscard]] Status may_give_back_work(uint32_t worker) const;
    void give_back_work(uint32_t number);
    void withdraw(const Asker& asker, uint64_t request);
    [[nodiscard]] bool may_share(const Asker& asker);
    void end_round();
    void settle_work();
    void end_iterations(ConnectionId shard);
    void act();
    void carry_out(const SendView& action);
    void carry_out(const ReleaseLosers& action);
    void carry_out(const AskFirstIteration& action);
    void carry_out(const AdmitServer& action);
    void carry_out(const AdmitWorker& action);
    void carry_out(const RefuseJoin& action);
    void carry_out(const KeepServer& action);
    void carry_out(const EndServer& action);
    void carry_out(const LostSegments& action);
    void admit(ConnectionId connection, uint32_t number, uint32_t rank);
    [[nodiscard]] PassesMessage::Pass pass_of(bool is_shard, uint32_t number,
                                              ConnectionId connection) const;
    void send_passes(ConnectionId shard, std::span<const PassesMessage::Pass> passes);
    void send_all_passes(ConnectionId shard);
    [[nodiscard]] std::vector<ShardPeer> live_shards() const;
    [[nodiscard]] JobShards job_shards() const;
    [[nodiscard]] std::string name_of_shard(uint32_t shard) const;

    ManagerOptions options_;
    std::unique_ptr<MemberLinks> endpoint_;
    const Clock& clock_;
    Outbox outbox_;
    RepeatedLog refusals_{clock_};
    std::array<transport::Completion, 32> completions_;  ///< of one poll
    Phase phase_ = Phase::kJoining;
    uint64_t started_ns_;
    uint64_t ending_since_ns_ = 0;
    size_t unheard_count_ =
        0;  ///< members that are to hear how the job ended, and have yet to join
    std::unordered_map<ConnectionId, Peer> peers_;
    std::map<uint32_t, Shard> shards_;         ///< by number, those that are here
    std::map<uint32_t, Worker> workers_;       ///< by number, those that are here
    std::optional<Membership> membership_;     ///< once the job runs
    uint64_t polled_ns_ = 0;                   ///< when it was last polled
    uint64_t led_since_ns_ = ~uint64_t{0};     ///< begin_to_look(); ~0: no other one led before
    uint64_t awake_since_ns_ = 0;              ///< it has been polled often enough
    uint64_t next_look_ns_ = 0;                ///< for silent servers
    uint64_t all_read_ns_ = 0;                 ///< all that had come was read
    std::optional<uint64_t> asking_since_ns_;  ///< membership_ asks all shards something
    std::optional<uint64_t> wanted_since_ns_;  ///< a worker wants to join; or from then on
    std::set<uint32_t> silent_;                ///< servers that are out of reach; that was logged
    /// Servers that were removed while they had a lease, and their processes.
    std::map<uint32_t, uint64_t> fenced_;
    std::optional<uint64_t> apart_until_ns_;  ///< some servers do not reach each other, or did not
    bool has_news_ = false;                   ///< membership_ has heard something: act()
    /// It was stopped, and has not read all that came meanwhile. What it would decide may give up a copy,
    /// and what it has not read may be that those with the others are dead.
    bool is_catching_up_ = false;
    std::map<uint32_t, Removed> removed_;  ///< by number, servers that the view still has
    std::vector<JobStatus::DeadServer> dead_servers_;
    std::optional<Error> loss_;    ///< parameters are lost: what has happened
    std::string lost_parameters_;  ///< and which these are; a part of that text
    Status outcome_;               ///< of the job, once it ends
    Joiners joiners_;
    JobTables tables_{outbox_};
    uint64_t begun_ns_ = 0;
    bool lacks_first_copies_ = false;       ///< of what tables will have: the job has just begun
    std::vector<EarlyTable> early_tables_;  ///< that were asked for meanwhile, in that order
    Checkpoints checkpoints_;
    uint64_t looked_for_checkpoints_ns_ = 0;
    Barrier barrier_{outbox_};
    WorkRounds work_{outbox_};
    size_t ended_tables_ = 0;  ///< of tables_, the first ones: their iterations are over
    ShardCounters counters_{outbox_};
    KeyReads key_reads_{outbox_};
    LostWorkers lost_workers_;
    bool is_stop_asked_ = false;        ///< `weir stop` came
    bool is_stopping_ = false;          ///< a worker is lost, and the job does not go on without it
    std::vector<Asker> status_askers_;  ///< operators that wait for the shards' counters
    bool are_shards_heard_ = false;     ///< for these
    bool asks_for_held_ = false;        ///< and what workers hold back
    uint64_t held_asked_ns_ = 0;
    size_t operator_count_ = 0;
    size_t left_count_ = 0;  ///< workers that came to their end
};

}  // namespace weir

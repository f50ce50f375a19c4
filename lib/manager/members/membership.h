// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Membership: the part of the manager that decides the views: who takes part, who holds what, and
/// who hears of it when.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/position_set.h"
#include "lib/manager/members/first_iterations.h"
#include "lib/manager/members/join_queue.h"
#include "lib/manager/members/learning_rounds.h"
#include "lib/ring/moves.h"
#include "lib/ring/plan.h"
#include "lib/ring/view.h"
#include "lib/ring/view_change.h"
#include "lib/wire/on_worker_loss.h"

namespace weir {

/// A view is to be sent, now, to these shards and workers: as the difference to the one that they
/// were sent before, or whole. One change may be sent to many: encode it once.
struct SendView {
    std::shared_ptr<const ViewChange> change;
    std::vector<uint32_t> shards;
    std::vector<uint32_t> workers;
};

/// Each of the shards is to name the first iteration above its window, for each of the tables. The
/// question must arrive behind the views and tables that were sent before. Without tables: those
/// that were asked in this epoch go on.
struct AskFirstIteration {
    uint64_t epoch = 0;
    std::vector<uint32_t> shards;
    std::vector<uint32_t> tables;
};

/// A server joins. Its view follows. Its shards have consecutive numbers, in the order of their
/// addresses.
struct AdmitServer {
    uint64_t ticket = 0;
    uint32_t server = 0;
    uint32_t first_shard = 0;
};

/// A worker joins. Its view follows.
struct AdmitWorker {
    uint64_t ticket = 0;
    uint32_t worker = 0;
};

/// Who asked to join cannot.
struct RefuseJoin {
    uint64_t ticket = 0;
    Error why;
};

/// All shards that lose something by a view have stopped. These, which are the ones, may drop it.
struct ReleaseLosers {
    uint64_t epoch = 0;
    std::vector<uint32_t> shards;
};

/// A server that was leaving stays: nobody is there any more to take over what it holds, or has
/// memory for that.
struct KeepServer {
    uint32_t server = 0;
    Error why;
};

/// A server that was leaving holds nothing and is in no view any more: it may end.
struct EndServer {
    uint32_t server = 0;
};

/// Dead servers held the only copy of something. What follows from that is the job's choice.
struct LostSegments {
    std::vector<uint32_t> servers;
    PositionSet positions;
    double share = 0;  ///< of the ring
};

using MembershipAction = std::variant<SendView, ReleaseLosers, AskFirstIteration, AdmitServer,
                                      AdmitWorker, RefuseJoin, KeepServer, EndServer, LostSegments>;

/// The moves and copies since the ring was last at rest, for people.
struct MoveProgress {
    size_t segments_to_move = 0;   ///< are under way
    size_t segments_complete = 0;  ///< of those, are copied, and wait to be handed over
    size_t segments_moved = 0;
    size_t copies_made = 0;    ///< of segments, on servers that had none of them
    double share_to_move = 0;  ///< of the ring
    double share_complete = 0;
    double share_moved = 0;
    friend bool operator==(const MoveProgress&, const MoveProgress&) = default;
};

struct MembershipOptions {
    /// K: so many backups each segment gets on other servers, while there are enough of them.
    uint32_t backup_count = 0;
    /// kStop: a dead worker stays a member, so that nobody goes on without it while the job ends.
    /// kReassign: so does one that gives up.
    OnWorkerLoss on_worker_loss = OnWorkerLoss::kStop;
};

/// Tell it what happened; then decide() says what is to be done. It has no clock and no transport,
/// and never waits for anything but its inputs.
///
/// One view at a time: if a view takes a primary role from shards, they get it first. The others
/// get it when all of those have stopped, and only then the next view is made. What happens
/// meanwhile is kept for it; but if servers die, or a loser cannot stop because a copy does not follow
/// it, the view that nobody serves by yet is revised.
///
/// A server that joins is made primary in one view of all that it gets without a backup. If it dies
/// before that, nothing is lost. Nor is anything, in a job with backups, until there is a table: what dead
/// servers were to hold others get.
///
/// The caller's part: what goes to one shard or worker arrives in the order in which it was given
/// out. What comes from the network may be late, repeated or made up: such inputs return a Status,
/// and an error says that the peer breaks the protocol and that nothing was taken.
///
/// Thread: one
class Membership {
public:
    /// `first` has the servers and workers with which the job begins. decide() sends it to them.
    Membership(View first, const MembershipOptions& options);

    /// A server asks to join. `ticket` is the caller's name for it until it is admitted.
    ///
    /// Errors: Errc::kAlreadyExists if the ticket or an address is taken; Errc::kInvalidArgument
    ///         naming what is wrong with the server, or the limit that is reached
    [[nodiscard]] Status join_server(uint64_t ticket, const NewServer& server);

    /// A worker asks to join.
    ///
    /// Errors: Errc::kAlreadyExists if the ticket is taken; Errc::kBusy if a limit is reached
    [[nodiscard]] Status join_worker(uint64_t ticket, const NewWorker& worker);

    /// Who asked to join is gone or has changed its mind. Nothing happens if it was admitted.
    void withdraw(uint64_t ticket);

    /// A server is to hand over all that it holds, and then to end. Asked again, nothing changes.
    ///
    /// Errors: Errc::kNotFound if there is no such server; Errc::kUnavailable if no other server
    ///         would be left, or fewer than each segment has copies. The text says so
    [[nodiscard]] Status leave_server(uint32_t server);

    /// The end of a server is proved, or its lease has ended and may_put_out() allows it. Nothing
    /// happens if it is in no view any more.
    void server_died(uint32_t server);

    /// A worker has left, and is waited for no more from the next view on. Every iteration in which
    /// it took part is closed, but for those of `withdrawn`, whose worker is this one: from the next
    /// view on they fail. Those of unknown tables are left out.
    void worker_left(uint32_t worker, std::span<const ViewWithdrawal> withdrawn);

    /// The end of a worker is proved.
    void worker_died(uint32_t worker);
    /// It gives up, with an error.
    void worker_gave_up(uint32_t worker);

    /// A table is being made: call this when all shards have been sent that. Who joins from now on
    /// gets its first iteration of it from the shards.
    void add_table(uint32_t table);
    /// It could not be made.
    void remove_table(uint32_t table);

    /// A shard has done what the view of `epoch` needs of those that lose something by it.
    [[nodiscard]] Status stopped(uint32_t shard, uint64_t epoch);

    /// A learner is complete. `shard` says so: the learner, or the primary that it learns from.
    [[nodiscard]] Status learner_complete(uint32_t shard, const LearnerReport& report);

    /// A learner has no memory for its segment, or a backup for what its primary sends it. Its server
    /// gets nothing more, until a server joins or is told to leave; a backup is none any more.
    [[nodiscard]] Status learner_refused(uint32_t shard, const LearnerReport& report);

    /// A learner or backup has taken nothing of what its primary, `shard`, sends it, for long. It is
    /// none any more, and the two servers learn nothing from each other until try_those_apart().
    [[nodiscard]] Status learner_unreachable(uint32_t shard, const LearnerReport& report);
    void try_those_apart();

    /// A shard's answer to AskFirstIteration, for one table.
    [[nodiscard]] Status first_iteration(uint32_t shard, uint64_t epoch, uint32_t table,
                                         uint64_t first);

    /// Whether shards are asked for the first iteration of workers that join, and have not all answered.
    /// Those that have close no iteration beyond their windows meanwhile: training waits for the others.
    [[nodiscard]] bool is_asking() const noexcept {
        return first_iterations_.is_open() && !first_iterations_.is_complete();
    }

    [[nodiscard]] bool has_joining_workers() const noexcept { return joins_.has_workers(); }

    /// While false, no question for first iterations is put, and an open one is given up: the shards go
    /// on, and who asked to join waits. Returns whether that has changed: then call decide().
    bool allow_questions(bool allow) noexcept { return std::exchange(may_ask_, allow) != allow; }

    /// While true, no learner becomes primary or backup, unless a server dies. Returns whether that
    /// has changed: then call decide().
    bool hold_moves(bool hold) noexcept { return std::exchange(holds_moves_, hold) != hold; }

    /// What is to be done now, in this order. Call it after inputs; it is made for many at a time.
    [[nodiscard]] std::vector<MembershipAction> decide();

    /// The newest view. While has_losers(), only the losers have been sent it.
    [[nodiscard]] const View& view() const noexcept { return view_; }

    /// It waits for shards that lose something by the newest view.
    [[nodiscard]] bool has_losers() const noexcept { return !awaited_.empty(); }

    /// The shards that it waits for, ascending, for messages to people.
    [[nodiscard]] const std::set<uint32_t>& losers() const noexcept { return awaited_; }

    /// Nothing moves, and each segment has as many copies as there is room for now.
    [[nodiscard]] bool is_at_rest() const;

    /// There has been no table yet, and there are backups: what a dead server was to hold others get.
    [[nodiscard]] bool can_lose_nothing() const noexcept {
        return options_.backup_count > 0 && !has_had_tables_;
    }

    /// They have not been told yet: no table may be made.
    [[nodiscard]] bool has_vacancies() const noexcept { return has_vacancies_; }

    [[nodiscard]] bool is_leaving(uint32_t server) const { return leaving_.contains(server); }

    /// Whether a server that is silent, and answers nobody any more, may be given up: each segment of
    /// which it has a copy has another one on a server that is not in `silent`; or it need not have one,
    /// because nothing is stored yet.
    [[nodiscard]] bool may_put_out(uint32_t server, const std::set<uint32_t>& silent) const;

    [[nodiscard]] MoveProgress progress() const;

    /// By server, of those that learn segments now, for people.
    [[nodiscard]] std::map<uint32_t, LearningProgress> learning() const {
        return learning_.progress(view_, complete_);
    }

private:
    bool make_next_view();
    void revise();
    bool finish_learners();
    bool drop_refusing();
    bool change_members();
    void admit_workers();
    void give_up_question();
    [[nodiscard]] View as_is() const;
    View without_the_gone(const View& view);
    void put_withdrawals(ViewData& data);
    View with_joiners(View view);
    View with_plan(View view);
    [[nodiscard]] View planned(const View& view) const;
    [[nodiscard]] bool keep_stuck_leavers(const View& next);
    void keep_leavers(const std::vector<uint32_t>& servers, std::string_view why);
    void ask();
    void publish(View next);
    void forget_void_answers();
    void send_to_the_rest();
    void send(const std::vector<uint32_t>& shards, const std::vector<uint32_t>& workers);
    [[nodiscard]] Status check_shard(uint32_t shard) const;
    [[nodiscard]] Result<bool> is_of_view(const View& view, uint32_t shard,
                                          const LearnerReport& report) const;
    [[nodiscard]] const View& view_of(uint32_t shard) const;
    void cannot_stop(uint32_t shard);
    [[nodiscard]] std::vector<uint32_t> staying(const View& view) const;
    [[nodiscard]] bool is_dead_shard(uint32_t shard) const;
    [[nodiscard]] bool fill_vacancies();
    [[nodiscard]] bool is_last_copy(const View& view, const ViewSegment& segment, uint32_t server,
                                    const std::set<uint32_t>& silent) const;

    MembershipOptions options_;
    View view_;
    View before_;
    std::shared_ptr<const ViewChange> difference_;  // from before_ to view_
    std::vector<uint32_t> losers_;                  // they were sent view_ first, ascending
    std::set<uint32_t> awaited_;                    // those of them that have not stopped
    std::set<uint32_t> keeping_;                    // those of them that cannot
    std::vector<MembershipAction> actions_;         // for decide()
    JoinQueue joins_;
    std::set<uint32_t> leaving_;               // servers
    std::set<uint32_t> dead_;                  // servers that are still in view_
    std::set<uint32_t> full_;                  // servers that have no memory for more
    ServersApart apart_;                       // do not reach each other
    std::set<uint32_t> gone_workers_;          // are still in view_, but are to be taken out
    std::vector<ViewWithdrawal> withdrawals_;  // of these
    std::set<uint32_t> silent_workers_;        // are sent nothing
    std::set<uint32_t> tables_;
    bool has_had_tables_ = false;
    bool has_vacancies_ = false;  // segments of view_ without a primary; nothing is lost
    std::map<uint64_t, LearnerReport> complete_;  // by the segment's first position
    std::vector<LearnerReport> refusing_;         // cannot follow
    LearningRounds learning_;                     // as of view_
    FirstIterations first_iterations_;
    bool holds_moves_ = false;
    bool is_plan_due_ = false;
    bool is_asking_next_ = false;  // moves and joiners take turns
    bool may_ask_ = true;
    bool asks_in_next_ = false;  // a question was given up in this view
    MoveProgress done_;          // what of progress() has been done
};

}  // namespace weir

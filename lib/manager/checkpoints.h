// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Checkpoints: the manager's part in the checkpoints of a job: when one is due, what the shards do
/// for it and in which order, and its manifest.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/result.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/checkpoint/manifest.h"
#include "lib/manager/asker.h"
#include "lib/manager/job_tables.h"
#include "lib/manager/replicated/manager_disk.h"
#include "lib/wire/checkpoint_message.h"

namespace weir {

struct CheckpointOptions {
    std::string folder{};           ///< empty: the job writes none
    uint64_t every_ns = 0;          ///< 0: not by time
    uint64_t every_iterations = 0;  ///< of any table in checkpoints; 0: not by them
    /// Older ones are removed, but for one that is needed. Those of other jobs stay: if this one does not
    /// go on from one in this folder, all that are there when its first one begins; `keeps_newer`.
    size_t kept_count = 3;
    std::function<bool()> is_asked_for{};    ///< true once for each that is asked for; may be empty
    std::optional<uint64_t> resumed_from{};  ///< the checkpoint that the job goes on from
    std::string resumed_folder{};            ///< where that is
    bool keeps_newer = false;  ///< somebody has chosen that: newer ones there are another job's
    std::shared_ptr<checkpoint::DiskQueue> disk{};  ///< needed for both
    /// Does what is to be done there; null: `disk` does.
    std::shared_ptr<ManagerDisk> agreed_disk{};
    /// Asked on the disk's thread before anything is written or removed there: whether the folder still is
    /// this job's. May be empty.
    std::function<Status()> may_write{};
};

/// The way of a checkpoint:
///   kNumbering  its number is chosen, above all files of the folder
///   kFreezing   every shard stops, and says which iteration of each table it has closed last
///   kTaking     every shard goes on up to the highest of these, keeps the rows of each table as they
///               are then, goes on, and writes its chunks, or names those of the last checkpoint to
///               which nothing was pushed since
///   kWriting    all chunks are there: the manifest is written
/// Then old checkpoints are removed, and none begins meanwhile.
/// While all shards stand, none has executed anything that was sent after an answer of one that stood
/// later: so the checkpoint shows no push without those that were acknowledged before it was sent.
///
/// It is given up, with an error for those who asked, when a shard cannot go on with it, is lost, or
/// takes too long to stop, or when a disk hangs. The job goes on.
///
/// Thread: the manager's
class Checkpoints {
public:
    enum class Phase : uint8_t { kIdle, kNumbering, kFreezing, kTaking, kWriting };

    /// One that is due by iterations begins at most this part of them later, because shards say so
    /// often how many they have closed.
    static constexpr uint64_t kIterationShare = 16;
    static constexpr uint64_t kFreezeNs = 5 * kSecond;  ///< for all shards to stop
    static constexpr uint64_t kTakeNs = 60 * kSecond;   ///< and then to have kept all rows
    /// A disk hangs that has done nothing for so long on the way to a number, or of which no server has
    /// told a chunk. Moves and joins do not wait for it any longer, and for as long the next one does not
    /// begin by itself. One that somebody asks for fails at once while it hangs (DiskQueue::kHangNs).
    static constexpr uint64_t kDiskNs = 60 * kSecond;
    /// The same on the way to a manifest: only who asked waits.
    static constexpr uint64_t kManifestNs = 600 * kSecond;
    /// After one that failed, the next one that nobody asks for waits so long: because of the disk, or
    /// because of servers that came, left or died. One that was due is tried again then.
    static constexpr uint64_t kPauseNs = 10 * kSecond;
    static constexpr uint64_t kShortPauseNs = kSecond;
    /// So long one that is due waits while copies are made or segments move, because it holds that up,
    /// and because the view that ends it makes the next one write all anew: time for a server to send
    /// 100 GB at 1 GB/s. But what moves is lost if its server dies, so it is not put off for ever.
    static constexpr uint64_t kRestNs = 120 * kSecond;
    /// The same for one that somebody asks for and waits for: it may be the last thing that a job does
    /// within its time to end.
    static constexpr uint64_t kAskedRestNs = 5 * kSecond;

    /// What people see of them.
    struct Report {
        bool is_on = false;             ///< the job writes checkpoints
        bool is_under_way = false;      ///< one is being written
        uint64_t last_number = 0;       ///< the last one that was completed; 0: none
        uint64_t last_age_ns = 0;       ///< since that was begun
        uint64_t last_duration_ns = 0;  ///< from its begin to its end
        std::string last_failure = {};  ///< of the one after that; empty: it did not fail
        uint64_t rest_wait_ns = 0;      ///< one is due for so long that waits for rest; 0: none is
    };

    Checkpoints(CheckpointOptions options, Outbox& outbox, const Clock& clock)
        : options_(std::move(options)),
          outbox_(outbox),
          clock_(clock),
          disk_(options_.agreed_disk) {
        if (disk_ == nullptr) disk_ = std::make_shared<OwnDisk>(options_.disk);
    }

    /// Somebody asks for one: it begins when it can, and the answer comes when it is on the disk. Its
    /// number is in the body.
    void ask(const Asker& asker);
    /// The same, but nobody waits for an answer.
    /// Errors: Errc::kUnavailable if the job writes none
    [[nodiscard]] Status want();
    /// Who asked is gone.
    void forget(transport::ConnectionId connection);

    /// The job goes on from this checkpoint: what is due by iterations is counted from there.
    void resume_from(const checkpoint::Manifest& manifest) { saved_ = manifest.closed; }

    /// The job begins: what is due by time is counted from now on.
    void start(const std::vector<ShardPeer>& shards);
    /// A shard joins.
    void tell(const ShardPeer& shard);

    /// Whether one is to begin: then call begin() as soon as no view is on its way, no table is being
    /// made, all shards of the view are there, and the ring is at rest or needs_no_rest().
    [[nodiscard]] bool is_due();
    /// Whether the one that is due has waited long enough for copies and moves.
    [[nodiscard]] bool needs_no_rest() const noexcept;
    /// `tables`: all that it is to have; `unread`: those of the checkpoint that the job goes on
    /// from that nobody has. Their chunks go on to count.
    void begin(const std::vector<ShardPeer>& shards, std::vector<TableSchema> tables,
               std::vector<uint32_t> unread);

    /// The table is dropped: one that has not told the shards yet what it has is without it.
    void leave_out(uint32_t table);

    [[nodiscard]] bool is_under_way() const noexcept { return phase_ != Phase::kIdle; }

    /// The manager's own work there, of which no message says that it is done.
    [[nodiscard]] bool waits_for_disk() const noexcept {
        return phase_ == Phase::kNumbering || phase_ == Phase::kWriting || is_pruning_;
    }

    /// There is nothing to write yet. Returns whether the one that is due waits until it is due again: not
    /// if somebody has asked for it.
    bool put_off();

    /// Whether all shards are needed, and no segment may change hands, as far as that can be chosen.
    [[nodiscard]] bool needs_shards() const noexcept {
        return phase_ != Phase::kIdle && phase_ != Phase::kWriting;
    }

    /// What the disk has done; what takes too long. Returns how much happened.
    size_t poll();
    /// Errors: Errc::kProtocol if the report makes no sense
    [[nodiscard]] Status take(uint32_t shard, const CheckpointReport& report);

    /// A shard is lost, or is to leave: if all are needed, the checkpoint cannot be completed.
    void lose_shards(const Error& why) {
        if (needs_shards()) give_up(why);
    }

    /// The job is over or has lost parameters: nobody waits any more.
    void end(const Error& why);

    [[nodiscard]] Report report() const;
    [[nodiscard]] WrittenMessage written() const;
    /// The flag that goes on from the last checkpoint, with a comma before it: the job's own, or else that
    /// from which the job goes on. Empty if there is none.
    [[nodiscard]] std::string resume_advice() const;

    [[nodiscard]] const CheckpointOptions& options() const noexcept { return options_; }

private:
    /// One that is complete, or has failed.
    struct Ended {
        uint64_t number = 0;  ///< 0: it had none yet
        uint64_t at_ns = 0;
        std::string failure;  ///< empty: it is complete
    };

    [[nodiscard]] bool is_asked_for() const noexcept { return is_wanted_ || !askers_.empty(); }

    [[nodiscard]] Status check_folder() const;
    [[nodiscard]] bool is_due_by_itself() const;
    void enter(Phase phase);
    void give_up(const Error& why, LogLevel level = LogLevel::kWarning);
    void fail(Errc status, std::string why);
    void send(const ShardPeer& shard, const CheckpointOrder& order);
    void choose_number();
    void freeze(uint64_t number);
    void order_to_take();
    void write_manifest();
    void remove_old_ones();
    void ended_on_disk(const DiskAnswer& answer);
    void complete();
    void note_end(std::string failure);
    [[nodiscard]] bool goes_on_here() const noexcept;
    /// Why the phase takes too long, or nothing.
    [[nodiscard]] std::string late_text() const;
    [[nodiscard]] std::optional<uint64_t> shown_iteration() const;
    static void answer_all(Outbox& outbox, std::vector<Asker>& askers, Errc status,
                           std::span<const std::byte> body);

    CheckpointOptions options_;
    Outbox& outbox_;
    const Clock& clock_;
    Phase phase_ = Phase::kIdle;
    bool is_pruning_ = false;  ///< kIdle: old ones are being removed
    uint64_t entered_ns_ = 0;  ///< the phase
    uint64_t heard_ns_ = 0;    ///< in this phase: the last report of a shard
    uint64_t begun_ns_ = 0;    ///< the last one, or the job
    bool is_started_ = false;
    bool is_wanted_ = false;     ///< a signal asks for it, here or at another manager
    bool has_iterated_ = false;  ///< so many iterations are closed that it is due
    bool was_due_ = false;       ///< the one that is under way; or it was only asked for by workers
    bool is_missed_ = false;     ///< the last one was due, and failed
    uint64_t pause_end_ns_ = 0;  ///< of the one that failed last
    std::optional<uint64_t> due_since_ns_;  ///< the one that has not begun
    std::vector<Asker> askers_;             ///< of the next one
    std::vector<Asker> served_;             ///< of the one that is under way
    std::vector<ShardPeer> shards_;
    std::vector<uint32_t> unread_;
    std::set<uint32_t> awaited_;  ///< shards that have yet to do what the phase waits for
    std::set<uint32_t> taking_;   ///< shards that have yet to keep their rows
    checkpoint::Manifest manifest_;
    std::map<uint32_t, uint64_t> highest_;  ///< by table: the last iteration closed anywhere
    std::map<uint32_t, uint64_t> saved_;    ///< the same, of the last checkpoint
    std::shared_ptr<ManagerDisk> disk_;
    std::optional<uint64_t> first_number_;  ///< of this job; lower ones belong to others
    uint64_t tried_number_ = 0;             ///< the highest that may have left files
    std::vector<uint64_t> unsure_numbers_;  ///< whose manifest may still come
    uint64_t last_number_ = 0;
    std::optional<uint64_t> last_iteration_;  ///< that its manifest has
    uint64_t base_ = 0;                       ///< the last one, unless its chunks may not be there
    uint64_t last_begun_ns_ = 0;
    uint64_t last_duration_ns_ = 0;
    std::string last_failure_;
    uint64_t ended_count_ = 0;
    std::deque<Ended> ended_;  ///< the last ones, the very last first
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CheckpointPart: a shard's part in the checkpoint that the manager orders: it stands still, keeps
/// the rows of its tables at the right instant, and writes them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "lib/checkpoint/disk_queue.h"
#include "lib/replication/holdings.h"
#include "lib/server/checkpoint/table_snapshot.h"
#include "lib/wire/checkpoint_message.h"

namespace weir {

/// From freeze() to take() the shard executes no push, and closes no iteration of a table behind the
/// last one that it has closed at any of its segments. From take() on, a table closes iterations up
/// to that of the checkpoint; when it has closed that one everywhere, its rows are kept, and it goes
/// on. If anything fails, all goes on without the checkpoint, and a report says why.
///
/// Thread: the shard's
class CheckpointPart {
public:
    /// They must outlive it. `disk`: null: this process can write none.
    CheckpointPart(ShardTables& tables, const Holdings& holdings,
                   std::shared_ptr<checkpoint::DiskQueue> disk)
        : tables_(tables), holdings_(holdings), disk_(std::move(disk)) {}

    [[nodiscard]] bool is_under_way() const noexcept { return phase_ != Phase::kNone; }

    /// Whether no push is to be executed.
    [[nodiscard]] bool is_frozen() const noexcept { return phase_ == Phase::kFrozen; }

    /// Whether the table is in one that is under way.
    [[nodiscard]] bool needs(uint32_t table) const noexcept;

    /// Whether step() would find something to do.
    [[nodiscard]] bool has_work() const noexcept;

    /// Another one that is under way is given up. While the disk hangs, this one fails at once: what is
    /// written of one before stays in memory until the disk goes on.
    void freeze(uint64_t number);
    /// `shard`: the number of this one.
    void take(const CheckpointOrder& order, uint32_t shard);
    /// The manager gives up this one.
    void give_up(uint64_t number);
    /// What this shard holds has changed, or the manager is gone.
    void fail(const Error& why);

    /// A view has come, or rows were changed that no clock knows of: the next checkpoint writes all.
    void forget_saved() {
        saved_.clear();
        is_saving_void_ = true;
    }

    /// Keeps rows where it is time, copies about `bytes_max` of them, and takes what the disk has
    /// done. `is_replicated`: whether all backups have what the shard had when the last rows were kept.
    /// Returns how much it did.
    size_t step(size_t bytes_max, bool is_replicated);

    /// Whether iterations may be closed now that were held up before, or pushes be executed. True
    /// once for each time.
    [[nodiscard]] bool take_release() noexcept { return std::exchange(is_released_, false); }

    /// Whether rows were kept since the last call.
    [[nodiscard]] bool take_kept() noexcept { return std::exchange(has_kept_, false); }

    /// For the manager.
    [[nodiscard]] std::vector<CheckpointReport> take_reports() {
        return std::exchange(reports_, {});
    }

private:
    enum class Phase : uint8_t { kNone, kFrozen, kTaking };

    using SavedTables = std::map<uint32_t, std::vector<SavedChunk>>;

    [[nodiscard]] size_t step_or_throw(size_t bytes_max, bool is_replicated);
    void end();
    void report(CheckpointReport::Step step);
    [[nodiscard]] Status keep_rows();
    [[nodiscard]] Result<size_t> write_some(size_t bytes_max);

    ShardTables& tables_;
    const Holdings& holdings_;
    std::shared_ptr<checkpoint::DiskQueue> disk_;
    Phase phase_ = Phase::kNone;
    uint64_t number_ = 0;
    uint32_t shard_ = 0;
    std::string folder_;
    std::map<uint32_t, uint64_t>
        awaited_;                  ///< tables whose rows are not kept yet: as of which iteration
    bool has_all_orders_ = false;  ///< awaited_ had all tables
    bool has_taken_ = false;       ///< kTaken was reported
    TableSnapshot::Memory memory_;
    std::vector<std::unique_ptr<TableSnapshot>> snapshots_;  ///< that are not over
    /// The chunks of this shard, by checkpoint. The manager says which one is complete.
    std::map<uint64_t, SavedTables> saved_;
    SavedTables saving_;           ///< of the one that is under way
    bool is_saving_void_ = false;  ///< they are of no use for the next one
    bool is_released_ = false;
    bool has_kept_ = false;
    std::vector<CheckpointReport> reports_;
};

}  // namespace weir

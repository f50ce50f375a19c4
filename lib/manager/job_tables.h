// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobTables: the tables of the job, as the manager keeps them: which there are, which shards have
/// yet to make or to fill them, and which workers wait for that.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/manifest.h"
#include "lib/manager/asker.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/messages.h"
#include "lib/wire/table_list_message.h"

namespace weir {

/// Where to reach a shard.
struct ShardPeer {
    uint32_t number = 0;
    transport::ConnectionId connection = 0;
};

/// Those of the job.
struct JobShards {
    std::vector<ShardPeer> live = {};
    /// Their servers are gone, and no view yet says who takes over from them.
    std::vector<uint32_t> lost = {};
};

/// A job that goes on from a checkpoint has the tables of that, under the same numbers. They are read
/// when a worker wants them: all shards make the table; then each reads the rows that it is primary
/// of; then the worker gets its answer. What a lost shard was primary of others are only in the next
/// view: so nothing is read before forget_shard() says that there is one.
///
/// A table that one shard cannot make is refused: who waits for it hears why, all shards drop it, and
/// its name is free. Its number is not, so that no shard takes it for a later one; a table of the
/// checkpoint keeps it, and is as before anybody wanted it. One that was made but cannot be read is
/// dropped, too, and refused for the rest of the job; later checkpoints have it as it was.
///
/// Thread: the manager's
class JobTables {
public:
    explicit JobTables(Outbox& outbox) noexcept : outbox_(outbox) {}

    /// The job goes on from this checkpoint, in `folder`. Before all else.
    void resume(const checkpoint::Manifest& from, std::string folder);

    /// A worker wants a table. A new one, or one that was not read yet, is made at all `shards`: its
    /// number is returned. The worker gets its answer when they have.
    std::optional<uint32_t> create(const Asker& asker, TableMessage message,
                                   const JobShards& shards);

    /// A worker wants a table that is there already. The same for one that was not read yet.
    std::optional<uint32_t> open(const Asker& asker, std::string_view name,
                                 const JobShards& shards);

    /// A worker wants that nobody has the table any more: its name is free, and its number is never given
    /// out again. The shards drop it, and the worker gets its answer when all of them have, so that none
    /// acknowledges a push to it any more. (They give the memory back as soon as a checkpoint that is under
    /// way lets them.) One of the checkpoint that nobody has is forgotten. Returns its number if shards
    /// had it. The worker hears of errors: there is no such table; it is being made or read.
    std::optional<uint32_t> drop(const Asker& asker, std::string_view name,
                                 const JobShards& shards);

    /// A shard has dropped a table.
    void dropped(uint32_t shard, uint64_t table);

    /// No shard has a dropped table any more, so none sends rows of it to one that joins.
    void forget_dropped() noexcept { dropped_.clear(); }

    /// A shard that joins gets all tables, also those that others are about to make, but none that
    /// was refused.
    void send_all(const ShardPeer& shard);

    /// A shard has made a table, or cannot.
    ///
    /// Errors: why the shard cannot have a table that the job has: it is of no use
    [[nodiscard]] Status made(uint32_t shard, std::string_view shard_name,
                              const wire::Frame& frame);

    /// A shard has read its rows of a table, or cannot.
    void filled(uint32_t shard, const CheckpointReport& report);

    /// The shard is in the job no more: nobody waits for it. `loss`: what is lost with it, which
    /// fails the tables that it has yet to make or to fill. If nothing is, what it has yet to fill is read
    /// again, by who has its copies.
    void forget_shard(uint32_t shard, const Status& loss = {});

    /// The numbers that were given out; there may be none at some of them.
    [[nodiscard]] size_t size() const noexcept { return tables_.size(); }

    [[nodiscard]] const std::string& name(size_t table) const {
        return tables_[table].message.name;
    }

    /// Those that were refused or dropped since the last call.
    [[nodiscard]] std::vector<uint32_t> take_refused() { return std::exchange(refused_, {}); }

    /// The tables that the job has, with those of the checkpoint that were not read yet.
    [[nodiscard]] size_t count() const noexcept;

    /// Whether some shard has yet to make or to fill a table that workers wait for.
    [[nodiscard]] bool is_making() const noexcept;

    /// Whether a table is being read from a checkpoint: no segment may change hands.
    [[nodiscard]] bool is_filling() const noexcept;

    /// Whether shards came to hold something else while they read a table: call fill_again() once all of them
    /// have the newest view.
    [[nodiscard]] bool wants_fill_again() const noexcept;
    void fill_again();

    /// Those that all shards have.
    [[nodiscard]] std::vector<TableSchema> made_tables() const;

    /// One of them by its name.
    ///
    /// Errors: Errc::kNotFound, naming those that there are; Errc::kUnavailable if it is not made yet
    [[nodiscard]] Result<TableSchema> made_table(std::string_view name) const;

    /// Those that a worker can open, from number `first` on, as many as fit into `bytes_max`, and one at
    /// least. Weir's own are left out.
    [[nodiscard]] TableListMessage list(uint64_t first, size_t bytes_max) const;

    /// Those of the checkpoint that nobody has, also because they cannot be read.
    [[nodiscard]] std::vector<uint32_t> unread_tables() const;

    /// The job does not have those of the checkpoint that nobody has asked for.
    void forget_unread();

    /// What the job goes on from.
    [[nodiscard]] ResumedMessage resumed() const;

private:
    struct Entry {
        TableMessage message;
        std::set<uint32_t> asked = {};       ///< shards that have not answered yet, and lost ones
        std::vector<ShardPeer> shards = {};  ///< that were there when it was made
        std::vector<ShardPeer> joined = {};  ///< that have come since, before all had it
        bool is_unread = false;              ///< in the checkpoint; nobody has asked for it
        bool is_filling = false;             ///< the shards read it
        bool is_void = false;                ///< and have to do so again
        bool is_made = false;                ///< all shards that were there have made it
        Errc status = Errc::kOk;             ///< not kOk: the table cannot be made or read
        std::string why = {};                ///< why not: the first reason, which names the shard
        std::vector<Asker> askers = {};      ///< workers that wait for the table

        [[nodiscard]] bool is_from_checkpoint() const noexcept { return message.checkpoint != 0; }

        /// For good.
        [[nodiscard]] bool is_refused() const noexcept {
            return status != Errc::kOk && asked.empty();
        }

        /// All shards have answered, some of them that it is void.
        [[nodiscard]] bool waits_for_view() const noexcept {
            return is_filling && is_void && asked.empty() && status == Errc::kOk;
        }

        /// Shards have yet to make or to fill it.
        [[nodiscard]] bool is_under_way() const noexcept {
            return !is_made && (!asked.empty() || waits_for_view());
        }

        /// Shards have it, or are about to.
        [[nodiscard]] bool is_at_shards() const noexcept {
            return !message.name.empty() && !is_unread && !is_refused();
        }
    };

    /// A worker waits until these shards have dropped the table.
    struct Drop {
        uint32_t table = 0;
        std::set<uint32_t> asked;
        Asker asker;
    };

    [[nodiscard]] Entry* find(std::string_view name);
    static void take_rule(Entry& entry, const TableMessage& wanted);
    std::optional<uint32_t> want(Entry& entry, const Asker& asker, const JobShards& shards);
    void make(Entry& entry, const JobShards& shards);
    void fill(Entry& entry);
    void send(const Entry& entry, const ShardPeer& shard);
    void answer_if_made(Entry& entry);
    void answer_askers(Entry& entry);
    void refuse(Entry& entry, bool is_for_good);
    void forget(Entry& entry);
    void order_drop(uint32_t table, const ShardPeer& shard);
    void answer_dropped();

    Outbox& outbox_;
    std::string folder_;  // of the checkpoint that the job goes on from
    ResumedMessage resumed_;
    std::vector<Entry> tables_;  // by number; without a name: none
    std::vector<uint32_t> refused_;
    std::vector<uint32_t> dropped_;  // shards may have them still, for a checkpoint
    std::vector<Drop> drops_;
};

}  // namespace weir

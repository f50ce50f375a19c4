// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableOrders: which tables there are. The manager orders to make a table, and to drop one:
/// another shard could not make it, or nobody needs it. Each shard vacuums erasable tables for
/// itself.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "lib/server/requests/incoming_requests.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

class TableOrders : ShardRoom {
public:
    /// What a table is made of. All must outlive the shard.
    struct Means {
        Memory& memory;
        KnownLists& lists;
        const RuleRegistry& rules;
    };

    TableOrders(const ShardRoom& room, const Means& means, const CheckpointPart& checkpoint,
                IterationParts& parts, TableReads& reads, Pushes& pushes, Members& members,
                IncomingRequests& requests)
        : ShardRoom(room),
          means_(means),
          checkpoint_(checkpoint),
          parts_(parts),
          reads_(reads),
          pushes_(pushes),
          members_(members),
          requests_(requests) {}

    /// The manager orders a table. A shard that joins makes those that come before its first view
    /// when it has that: make_early().
    void order(uint64_t request, std::span<const std::byte> body);
    void make_early();

    [[nodiscard]] bool is_making() const noexcept { return !to_fill_.empty(); }

    enum class Step : uint8_t { kMore, kDone };

    /// Makes some initial rows of the first table that lacks them. kDone: that has all, and is
    /// there now, or is refused.
    Step go_on_making();

    /// The table is refused, maybe by another shard, or a worker has dropped it: whatever waits
    /// gets a reply as if the table had never been. What a checkpoint that is under way needs stays
    /// until that is over.
    void drop(uint64_t number);
    /// Drops what no checkpoint needs any more.
    void drop_unneeded();

    [[nodiscard]] bool has_unreported_drops() const noexcept { return !unreported_drops_.empty(); }

    /// Tells the manager of tables that are dropped. Its reply to the worker that dropped one says
    /// that no push to it is acknowledged any more: the replies to those before go first.
    void report_drops();

    [[nodiscard]] bool has_erasable() const noexcept { return !erasable_.empty(); }

    [[nodiscard]] bool may_vacuum() const;
    /// Frees some empty rows, in each poll.
    size_t vacuum_some();

private:
    /// One that is made, but for some of its initial rows: it is not used yet.
    struct ToFill {
        uint64_t request = 0;  ///< of the manager
        uint32_t number = 0;
        bool is_from_checkpoint = false;
        uint64_t closed = 0;  ///< iterations, by the checkpoint
        std::unique_ptr<TableShard> rows;
    };

    /// One that the manager orders before the first view.
    struct Early {
        uint64_t request;
        std::vector<std::byte> body;
    };

    /// The manager is to hear of it once the replies to pushes before have left.
    struct UnreportedDrop {
        uint32_t table;
        Replies::Moment dropped;
    };

    [[nodiscard]] Status begin(uint64_t request, std::span<const std::byte> body);
    void add(ToFill& table);
    void refuse(uint64_t request, const Status& status);
    [[nodiscard]] PositionSet held() const;
    void drop_made(uint32_t number);
    void drop_waiting(ShardTable& table);
    [[nodiscard]] bool may_vacuum(uint32_t number) const;

    Means means_;
    const CheckpointPart& checkpoint_;
    IterationParts& parts_;
    TableReads& reads_;
    Pushes& pushes_;
    Members& members_;
    IncomingRequests& requests_;
    std::vector<Early> early_;
    std::deque<ToFill> to_fill_;      ///< in the order of their orders
    std::vector<uint32_t> erasable_;  ///< numbers of such tables
    std::vector<uint32_t> to_drop_;   ///< tables that a checkpoint needs still
    std::vector<UnreportedDrop> unreported_drops_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Holdings: which segments a shard holds, and as what. It tells the tables and their clocks when
/// that changes.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/position.h"
#include "lib/key/position_set.h"
#include "lib/replication/table_replica.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// A segment that a view gives to this shard, or that it is to learn, has rows in every table from
/// then on, until they are dropped. A backup is held as a learned segment.
///
/// The life of a segment that moves: here kLearning, kLearned, kPrimary; at the shard that had it
/// kPrimary, kLeaving, kHandedOver, kDropped. Until it is to be dropped, a later view may give it
/// back, with all that it had.
///
/// Thread: the shard's
class Holdings {
public:
    enum class Role : uint8_t {
        kPrimary,     ///< this shard serves it
        kLeaving,     ///< another shard is primary now, but may not have learned all of it yet
        kHandedOver,  ///< that one has all of it, but may die before it serves
        kDropped,     ///< to be dropped as soon as the network reads none of its rows
        kLearning,    ///< comes from its primary
        kLearned,     ///< all of it is here, and whatever is pushed to it follows
    };

    struct Held {
        PositionRange range;
        Role role = Role::kPrimary;
        uint64_t taken_over = 0;  ///< kLearned: the epoch of the last primary that took it over
    };

    /// `tables` must outlive this.
    explicit Holdings(Replicas& tables) noexcept : tables_(tables) {}

    Holdings(const Holdings&) = delete;
    Holdings& operator=(const Holdings&) = delete;
    ~Holdings() = default;

    /// All that have rows here, whatever their role: what clocks refer to.
    [[nodiscard]] const SegmentList& segments() const noexcept { return segments_; }

    /// The positions that this shard is primary of.
    [[nodiscard]] const PositionSet& primary() const noexcept { return primary_; }

    /// The positions of segments with one of these roles.
    [[nodiscard]] PositionSet in_role(std::initializer_list<Role> roles) const;

    /// Whether it is primary of all that it holds, and nothing is being dropped.
    [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }

    /// Whether drop_some() may have something to do now.
    [[nodiscard]] bool is_dropping() const noexcept;

    /// Whether this segment is here, with this very range and role.
    [[nodiscard]] bool has(PositionRange range, Role role) const noexcept;

    /// A view says what this shard is primary of. What it was primary of before, and is not now,
    /// is leaving.
    /// Errors: Errc::kProtocol if it is to be primary of what it has not, and there are tables; nothing
    ///         has changed
    [[nodiscard]] Status set_primary(std::span<const PositionRange> segments);

    /// As the first view says: all at once, with initial values.
    void begin(std::span<const PositionRange> segments);

    /// Others have all that is leaving.
    void hand_over();
    /// Others serve what was handed over: it can be dropped.
    void let_go();

    /// Does a bounded part of what learn() would take long for. Returns whether it did: then call
    /// it again before.
    [[nodiscard]] bool prepare(PositionRange range);
    /// Makes room in all tables for a segment that is to be learned; its rows are as if never
    /// written, and its times 0.
    /// Errors: Errc::kBusy while rows are being dropped here: try again; Errc::kNoMemory;
    ///         Errc::kProtocol if the shard has some of it already
    [[nodiscard]] Status learn(PositionRange range);
    /// Makes some rows initial of a segment that is being learned that did not come, in a bounded time.
    /// Returns whether more are to be made: then call it again before learned().
    bool fill_some(PositionRange range);
    /// All of a segment that is being learned has come, and all else is filled.
    void learned(PositionRange range);
    /// The primary of `epoch` goes on with a segment that was learned from another one. False if a
    /// later one has done that, or the segment was not learned.
    [[nodiscard]] bool take_over(PositionRange range, uint64_t epoch);
    /// Some of it is missing again.
    void unlearned(PositionRange range);
    /// Drops a segment that is being learned, or was.
    void forget(PositionRange range);

    /// Drops those for which is_named(range) is false.
    template <class IsNamed>
    void forget_unless(IsNamed&& is_named) {
        for (Held& one : held_) {
            const bool is_learned = one.role == Role::kLearning || one.role == Role::kLearned;
            if (is_learned && !is_named(one.range)) one.role = Role::kDropped;
        }
    }

    /// Drops some rows, in a bounded time. Returns whether it did anything.
    bool drop_some();

private:
    [[nodiscard]] Held* find(PositionRange range) noexcept;
    void hold(const std::vector<Held>& held);
    [[nodiscard]] bool is_read(PositionRange range) const;
    [[nodiscard]] bool give_up_dropped();

    Replicas& tables_;
    std::vector<Held> held_;  ///< ascending, disjoint
    SegmentList segments_;
    PositionSet primary_;
    uint64_t generation_ = 0;
    bool is_settled_ = true;
    bool drops_rows_ = false;  ///< some table has rows outside of what it holds
};

}  // namespace weir

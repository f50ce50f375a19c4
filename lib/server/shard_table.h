// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardTable: one table at one shard: its rows, and the requests that wait at it.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lib/key/position.h"
#include "lib/replication/table_replica.h"
#include "lib/server/iterations/open_iterations.h"
#include "lib/server/requests/pins.h"
#include "lib/server/requests/request.h"
#include "lib/store/table.h"
#include "lib/vclock/range_clock.h"
#include "lib/vclock/segment_list.h"

namespace weir {

struct ShardTable final : TableReplica {
    explicit ShardTable(std::unique_ptr<TableShard> table)
        : TableReplica(std::move(table)), iterations(*rows, closed) {}

    [[nodiscard]] bool is_read(KeyRange keys) const noexcept override { return pins.any_of(keys); }

    /// With backups the vacuum takes a step when they have what was erased last. So while it is wanted, the next
    /// change that erases waits for that step: else one would always be under way.
    [[nodiscard]] bool holds_erasures() const noexcept {
        return rows->wants_vacuum() && erased_in != vacuumed_in;
    }

    OpenIterations iterations;
    RequestQueue deferred;  ///< wait until an iteration is closed
    Pins pins;
    uint64_t erased_in = 0;          ///< the last change that has erased rows
    uint64_t vacuumed_in = 0;        ///< what that was when the vacuum took its last step
    bool has_held_erasures = false;  ///< pushes that wait for it
    uint64_t closed_at_start = 0;    ///< iterations: it was read from a checkpoint
    uint64_t watched = 0;            ///< as IterationParts::watch() counts iterations
    uint32_t fill_count = 0;         ///< so many times it is being read from a checkpoint
};

/// All of them, by number; nullptr: none. Who goes through them sees those that there are.
struct ShardTables : Replicas {
    class Iterator {
    public:
        using difference_type = ptrdiff_t;
        using value_type = ShardTable*;

        Iterator() = default;

        Iterator(const Replicas& tables, size_t at) : tables_(&tables), at_(at) { skip_none(); }

        [[nodiscard]] ShardTable* operator*() const noexcept {
            return static_cast<ShardTable*>((*tables_)[at_].get());
        }

        Iterator& operator++() {
            ++at_;
            skip_none();
            return *this;
        }

        void operator++(int) { ++*this; }

        [[nodiscard]] bool operator==(const Iterator& other) const noexcept {
            return at_ == other.at_;
        }

    private:
        void skip_none() {
            while (at_ < tables_->size() && (*tables_)[at_] == nullptr)
                ++at_;
        }

        const Replicas* tables_ = nullptr;
        size_t at_ = 0;
    };

    [[nodiscard]] ShardTable* operator[](size_t number) const noexcept {
        return static_cast<ShardTable*>(Replicas::operator[](number).get());
    }

    void put(size_t number, std::unique_ptr<ShardTable> table) {
        Replicas::operator[](number) = std::move(table);
    }

    [[nodiscard]] std::unique_ptr<ShardTable> take(size_t number) {
        return std::unique_ptr<ShardTable>(
            static_cast<ShardTable*>(Replicas::operator[](number).release()));
    }

    [[nodiscard]] Iterator begin() const { return {*this, 0}; }

    [[nodiscard]] Iterator end() const { return {*this, size()}; }
};

/// The segments in which a push has keys: a run, or those of a list, or none.
struct Touched {
    SegmentRun run;
    const TouchedSegments* list = nullptr;  ///< as RowList::segments

    /// `held`: the segments to which they refer.
    void raise(RangeClock& clock, const SegmentList& held, uint64_t time) const {
        list != nullptr ? clock.raise(held, *list, time) : clock.raise(held, run, time);
    }
};

/// Finds what a push or pull names; of a list that is pushed also the segments of `held`, if that
/// is not null. Nobody reads its keys again. Errors: as TableShard's look-ups of rows
[[nodiscard]] Result<Entries> resolve(ShardTable& table, const Request& request,
                                      const SegmentList* held = nullptr);

/// The arguments that a push brings; without any, those of the table. Nobody reads them again.
/// Errors: as TableShard::arguments()
[[nodiscard]] Result<RuleArguments> arguments_of(const ShardTable& table, const Request& request);

/// The position of the first key of a push or pull, unless it has no keys or they are not here.
[[nodiscard]] std::optional<uint64_t> first_position(const ShardTable& table,
                                                     const Request& request);

/// How a closed iteration failed at a position, or without one anywhere at this shard.
[[nodiscard]] std::optional<IterationFailure> failure_at(const ShardTable& table,
                                                         uint64_t iteration,
                                                         std::optional<uint64_t> position);

/// How the positions of a part, which has keys, have come on with its iteration, which is open
/// where this shard is furthest behind.
enum class OfPositions {
    kOpen,
    kClosed,
    kBoth,    ///< no worker that follows the rules cuts a part so
    kUnknown  ///< its keys are not here
};
[[nodiscard]] OfPositions judge_positions(const ShardTable& table, const Request& part);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ScanWalk: what a scan has read of a sparse table and what it asks for next, while segments move.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/ring/view.h"
#include "lib/wire/scan_message.h"
#include "lib/worker/scan/given_keys.h"

namespace weir {

struct TableInfo;

/// The scan walks through the rows of some shards at a time. A walk is over some of the
/// positions that its shard is primary of, and no position is in two walks, unless it moves before
/// its walk has ended: then it is unread again, and another walk asks its new primary.
///
/// Shards list a table in an order of their own, each another one. So a walk remembers its keys:
/// those of positions that move are left out when they come again. Most shards list the rows as they lie in
/// memory, and rows that went away and came back lie elsewhere: so where anything was moved meanwhile, the
/// walk begins again, and leaves out what it gave.
class ScanWalk {
public:
    static constexpr size_t kWalksMax = 8;

    struct Question {
        uint32_t shard = kNoShard;
        ScanMessage message;
    };

    /// `keys`: only these; `share`: only those at these positions.
    /// Both must outlive this: `memory` is for the keys.
    ScanWalk(Memory& memory, const TableInfo& table, std::optional<KeyRange> keys,
             PositionRange share, uint8_t columns);

    /// Something to ask a shard that has no question open. Nothing if there is none: all was read, or
    /// answers are to come.
    /// Errors: kPeerLost if no server has what is left
    [[nodiscard]] Result<std::optional<Question>> next(const View& view);

    /// Whether all was read.
    [[nodiscard]] bool is_over() const noexcept {
        return walks_.empty() && unread_.ranges().empty();
    }

    /// Keys whose rows are the ones that were written to `memory`; some may have been left out.
    struct Rows {
        std::span<uint64_t> keys;
        std::span<std::byte> values;
        std::span<std::byte> state;
        std::span<std::byte> stamps;
    };

    /// The answer of a shard to its question. There may be no rows in it although more follow. Its keys
    /// must stay until remember(), which does what the next question need not wait for.
    /// Errors: kProtocol if it is malformed, or gives rows that were not asked for
    [[nodiscard]] Result<Rows> take(uint32_t shard, std::span<const std::byte> body,
                                    std::span<std::byte> memory);

    /// The last piece is not used any more.
    void remember();

    /// The question has brought no answer, and is to be asked again.
    void forget_question(uint32_t shard) noexcept;

    /// Some of what was asked for has moved: any answer will do, an error as well.
    [[nodiscard]] bool is_void(uint32_t shard) const noexcept;

    [[nodiscard]] const ScanColumns& columns() const noexcept { return columns_; }

private:
    struct Walk {
        uint32_t shard = kNoShard;
        PositionSet positions;  ///< what is to be read there
        bool begins = true;
        bool by_row = false;
        uint64_t cursor = 0;
        GivenKeys given;
        uint64_t empty_pieces = 0;  ///< in a row
        bool is_asked = false;
        bool is_void = false;  ///< what is asked: positions were lost meanwhile
    };

    void look_at(const View& view);
    void narrow(Walk& walk, const View& view);
    void begin_walks(const View& view);
    [[nodiscard]] Question question_of(Walk& walk) const;
    void end(Walk& walk);
    void remove(const Walk& walk);
    [[nodiscard]] Walk& walk_of(uint32_t shard) noexcept;
    [[nodiscard]] bool are_asked_for(const Walk& walk, std::span<const uint64_t> keys) const;
    void leave_out_moved(Rows& piece) const;

    Memory& memory_;
    const TableInfo& table_;
    ScanColumns columns_;
    uint8_t wanted_;  ///< ScanMessage::Columns
    uint64_t first_key_;
    uint64_t last_key_;
    PositionSet unread_;               ///< in no walk yet
    uint64_t epoch_ = 0;               ///< of the view in which the shards had all of their walks
    std::deque<uint32_t> candidates_;  ///< shards that may have something unread
    std::vector<Walk> walks_;          ///< at most one of a shard
    uint32_t last_shard_ = kNoShard;   ///< whose piece came last,
    std::span<const uint64_t> last_keys_;  ///< and the keys in it that are not yet in its walk
    /// Keys that walks gave before they lost them. They are unread or in a walk. Ascending.
    std::vector<uint64_t> moved_;
};

}  // namespace weir

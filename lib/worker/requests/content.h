// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Content: what a request asks for, whatever has to be sent for it and however often.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/position.h"
#include "lib/wire/frame.h"
#include "lib/worker/calls/operation.h"
#include "lib/worker/calls/selected_rows.h"
#include "lib/worker/peers/piece_order.h"
#include "lib/worker/requests/route.h"

namespace weir {

/// A request has one content from when it is made. A view that moves the keys cuts it into new
/// contents of new requests (cut.h). It is replaced in two cases: by failed_part(), if it is a part
/// of an iteration that cannot be sent any more, and by pull_after(), if it is a push that was
/// executed and whose values are still to come. What changes from one sending to the next is the
/// Attempt.
///
/// Memory is the caller's until the call has ended; so a content refers to it for as long.
struct Content {
    wire::Kind kind = wire::Kind::kPush;
    uint8_t value_type = 0;
    bool is_range = false;        ///< keys first .. first + count - 1; else a list
    bool is_part = false;         ///< push: of an iteration, in which every worker pushes
    bool asks_written = false;    ///< pull: which keys were ever pushed, and not what they are
    bool has_whole_rows = false;  ///< wire::kWholeRows
    bool erases = false;          ///< wire::kErases
    /// Not kOk: the worker cannot send this part, which then has no keys.
    Errc part_status = Errc::kOk;
    uint32_t table = 0;
    uint32_t epoch = 0;      ///< of the view by which it was cut, the low half
    uint32_t row_bytes = 0;  ///< push: of one key's values, as the caller has them
    /// Of what one key's pull brings, as it travels; 0: it is no pull, and wants no values. Scan: of the
    /// memory for all rows.
    uint32_t out_row_bytes = 0;
    uint32_t caller_row_bytes =
        0;                   ///< of the same in the caller's memory: more, if it is widened there
    uint32_t count = 0;      ///< of keys
    uint32_t stamp = 0;      ///< as on the wire; 0: none
    uint32_t parts = 0;      ///< is_part: requests that make up this worker's part at the shard
    uint64_t iteration = 0;  ///< 0: none
    uint64_t first = 0;      ///< the first key of a range; the hash of a list, 0 if nobody knows it
    PiecePlace place;        ///< of a push among those of this client in the table
    PositionMap positions = PositionMap::sparse();  ///< the table's
    const uint64_t* keys = nullptr;                 ///< of a list
    /// Push: the caller's values of these keys; all of the caller's if `order` is not empty. What is neither push nor
    /// pull: its body.
    std::span<const std::byte> values;
    /// Where the values go that it gets; all of the caller's memory if `order` is not empty.
    std::span<std::byte> out;
    std::span<const uint32_t>
        order;               ///< for each key its row in the caller's memory; empty: in a run
    Piece* piece = nullptr;  ///< of a Route: what the shard knows of the list; null: nothing
    TableFilters* filters = nullptr;                     ///< null: none
    std::shared_ptr<const PushExtras> extras = nullptr;  ///< null: none
    /// A Route or CutList, which has keys and order; or a body.
    std::shared_ptr<const void> keeps = nullptr;

    [[nodiscard]] bool is_push() const noexcept { return kind == wire::Kind::kPush; }

    [[nodiscard]] bool is_pull() const noexcept { return kind == wire::Kind::kPull; }

    [[nodiscard]] bool is_scan() const noexcept { return kind == wire::Kind::kScan; }

    /// A push or pull: it has keys, and is cut again when they move.
    [[nodiscard]] bool is_piece() const noexcept { return wire::is_request(kind); }

    /// A push in the order of its table (PieceOrder).
    [[nodiscard]] bool is_ordered() const noexcept { return is_push() && !is_part; }

    /// A pull, or a push that wants values: its shard may write into the caller's memory.
    [[nodiscard]] bool has_out() const noexcept { return out_row_bytes != 0; }

    [[nodiscard]] size_t pushed_bytes() const noexcept { return size_t{count} * row_bytes; }

    [[nodiscard]] size_t out_bytes() const noexcept { return size_t{count} * out_row_bytes; }

    /// Of `out`, for its keys.
    [[nodiscard]] size_t caller_bytes() const noexcept { return size_t{count} * caller_row_bytes; }

    /// A pull of narrow values for which the caller gets floats.
    [[nodiscard]] bool widens() const noexcept { return caller_row_bytes != out_row_bytes; }

    /// Push: it has no values, but calls a function.
    [[nodiscard]] bool calls() const noexcept {
        return extras != nullptr && extras->function != nullptr;
    }

    /// Push of products; else 0.
    [[nodiscard]] uint32_t rank() const noexcept { return extras == nullptr ? 0 : extras->rank; }

    /// What a key's values take at a server.
    [[nodiscard]] size_t server_row_bytes() const noexcept {
        return rank() == 0 ? row_bytes : extras->right.size() / rank();
    }

    /// Push: filters have left some of its rows out. `values` are then of extras->selected.
    [[nodiscard]] bool has_left_out() const noexcept {
        return extras != nullptr && extras->selected != nullptr && !extras->selected->kept.empty();
    }

    /// has_left_out(): the row of the selected ones with which `values` begin.
    [[nodiscard]] size_t first_selected() const noexcept {
        return static_cast<size_t>(values.data() - extras->selected->values.get()) / row_bytes;
    }

    /// Empty for ranges.
    [[nodiscard]] std::span<const uint64_t> list() const noexcept {
        return {keys, keys == nullptr ? 0 : count};
    }

    /// Its number, table and iteration, and nothing of its keys.
    [[nodiscard]] Content without_keys() const;
};

/// Tells the shard that this part of an iteration has failed. Used if the part cannot be sent, mostly
/// because its call has ended. Otherwise all workers would wait for the part until their deadlines.
/// `why`: kOk if the caller took the error.
[[nodiscard]] Content failed_part(const Content& part, Errc why);

/// What is left of a push that was executed before its values could be sent: the pull of its keys.
[[nodiscard]] Content pull_after(const Content& push);

/// What the error of a call that was withdrawn, or whose server is lost, has to say of a push.
[[nodiscard]] std::string_view fate_of_push(wire::Kind kind);

/// `why` with the keys that the request has there, if it has some, and what became of them if they were
/// pushed. Not of a call that has ended: its keys may be gone.
[[nodiscard]] Error with_keys(const Status& why, const Content& content);

}  // namespace weir

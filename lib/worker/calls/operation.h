// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operation: what one call of push or pull asks for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/key/key_range.h"
#include "lib/store/functions/function_entry.h"
#include "lib/store/rules/named_number.h"
#include "lib/task/task_id.h"
#include "lib/wire/frame.h"
#include "lib/worker/calls/call_rows.h"
#include "lib/worker/calls/table_info.h"

namespace weir {

class Filters;
class TableFilters;
struct SelectedRows;

/// What few pushes have beside keys and values. Their requests share it.
struct PushExtras {
    std::vector<std::byte>
        arguments;  ///< of the rule, or an encoded call, as they travel; empty: none
    /// It brings no values, but calls this. Null: it runs the table's rule.
    const FunctionEntry* function = nullptr;
    uint32_t widest_row =
        0;  ///< with that: values of a row of the widest table that it reads; 0: none
    bool has_bound = false;  ///< it erases, and `arguments` are the bound of what it erases
    uint32_t rank = 0;       ///< of products: its rows are `values` times `right`; 0: it has rows
    std::span<const std::byte> right;  ///< rank rows, as long as those of the table
    /// What is pushed of it, once that was selected; null: all, or it was not yet.
    std::shared_ptr<SelectedRows> selected;
};

struct CallOptions {
    /// Push: combine over all workers; pull: wait until this iteration is applied. Not 0.
    std::optional<uint64_t> iteration = std::nullopt;
    /// From when the call is made. 0: of one that names an iteration, kLongNs; of others the client's
    /// default, from when they start.
    uint64_t deadline_ns = 0;
    static constexpr uint64_t kLongNs = uint64_t{365} * 24 * 3600 * kSecond;
    static constexpr uint64_t kOver = 1;  ///< the deadline has passed: nothing is sent
    /// Tasks that must have finished before the call starts. Read before the call returns.
    std::span<const TaskId> after = {};
    /// Push: of the rule. Read before the call returns.
    std::span<const NamedNumber> arguments = {};
    /// Pull: of the values in the caller's memory, as they are kept; nothing: as they are pushed.
    std::optional<ValueType> out_type = {};
    std::optional<uint32_t> stamp = {};  ///< push: of the rows that it changes
    const Filters* filters = nullptr;    ///< null: the table's. Read before the call returns
};

/// A push or pull of a key list or a key range. Keys and memory are the caller's. A call has one
/// operation, or several, each of which pushes or pulls in some table.
struct Operation {
    const TableInfo* table = nullptr;
    wire::Kind kind = wire::Kind::kPush;
    bool by_range = false;
    KeyRange range;
    std::span<const uint64_t> keys;
    std::span<const std::byte> values;  ///< of a push; with a rank, the left matrix
    std::span<std::byte> out;           ///< of a pull, or of a push that wants values
    size_t row_bytes = 0;               ///< pushed for each key; of a pull 0
    size_t out_row_bytes = 0;           ///< what each key gets; of a push that wants nothing 0
    CallOptions options;
    bool asks_written = false;            ///< a pull: which keys were ever pushed
    bool has_whole_rows = false;          ///< values are rows as they are stored, with the state
    bool erases = false;                  ///< a push without values
    std::optional<uint32_t> before = {};  ///< erases: only rows with a lower stamp
    bool follows_part = false;  ///< a pull of the iteration in which the operation before it pushes
    /// Makes `values`, or takes `out`, of the rows of a batch; null: these are the caller's own.
    std::shared_ptr<CallRows> rows = nullptr;
    TableFilters* filters = nullptr;                     ///< null: none
    std::shared_ptr<const PushExtras> extras = nullptr;  ///< null: none

    /// Of values as they are pushed and pulled: no others go through filters.
    [[nodiscard]] bool may_be_filtered() const noexcept {
        return !erases && !has_whole_rows && !asks_written && function() == nullptr;
    }

    [[nodiscard]] bool is_push() const noexcept { return kind == wire::Kind::kPush; }

    /// Extras to change, which no other operation has.
    [[nodiscard]] PushExtras& own_extras() {
        const auto own = extras == nullptr ? std::make_shared<PushExtras>()
                                           : std::make_shared<PushExtras>(*extras);
        extras = own;
        return *own;
    }

    [[nodiscard]] bool has_arguments() const noexcept {
        return extras != nullptr && !extras->arguments.empty();
    }

    [[nodiscard]] bool has_selected() const noexcept {
        return extras != nullptr && extras->selected != nullptr;
    }

    /// A push of products, maybe a wrong one.
    [[nodiscard]] bool has_factors() const noexcept {
        return extras != nullptr && (extras->rank != 0 || !extras->right.empty());
    }

    /// What a push without values calls; else null.
    [[nodiscard]] const FunctionEntry* function() const noexcept {
        return extras == nullptr ? nullptr : extras->function;
    }

    /// A push of products; else 0.
    [[nodiscard]] uint32_t rank() const noexcept { return extras == nullptr ? 0 : extras->rank; }

    /// Filters choose its rows. What products become is the server's affair.
    [[nodiscard]] bool is_selected() const noexcept {
        return filters != nullptr && is_push() && rank() == 0;
    }

    /// What a key's values take at a server.
    [[nodiscard]] size_t server_row_bytes() const noexcept {
        return rank() == 0 ? row_bytes : extras->right.size() / rank();
    }

    [[nodiscard]] uint64_t count() const noexcept {
        return by_range ? range.key_count() : keys.size();
    }

    /// Of the values that the caller gives or gets.
    [[nodiscard]] ValueType caller_type() const noexcept {
        return options.out_type.value_or(computed_type(table->schema.value_type));
    }

    /// What a key gets in the caller's memory. What travels of it is `out_row_bytes`.
    [[nodiscard]] size_t caller_row_bytes() const noexcept {
        const bool is_as_kept = out_row_bytes == 0 || asks_written || has_whole_rows;
        return is_as_kept ? out_row_bytes : table->schema.width * size_of(caller_type());
    }

    /// Whether it is this worker's part of an iteration.
    [[nodiscard]] bool is_part() const noexcept {
        return is_push() && options.iteration.has_value();
    }
};

}  // namespace weir

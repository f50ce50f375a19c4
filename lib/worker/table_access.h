// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Table<T> and Buffer<T> need of the client, independent of the value type. Not for users.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/value_type.h"
#include "lib/store/rules/named_number.h"
#include "lib/store/table_schema.h"
#include "lib/task/task_id.h"

namespace weir {

class ClientState;
class Filters;
class KeyBatch;
struct FunctionEntry;
struct FunctionOptions;
struct TableInfo;
struct TableOptions;

namespace access {

/// While it lives, this thread is the only one in the client: another one that comes meanwhile has no
/// turn, and its call ends with kTwoThreads. Turns of one thread may nest.
class Turn {
public:
    explicit Turn(ClientState& state) noexcept;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

    [[nodiscard]] explicit operator bool() const noexcept { return has_turn_; }

    /// Why this thread has no turn. Logs it, too, once for each client.
    [[nodiscard]] Error error() const;

private:
    ClientState& state_;
    bool has_turn_;
    bool is_outermost_;
};

/// The id of a call that was not started, because its thread had no turn.
inline constexpr uint64_t kNoTurn = ~uint64_t{0};

/// Its error.
[[nodiscard]] Error no_turn();

using Nanoseconds = std::chrono::nanoseconds;
using Iteration = std::optional<uint64_t>;

/// As PushOptions and PullOptions.
struct Options {
    Iteration iteration;
    Nanoseconds deadline;
    std::span<const TaskId> after;
    std::span<const NamedNumber> arguments = {};
    std::optional<ValueType> out_type = {};  ///< of a pull of values as they are kept
    std::optional<uint32_t> stamp = {};
    const Filters* filters = nullptr;  ///< null: those of the table
};

// These four start a call and return its id, for a Task; or kNoTurn.
uint64_t push(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<const std::byte> values, const Options& options);
uint64_t push(ClientState& state, const TableInfo& table, KeyRange keys,
              std::span<const std::byte> values, const Options& options);
uint64_t pull(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<std::byte> out, const Options& options);
uint64_t pull(ClientState& state, const TableInfo& table, KeyRange keys, std::span<std::byte> out,
              const Options& options);

/// What a call does in one table.
struct Item {
    enum class Kind : uint8_t {
        kPush,
        kPull,
        kPushPull,
        kContains,  ///< a pull of a byte for each key
        kPushRows,  ///< of whole rows: values, then state
        kPullRows,
        kErase,  ///< a push without values
        kCall,   ///< a push without values, that calls a function which changes
        kPushFactors,
    };

    const TableInfo* table = nullptr;
    Kind kind = Kind::kPush;
    std::span<const uint64_t> keys;
    KeyRange range{};  ///< in place of keys, if `is_range`
    bool is_range = false;
    KeyBatch* batch =
        nullptr;  ///< in place of keys, if not null; then rows are those of its places
    std::span<const std::byte> values;
    std::span<const std::byte> right{};  ///< kPushFactors: then `values` are the left matrix
    std::span<std::byte> out;
    std::span<const NamedNumber> arguments = {};
    std::optional<uint32_t> before = {};  ///< kErase: only rows with a lower stamp
    std::optional<double> below = {};  ///< kErase: only rows whose values are all smaller in size
    const FunctionEntry* function = nullptr;       ///< kCall
    std::span<const std::byte> encoded_call = {};  ///< with that: a CallMessage
    uint32_t widest_row = 1;                       ///< and values of a row, of its widest table
};

/// Starts one call that does all of `items`.
uint64_t start(const std::shared_ptr<ClientState>& state, std::span<const Item> items,
               const Options& options);

/// On which rows a function runs: of all keys, if it names none.
struct CalledRows {
    std::optional<std::span<const uint64_t>> keys{};
    std::optional<KeyRange> range{};
    KeyBatch* batch = nullptr;
};

/// Starts the call of a function.
uint64_t call(const std::shared_ptr<ClientState>& state, const TableInfo& table,
              std::string_view function, const CalledRows& rows, const FunctionOptions& options);
/// A call that has ended with `why`.
uint64_t failed(ClientState& state, Error why);

[[nodiscard]] size_t state_bytes(const TableInfo& table) noexcept;

[[nodiscard]] const TableSchema& schema(const TableInfo& table) noexcept;
[[nodiscard]] size_t pushed_row_bytes(const TableInfo& table) noexcept;
[[nodiscard]] Iteration next_iteration(ClientState& state, const TableInfo& table);
[[nodiscard]] Status set_filters(ClientState& state, const TableInfo& table,
                                 const Filters& filters);

/// Errors: kInvalidArgument for a name that is kept for tables of Weir's own
[[nodiscard]] Status check_users_name(std::string_view name);
/// A user's, or one of Weir's own.
[[nodiscard]] Result<std::shared_ptr<const TableInfo>> make_table(ClientState& state,
                                                                  std::string_view name,
                                                                  ValueType type,
                                                                  const TableOptions& options,
                                                                  std::span<const TaskId> after);
[[nodiscard]] Result<std::shared_ptr<const TableInfo>> create_table(ClientState& state,
                                                                    std::string_view name,
                                                                    ValueType type,
                                                                    const TableOptions& options,
                                                                    std::span<const TaskId> after);
[[nodiscard]] Result<std::shared_ptr<const TableInfo>> open_table(ClientState& state,
                                                                  std::string_view name,
                                                                  ValueType type, uint32_t width,
                                                                  std::span<const TaskId> after);
/// Zeroed registered memory. It keeps the client alive, and returns to the pool once no request
/// of the client uses it any more.
/// Errors: kNoMemory
[[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(const std::shared_ptr<ClientState>& state,
                                                          size_t count, size_t value_bytes);

}  // namespace access
}  // namespace weir

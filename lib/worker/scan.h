// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Scan<T>: reads out a table piece by piece, without knowing its keys.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/value_type.h"
#include "lib/task/task_id.h"

namespace weir {

class ClientState;
class ScanSource;
struct TableInfo;

/// Options of a scan.
struct ScanOptions {
    /// Only these keys. Of a sparse table, the servers look at all keys nevertheless.
    std::optional<KeyRange> keys = std::nullopt;
    /// Only part `share` of `shares` of them, counted from 0: so several clients read a table, each a
    /// part. A key is always in the same part, wherever it moves.
    uint32_t share = 0;
    uint32_t shares = 1;
    /// Also the state that the table's rule keeps of each row: Scan::state().
    bool has_state = false;
    /// Of an erasable table: also the stamps of its rows, Scan::stamps().
    bool has_stamps = false;
    /// False: of a sparse table no values, which makes its pieces longer.
    bool has_values = true;
    /// How long a piece may take, also if its keys move meanwhile. 0: the client's deadline
    /// (WEIR_DEADLINE_MS). Negative: it is over already.
    std::chrono::nanoseconds deadline{0};
    /// As PushOptions::after: the first next() waits for these tasks; with a deadline, at most for
    /// that, counted from when the scan is made.
    std::vector<TaskId> after = {};
};

/// What Scan<T> does, for any type of values. Not for users.
class TableScan {
public:
    TableScan(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info,
              const ScanOptions& options);
    TableScan(const TableScan&) = delete;
    TableScan& operator=(const TableScan&) = delete;
    ~TableScan();

    [[nodiscard]] bool next();

    [[nodiscard]] std::span<const uint64_t> keys();

    [[nodiscard]] KeyRange range() const noexcept { return range_; }

    [[nodiscard]] std::span<const std::byte> values() const noexcept;

    [[nodiscard]] std::span<const std::byte> state() const noexcept { return row_state_; }

    [[nodiscard]] std::span<const uint32_t> stamps() const noexcept { return stamps_; }

    [[nodiscard]] const Status& status() const noexcept;

private:
    [[nodiscard]] Status check(const ScanOptions& options);
    [[nodiscard]] Status begin();
    [[nodiscard]] Status fetch();
    void forget_piece() noexcept;
    [[nodiscard]] std::span<const std::byte> widened(std::span<const std::byte> kept);

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<const TableInfo> info_;
    uint64_t deadline_ns_ = 0;  // of a piece
    std::unique_ptr<ScanSource> source_;
    uint64_t call_ = 0;   // waits for ScanOptions::after
    bool is_due_ = true;  // call_ has ended, or there is none
    // The piece.
    KeyRange range_;
    std::span<const uint64_t> keys_;
    std::span<const std::byte> values_;
    std::span<const std::byte> row_state_;
    std::span<const uint32_t> stamps_;
    std::vector<uint64_t> range_keys_;  // those of range_, once they were asked for
    std::vector<float> widened_;        // values that are kept in 16 bits
    Status status_;
    mutable uint64_t refused_ = 0;  // atomic: the thread whose last next() found another one here
    mutable bool is_status_seen_ = false;  // since it is an error
};

/// All keys that have a row in a table, with their values. Of a dense table these are all keys,
/// of a sparse one those that were ever pushed, or named in a push, and not erased since. Pieces come server by server,
/// in no order; the keys of one piece ascend.
///
/// Pushes may go on meanwhile, and servers may join and leave: the scan goes on at the servers
/// that have the keys then. A key that is in the table from begin to end comes exactly once,
/// with all its values, and its state, as they were at one moment since the scan began. Some pieces are fetched
/// while others are used, so these moments differ from key to key. A key that is added meanwhile
/// comes once or not at all. For the state of one moment, put the scan between two barriers.
///
/// An error that nobody has asked for when the Scan is destroyed is logged and counted, as that of
/// a Task.
///
/// Of a sparse table, a scan remembers the keys of the shards that it reads (8 at a time), 8 bytes each. Its
/// pieces lie in registered memory: half a megabyte for each of these, or one row if that is longer.
///
/// ```cpp
/// weir::Scan<float> scan = table.scan();
/// while (scan.next()) use(scan.keys(), scan.values());
/// if (!scan.status()) return scan.status();
/// ```
///
/// Thread: the client's
template <Value T>
class [[nodiscard]] Scan {
public:
    /// Takes the next piece: up to half a megabyte, or one row if that is longer. Blocks until it
    /// is there; not in a handler of a task. False if there are no more, or after an error: see
    /// status().
    [[nodiscard]] bool next() { return scan_->next(); }

    /// The keys of this piece; valid until the next call of next().
    [[nodiscard]] std::span<const uint64_t> keys() const { return scan_->keys(); }

    /// The same of a dense table, without an array of them. Of a sparse one it is empty.
    [[nodiscard]] KeyRange range() const noexcept { return scan_->range(); }

    /// Shape:   keys().size() * Table::width(), row per key
    [[nodiscard]] std::span<const T> values() const noexcept {
        const std::span<const std::byte> bytes = scan_->values();
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }

    /// With ScanOptions::has_state, what Table::state_bytes() says of each row, row after row. Of a rule
    /// without state it is empty.
    [[nodiscard]] std::span<const std::byte> state() const noexcept { return scan_->state(); }

    /// With ScanOptions::has_stamps, that of each row: when it was last pushed.
    [[nodiscard]] std::span<const uint32_t> stamps() const noexcept { return scan_->stamps(); }

    /// Why next() returned false: ok if all was read.
    ///
    /// Errors: as Task::wait for a pull, but after kTwoThreads the scan goes on with the next call of next();
    ///         kInvalidArgument for a range that ends before it begins, a share that there is not, or
    ///         stamps of a table that is not erasable
    [[nodiscard]] const Status& status() const noexcept { return scan_->status(); }

private:
    template <Value U>
    friend class Table;

    explicit Scan(std::unique_ptr<TableScan> scan) noexcept : scan_(std::move(scan)) {}

    std::unique_ptr<TableScan> scan_;
};

}  // namespace weir

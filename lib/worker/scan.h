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
class ScanWalk;
struct TableInfo;

/// Options of a scan.
struct ScanOptions {
    /// Only these keys. Of a sparse table, the servers look at all keys nevertheless.
    std::optional<KeyRange> keys = std::nullopt;
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

    [[nodiscard]] std::span<const uint64_t> keys() const noexcept;

    [[nodiscard]] std::span<const std::byte> values() const noexcept;

    [[nodiscard]] const Status& status() const noexcept;

private:
    void ask(uint64_t deadline_ns);
    [[nodiscard]] Status outcome();
    [[nodiscard]] Status begin();
    [[nodiscard]] Status take_piece(uint64_t end_ns);
    [[nodiscard]] Status pull_values();

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<const TableInfo> info_;
    ScanOptions options_;
    uint64_t deadline_ns_ = 0;  // of a piece
    std::unique_ptr<ScanWalk> walk_;
    uint32_t shard_ = 0;  // asked for the next piece
    uint64_t call_ = 0;
    bool is_asked_ = false;  // call_ asks for the next piece
    bool is_due_ = true;     // else call_ waits for ScanOptions::after
    std::vector<uint64_t> keys_;
    std::vector<std::byte> values_;
    Status status_;
    mutable uint64_t refused_ = 0;  // atomic: the thread whose last next() found another one here
    mutable bool is_status_seen_ = false;  // since it is an error
};

/// All keys that have a row in a table, with their values. Of a dense table these are all keys,
/// of a sparse one those that were ever pushed, or named in a push. Pieces come server by server,
/// in no order; the keys of one piece ascend.
///
/// Pushes may go on meanwhile, and servers may join and leave: the scan goes on at the servers
/// that have the keys then. A key that is in the table from begin to end comes exactly once,
/// with all its values as they were at one moment while next() fetched its piece or the one
/// before it; keys of different pieces may be of different moments. A key that is added meanwhile
/// comes once or not at all. For the state of one moment, put the scan between two barriers.
///
/// An error that nobody has asked for when the Scan is destroyed is logged and counted, as that of
/// a Task.
///
/// Of a sparse table, a scan remembers the keys of the server's shard that it reads, 8 bytes each.
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
    /// Fetches the next piece: a few thousand bytes, or one row if that is longer. Blocks until it
    /// is there; not in a handler of a task. False if there are no more, or after an error: see
    /// status().
    [[nodiscard]] bool next() { return scan_->next(); }

    /// The keys of this piece; valid until the next call of next().
    [[nodiscard]] std::span<const uint64_t> keys() const noexcept { return scan_->keys(); }

    /// Shape:   keys().size() * Table::width(), row per key
    [[nodiscard]] std::span<const T> values() const noexcept {
        const std::span<const std::byte> bytes = scan_->values();
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }

    /// Why next() returned false: ok if all was read.
    ///
    /// Errors: as Task::wait for a pull, but after kTwoThreads the scan goes on with the next call of next();
    ///         kInvalidArgument for a range that ends before it begins
    [[nodiscard]] const Status& status() const noexcept { return scan_->status(); }

private:
    template <Value U>
    friend class Table;

    explicit Scan(std::unique_ptr<TableScan> scan) noexcept : scan_(std::move(scan)) {}

    std::unique_ptr<TableScan> scan_;
};

}  // namespace weir

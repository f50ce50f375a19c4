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

namespace weir {

class ClientState;
struct TableInfo;

/// Options of a scan.
struct ScanOptions {
    /// Only these keys. Of a sparse table, the servers look at all keys nevertheless.
    std::optional<KeyRange> keys = std::nullopt;
    /// How long a server may take for a piece. 0: the client's deadline (WEIR_DEADLINE_MS).
    /// Negative: it is over already.
    std::chrono::nanoseconds deadline{0};
};

/// What Scan<T> does, for any type of values. Not for users.
class TableScan {
public:
    TableScan(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info,
              const ScanOptions& options);
    TableScan(const TableScan&) = delete;
    TableScan& operator=(const TableScan&) = delete;
    TableScan(TableScan&&) = delete;
    TableScan& operator=(TableScan&&) = delete;
    ~TableScan();

    [[nodiscard]] bool next();

    [[nodiscard]] std::span<const uint64_t> keys() const noexcept { return keys_; }

    [[nodiscard]] std::span<const std::byte> values() const noexcept { return values_; }

    [[nodiscard]] const Status& status() const noexcept { return status_; }

private:
    void ask();
    [[nodiscard]] Status take_piece();
    [[nodiscard]] Status pull_values();

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<const TableInfo> info_;
    ScanOptions options_;
    uint32_t shard_ = 0;         // that is asked; all shards in turn
    bool begins_ = true;         // at this shard
    uint64_t epoch_ = 0;         // when it began at this shard
    uint64_t cursor_ = 0;        // at this shard
    uint64_t empty_pieces_ = 0;  // in a row
    uint64_t call_ = 0;
    bool is_asked_ = false;  // call_ asks for the next piece
    std::vector<uint64_t> keys_;
    std::vector<std::byte> values_;
    Status status_;
};

/// All keys that have a row in a table, with their values. Of a dense table these are all keys,
/// of a sparse one those that were ever pushed, or named in a push. Pieces come server by server,
/// in no order; the keys of one piece ascend.
///
/// Pushes may go on meanwhile. A key that is in the table from begin to end comes exactly once,
/// with all its values as they were at one moment while next() fetched its piece or the one
/// before it; keys of different pieces may be of different moments. A key that is added meanwhile
/// comes once or not at all. For the state of one moment, put the scan between two barriers.
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
    /// Errors: as Task::wait for a pull; kStaleEpoch if keys have moved to other servers
    ///         meanwhile: begin anew; kInvalidArgument for a range that ends before it begins
    [[nodiscard]] const Status& status() const noexcept { return scan_->status(); }

private:
    template <Value U>
    friend class Table;

    explicit Scan(std::unique_ptr<TableScan> scan) noexcept : scan_(std::move(scan)) {}

    std::unique_ptr<TableScan> scan_;
};

}  // namespace weir

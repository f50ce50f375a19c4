// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableFill: reads the rows of some positions of a table from a checkpoint.

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/checkpoint/disk_queue.h"
#include "lib/key/position_set.h"
#include "lib/store/table.h"

namespace weir {

/// The disk queue's thread reads and decodes; the shard's takes the rows, in bounded steps. They have
/// the buffers in turns.
///
/// Thread: the shard's
class TableFill {
public:
    /// `table` must outlive it, and hold the positions. `number`: of the checkpoint in `folder`.
    TableFill(TableShard& table, PositionSet positions, std::shared_ptr<checkpoint::DiskQueue> disk,
              std::string folder, uint64_t number);

    /// Takes some rows, if they are there. Returns how much it did, in bytes.
    size_t step();

    /// Whether step() has something to take now.
    [[nodiscard]] bool has_rows() const noexcept { return has_part_; }

    /// All rows are in the table, or outcome() says why not.
    [[nodiscard]] bool is_over() const noexcept { return is_over_; }

    /// Errors: those of RangeReader and of TableShard::take(); kNotFound if the checkpoint does not
    ///         have the table
    [[nodiscard]] const Status& outcome() const noexcept { return outcome_; }

private:
    struct Reading;

    void read();
    void end(Status outcome);

    TableShard& table_;
    std::shared_ptr<checkpoint::DiskQueue> disk_;
    std::shared_ptr<Reading> reading_;
    std::future<Result<bool>> next_;  ///< whether there is another part
    bool has_part_ = false;
    size_t taken_ = 0;  ///< rows of the part
    bool is_over_ = false;
    Status outcome_;
};

}  // namespace weir

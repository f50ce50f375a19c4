// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SparseScan: the pieces of a sparse table, which shards write to this worker's memory.

#include <memory>
#include <vector>

#include "lib/store/memory.h"
#include "lib/worker/scan/scan_source.h"
#include "lib/worker/scan/scan_walk.h"

namespace weir {

/// While the caller uses a piece, its shard fills the next one, and other shards fill theirs.
///
/// Thread: the client's
class SparseScan final : public ScanSource {
public:
    /// `core` and `table` must outlive this.
    SparseScan(ClientCore& core, const TableInfo& table, const ScanExtent& extent);

    void release() override;
    [[nodiscard]] Status ask(uint64_t now_ns, uint64_t deadline_ns) override;

    [[nodiscard]] bool is_over() const noexcept override { return walk_.is_over(); }

    [[nodiscard]] bool is_ready() override;
    [[nodiscard]] Result<ScanRows> take(const ScanTime& time, uint64_t now_ns) override;
    [[nodiscard]] Status drop() override;

private:
    struct Asked : ScanCall {
        uint32_t shard = 0;
    };

    [[nodiscard]] Result<Block> memory_for_piece();

    ClientCore& core_;
    const TableInfo& table_;
    ScanWalk walk_;
    size_t piece_bytes_;
    std::vector<Asked> asked_;
    size_t turn_ = 0;  ///< of asked_, who is looked at first
    Block piece_;      ///< that the caller uses
    std::vector<Block> spares_;
};

}  // namespace weir

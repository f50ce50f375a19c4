// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DenseScan: the pieces of a dense table, all of whose keys are known: pulls of ranges, some of them
/// under way at a time.

#include <functional>
#include <memory>
#include <vector>

#include "lib/worker/scan/scan_source.h"

namespace weir {

/// Thread: the client's
class DenseScan final : public ScanSource {
public:
    /// So many bytes of registered memory, which stay for as long as a request may use them.
    using Allocate = std::function<Result<std::shared_ptr<std::byte>>(size_t bytes)>;

    /// `core` and `table` must outlive this.
    DenseScan(ClientCore& core, Allocate allocate, const TableInfo& table,
              const ScanExtent& extent);

    void release() override;
    [[nodiscard]] Status ask(uint64_t now_ns, uint64_t deadline_ns) override;
    [[nodiscard]] bool is_over() const noexcept override;
    [[nodiscard]] bool is_ready() override;
    [[nodiscard]] Result<ScanRows> take(const ScanTime& time, uint64_t now_ns) override;
    [[nodiscard]] Status drop() override;

private:
    /// Memory for one piece, and the call that fills it.
    struct Place {
        std::shared_ptr<std::byte> memory;
        KeyRange keys;
        ScanCall call;
        bool is_asked = false;
        bool is_used = false;  ///< by the caller
    };

    void pull(Place& place, uint64_t now_ns, uint64_t deadline_ns);
    [[nodiscard]] KeyRange next_keys();
    [[nodiscard]] bool has_left() const noexcept;
    [[nodiscard]] std::span<std::byte> memory_of(const Place& place) const noexcept;
    [[nodiscard]] ScanRows split(std::span<const std::byte> rows, KeyRange keys);

    ClientCore& core_;
    Allocate allocate_;
    const TableInfo& table_;
    bool has_state_;
    size_t row_bytes_;
    uint64_t piece_keys_;
    /// Runs of keys that are read side by side, so that several servers are at work.
    std::vector<KeyRange> left_;
    size_t turn_ = 0;  ///< of left_
    std::vector<Place> places_;
    size_t next_place_ = 0;  ///< they are asked, and taken, in turn
    size_t first_place_ = 0;
    std::vector<std::byte> values_;  ///< with the state: rows that were taken apart
    std::vector<std::byte> states_;
};

}  // namespace weir

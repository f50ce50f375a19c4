// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan/sparse_scan.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {
namespace {

uint8_t columns_of(const ScanExtent& extent) noexcept {
    return static_cast<uint8_t>((extent.has_values ? ScanMessage::kValues : 0) |
                                (extent.has_state ? ScanMessage::kState : 0) |
                                (extent.has_stamps ? ScanMessage::kStamps : 0));
}

}  // namespace

SparseScan::SparseScan(ClientCore& core, const TableInfo& table, const ScanExtent& extent)
    : core_(core),
      table_(table),
      walk_(core.memory(), table, extent.keys, share_of(~uint64_t{0}, extent.share, extent.shares),
            columns_of(extent)),
      piece_bytes_(std::max(extent.piece_bytes, walk_.columns().bytes(1))) {}

Result<Block> SparseScan::memory_for_piece() {
    if (!spares_.empty()) {
        Block block = std::move(spares_.back());
        spares_.pop_back();
        return block;
    }
    Block block(core_.memory(), piece_bytes_);
    if (block) return block;
    return Error(Errc::kNoMemory,
                 fmt::format("table '{}': no {} bytes of registered memory for a piece of a scan; "
                             "the log of this process names the limit that was reached",
                             table_.schema.name, piece_bytes_));
}

void SparseScan::release() {
    walk_.remember();
    if (piece_) spares_.push_back(std::exchange(piece_, Block()));
}

Status SparseScan::ask(uint64_t now_ns, uint64_t deadline_ns) {
    while (true) {
        WEIR_ASSIGN(const auto question, walk_.next(core_.view()));
        if (!question) return {};
        Result<Block> memory = memory_for_piece();
        if (!memory) {
            walk_.forget_question(question->shard);
            if (asked_.empty()) return memory.error();
            return {};  // one piece less at a time
        }
        Asked asked;
        asked.asked_ns = now_ns;
        asked.shard = question->shard;
        asked.id = core_.scan(question->shard, question->message, std::move(*memory), deadline_ns);
        asked_.push_back(asked);
    }
}

bool SparseScan::is_ready() {
    return asked_.empty() ||
           std::ranges::any_of(asked_, [&](const Asked& one) { return core_.done(one.id); });
}

Result<ScanRows> SparseScan::take(const ScanTime& time, uint64_t) {
    const auto is_done = [&](const Asked& one) { return core_.done(one.id); };
    const auto from = asked_.begin() + static_cast<ptrdiff_t>(std::min(turn_, asked_.size()));
    auto found = std::find_if(from, asked_.end(), is_done);
    if (found == asked_.end()) found = std::find_if(asked_.begin(), asked_.end(), is_done);
    if (found == asked_.end()) return ScanRows();
    turn_ =
        static_cast<size_t>(found - asked_.begin());  // that of the next one, once this is erased
    const Asked asked = *found;
    asked_.erase(found);
    Result<Control::Scanned> scanned = core_.take_scan(asked.id);
    // Some of what was asked for is elsewhere now.
    const bool is_again = scanned.code() == Errc::kStaleEpoch || walk_.is_void(asked.shard) ||
                          asked.was_too_early(scanned.code(), time.begun_ns);
    if (is_again) {
        if (scanned) spares_.push_back(std::move(scanned->memory));
        walk_.forget_question(asked.shard);
        return ScanRows();
    }
    if (!scanned) return scanned.error();
    WEIR_CHECK(scanned->memory);
    release();
    piece_ = std::move(scanned->memory);
    const Result<ScanWalk::Rows> piece =
        walk_.take(asked.shard, scanned->body, {piece_.data(), piece_bytes_});
    if (!piece) {
        return Error(piece.code(),
                     fmt::format("table '{}': {} from {}", table_.schema.name,
                                 piece.error().message(), core_.peer_name(asked.shard)));
    }
    ScanRows rows;
    rows.keys = piece->keys;
    rows.values = piece->values;
    rows.state = piece->state;
    rows.stamps = {reinterpret_cast<const uint32_t*>(piece->stamps.data()),
                   piece->stamps.size() / sizeof(uint32_t)};
    return rows;
}

Status SparseScan::drop() {
    Status first;
    for (const Asked& asked : std::exchange(asked_, {})) {
        const Status ended = core_.done(asked.id) ? core_.take(asked.id) : Status();
        core_.drop(asked.id);
        const bool goes_on = ended.code() == Errc::kStaleEpoch;  // elsewhere
        if (first && !goes_on) first = ended;
    }
    return first;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan/scan_walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/worker/calls/table_info.h"

namespace weir {
namespace {

/// More pieces without a row than the largest shard can send one after the other.
constexpr uint64_t kEmptyPiecesMax = uint64_t{1} << 20;

PositionSet both(const PositionSet& a, const PositionSet& b) {
    return a.without(a.without(b));
}

}  // namespace

ScanWalk::ScanWalk(Memory& memory, const TableInfo& table, std::optional<KeyRange> keys,
                   PositionRange share, uint8_t columns)
    : memory_(memory),
      table_(table),
      columns_{(columns & ScanMessage::kValues) != 0 ? table.row_bytes : 0,
               (columns & ScanMessage::kState) != 0 ? table.state_bytes : 0,
               (columns & ScanMessage::kStamps) != 0 ? sizeof(uint32_t) : 0},
      wanted_(columns),
      first_key_(keys ? keys->begin : 0),
      last_key_(keys ? keys->end - 1 : ~uint64_t{0}) {
    WEIR_CHECK(!table.positions.is_dense());
    if (!keys || !keys->empty()) unread_ = PositionSet(std::span(&share, 1));
}

Result<std::optional<ScanWalk::Question>> ScanWalk::next(const View& view) {
    if (view.epoch() != epoch_) look_at(view);
    begin_walks(view);
    for (Walk& walk : walks_) {
        if (!walk.is_asked) return std::optional(question_of(walk));
    }
    if (!walks_.empty() || unread_.ranges().empty()) return std::optional<Question>();
    return Error(Errc::kPeerLost,
                 fmt::format("table '{}': a part of it is lost: no server has a copy of the "
                             "keys at position {:#x} of the ring",
                             table_.schema.name, unread_.ranges().front().first));
}

void ScanWalk::look_at(const View& view) {
    remember();
    const uint64_t before = std::exchange(epoch_, view.epoch());
    for (Walk& walk : walks_) {
        const ViewShard* const shard = view.shard(walk.shard);
        if (shard == nullptr || shard->since > before) narrow(walk, view);
    }
    std::ranges::sort(moved_);
    std::erase_if(
        walks_, [](const Walk& walk) { return walk.positions.ranges().empty() && !walk.is_asked; });
    candidates_.clear();
    for (const ViewShard& shard : view.shards())
        candidates_.push_back(shard.number);
}

/// What the shard does not have any more is unread again. An answer that is on its way may have rows of
/// it, so it does not count.
void ScanWalk::narrow(Walk& walk, const View& view) {
    const PositionSet kept = both(walk.positions, view.owned(walk.shard));
    const PositionSet lost = walk.positions.without(kept);
    unread_ = unread_.with(lost);
    walk.positions = kept;
    walk.is_void = walk.is_asked;
    walk.given.move_to(moved_);
    if (!walk.by_row) return;
    walk.begins = true;
    walk.cursor = 0;
}

void ScanWalk::begin_walks(const View& view) {
    while (walks_.size() < kWalksMax && !candidates_.empty()) {
        const uint32_t shard = candidates_.front();
        candidates_.pop_front();
        const bool has_walk =
            std::ranges::any_of(walks_, [&](const Walk& walk) { return walk.shard == shard; });
        if (has_walk || unread_.ranges().empty()) continue;
        const PositionSet owned = both(unread_, view.owned(shard));
        const size_t count = std::min(owned.ranges().size(), ScanMessage::kRangesMax);
        if (count == 0) continue;
        Walk walk{.shard = shard,
                  .positions = PositionSet(owned.ranges().first(count)),
                  .given = GivenKeys(memory_)};
        unread_ = unread_.without(walk.positions);
        walks_.push_back(std::move(walk));
    }
}

ScanWalk::Question ScanWalk::question_of(Walk& walk) const {
    walk.is_asked = true;
    Question question{walk.shard, {}};
    ScanMessage& message = question.message;
    message.epoch = epoch_;
    message.table = table_.schema.id;
    message.width = table_.schema.width;
    message.value_type = static_cast<uint8_t>(table_.schema.value_type);
    message.columns = wanted_;
    message.begins = walk.begins;
    message.by_row = walk.by_row;
    message.cursor = walk.cursor;
    message.first_key = first_key_;
    message.last_key = last_key_;
    message.positions.assign(walk.positions.ranges().begin(), walk.positions.ranges().end());
    return question;
}

ScanWalk::Walk& ScanWalk::walk_of(uint32_t shard) noexcept {
    const auto walk =
        std::ranges::find_if(walks_, [&](const Walk& one) { return one.shard == shard; });
    WEIR_CHECK(walk != walks_.end() && walk->is_asked);
    return *walk;
}

bool ScanWalk::is_void(uint32_t shard) const noexcept {
    return std::ranges::any_of(
        walks_, [&](const Walk& walk) { return walk.shard == shard && walk.is_void; });
}

void ScanWalk::forget_question(uint32_t shard) noexcept {
    Walk& walk = walk_of(shard);
    walk.is_asked = walk.is_void = false;
    if (walk.positions.ranges().empty()) remove(walk);
}

void ScanWalk::remove(const Walk& walk) {
    candidates_.push_front(walk.shard);  // it may have more than fits into a walk
    walks_.erase(walks_.begin() + (&walk - walks_.data()));
}

void ScanWalk::end(Walk& walk) {
    std::erase_if(moved_, [&](uint64_t key) {
        return walk.positions.contains(table_.positions.position(key));
    });
    remove(walk);
}

Result<ScanWalk::Rows> ScanWalk::take(uint32_t shard, std::span<const std::byte> body,
                                      std::span<std::byte> memory) {
    Walk& walk = walk_of(shard);
    if (walk.is_void) {
        forget_question(shard);
        return Rows();
    }
    walk.is_asked = false;
    const std::optional<ScanReply> reply = ScanReply::decode(body);
    walk.empty_pieces = reply && reply->row_count == 0 ? walk.empty_pieces + 1 : 0;
    const bool is_sound = reply && walk.empty_pieces <= kEmptyPiecesMax &&
                          reply->row_count <= columns_.rows_in(memory.size());
    Rows piece;
    if (is_sound) {
        const size_t count = reply->row_count;
        piece.keys = {reinterpret_cast<uint64_t*>(memory.data()), count};
        piece.values = memory.subspan(columns_.values_at(count), count * columns_.value_bytes);
        piece.state = memory.subspan(columns_.state_at(count), count * columns_.state_bytes);
        piece.stamps = memory.subspan(columns_.stamps_at(count), count * columns_.stamp_bytes);
    }
    if (!is_sound || !are_asked_for(walk, piece.keys))
        return Error(Errc::kProtocol, "a malformed piece of a scan");
    if (!moved_.empty()) leave_out_moved(piece);
    walk.begins = false;
    walk.by_row = (reply->flags & ScanReply::kByRow) != 0;
    walk.cursor = reply->cursor;
    if ((reply->flags & ScanReply::kAtEnd) != 0) {
        end(walk);
    } else {
        last_shard_ = shard;
        last_keys_ = piece.keys;
    }
    return piece;
}

void ScanWalk::remember() {
    if (last_keys_.empty()) return;
    const auto walk =
        std::ranges::find_if(walks_, [&](const Walk& one) { return one.shard == last_shard_; });
    WEIR_CHECK(walk != walks_.end());
    walk->given.add(std::exchange(last_keys_, {}));
}

bool ScanWalk::are_asked_for(const Walk& walk, std::span<const uint64_t> keys) const {
    const bool is_any = first_key_ == 0 && last_key_ == ~uint64_t{0};
    if (is_any && walk.positions.is_whole_ring()) return true;
    bool found_other = false;
    for (const uint64_t key : keys) {
        found_other |= key < first_key_ || key > last_key_ ||
                       !walk.positions.contains(table_.positions.position(key));
    }
    return !found_other;
}

void ScanWalk::leave_out_moved(Rows& piece) const {
    size_t kept = 0;
    const auto keep = [&](std::span<std::byte> column, size_t row_bytes, size_t i) {
        if (row_bytes != 0)
            std::memmove(column.data() + kept * row_bytes, column.data() + i * row_bytes,
                         row_bytes);
    };
    for (size_t i = 0; i < piece.keys.size(); ++i) {
        if (std::ranges::binary_search(moved_, piece.keys[i])) continue;
        piece.keys[kept] = piece.keys[i];
        keep(piece.values, columns_.value_bytes, i);
        keep(piece.state, columns_.state_bytes, i);
        keep(piece.stamps, columns_.stamp_bytes, i);
        ++kept;
    }
    piece.keys = piece.keys.first(kept);
    piece.values = piece.values.first(kept * columns_.value_bytes);
    piece.state = piece.state.first(kept * columns_.state_bytes);
    piece.stamps = piece.stamps.first(kept * columns_.stamp_bytes);
}

}  // namespace weir

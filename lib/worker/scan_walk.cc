// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan_walk.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include "lib/worker/client_core.h"

namespace weir {
namespace {

/// More pieces without a row than the largest shard can send one after the other.
constexpr uint64_t kEmptyPiecesMax = uint64_t{1} << 20;

PositionSet both(const PositionSet& a, const PositionSet& b) {
    return a.without(a.without(b));
}

/// The positions at which these keys of a table may be.
PositionSet positions_of(const PositionMap& map, const std::optional<KeyRange>& keys) {
    if (!keys) return PositionSet::whole_ring();
    if (!map.is_dense()) return keys->empty() ? PositionSet() : PositionSet::whole_ring();
    const KeyRange held = intersect(*keys, KeyRange{0, map.key_count()});
    if (held.empty()) return {};
    const PositionRange range{map.position(held.begin), map.position(held.end - 1)};
    return PositionSet(std::span(&range, 1));
}

}  // namespace

ScanWalk::ScanWalk(const TableInfo& table, std::optional<KeyRange> keys)
    : table_(table),
      first_key_(keys ? keys->begin : 0),
      last_key_(keys ? keys->end - 1 : ~uint64_t{0}),
      unread_(positions_of(table.positions, keys)) {}

Result<std::optional<ScanWalk::Question>> ScanWalk::next(const View& view) {
    if (view.epoch() != epoch_) narrow(view);
    epoch_ = view.epoch();
    if (walk_.ranges().empty()) {
        if (unread_.ranges().empty()) return std::optional<Question>();
        WEIR_TRY(begin(view));
    }
    Question question{shard_, {}};
    ScanMessage& message = question.message;
    message.epoch = epoch_;
    message.table = table_.schema.id;
    message.width = table_.schema.width;
    message.value_type = static_cast<uint8_t>(table_.schema.value_type);
    message.begins = begins_;
    message.cursor = cursor_;
    message.first_key = first_key_;
    message.last_key = last_key_;
    message.positions.assign(walk_.ranges().begin(), walk_.ranges().end());
    return std::optional(std::move(question));
}

/// What the shard does not have any more is unread again.
void ScanWalk::narrow(const View& view) {
    if (walk_.ranges().empty()) return;
    const PositionSet kept = both(walk_, view.owned(shard_));
    const PositionSet lost = walk_.without(kept);
    if (lost.ranges().empty()) return;
    unread_ = unread_.with(lost);
    walk_ = kept;
    const auto is_lost = [&](uint64_t key) {
        return lost.contains(table_.positions.position(key));
    };
    const auto first_lost =
        std::partition(given_.begin(), given_.end(), [&](uint64_t key) { return !is_lost(key); });
    moved_.insert(moved_.end(), first_lost, given_.end());
    std::ranges::sort(moved_);
    given_.erase(first_lost, given_.end());
    if (walk_.ranges().empty()) end();
}

Status ScanWalk::begin(const View& view) {
    const PositionRange first = unread_.ranges().front();
    shard_ = view.owner(first.first);
    if (shard_ == kNoShard) {
        return Error(Errc::kPeerLost,
                     fmt::format("table '{}': a part of it is lost: no server has a copy of the "
                                 "keys at position {:#x} of the ring",
                                 table_.schema.name, first.first));
    }
    const PositionSet owned = both(unread_, view.owned(shard_));
    const size_t count = std::min(owned.ranges().size(), ScanMessage::kRangesMax);
    walk_ = PositionSet(owned.ranges().first(count));
    unread_ = unread_.without(walk_);
    return {};
}

void ScanWalk::end() {
    std::erase_if(moved_,
                  [&](uint64_t key) { return walk_.contains(table_.positions.position(key)); });
    walk_ = PositionSet();
    begins_ = true;
    cursor_ = 0;
    given_.clear();
}

Result<ScanPiece> ScanWalk::take(std::span<const std::byte> body) {
    const std::optional<ScanReply> reply = ScanReply::decode(body, table_.row_bytes);
    empty_pieces_ = reply && reply->row_count == 0 ? empty_pieces_ + 1 : 0;
    ScanPiece piece;
    if (!reply || empty_pieces_ > kEmptyPiecesMax ||
        !(table_.positions.is_dense() ? take_range(*reply, piece) : take_keys(*reply, piece))) {
        return Error(Errc::kProtocol, "a malformed piece of a scan");
    }
    piece.keys_only = (reply->flags & ScanReply::kKeysOnly) != 0;
    begins_ = table_.positions.is_dense();
    cursor_ = begins_ ? 0 : reply->cursor;
    if ((reply->flags & ScanReply::kAtEnd) != 0) end();
    return piece;
}

/// Rows of a dense table come in the order of their positions: all before them was read, too.
bool ScanWalk::take_range(const ScanReply& reply, ScanPiece& piece) {
    if ((reply.flags & ScanReply::kRange) == 0) return false;
    if (reply.row_count == 0) return true;
    const KeyRange range{reply.first_key, reply.first_key + reply.row_count};
    if (range.end > table_.positions.key_count()) return false;
    const PositionRange read{0, table_.positions.position(range.end - 1)};
    if (!walk_.contains(table_.positions.position(range.begin)) || !walk_.contains(read.last))
        return false;
    walk_ = walk_.without(PositionSet(std::span(&read, 1)));
    piece.keys.resize(reply.row_count);
    std::iota(piece.keys.begin(), piece.keys.end(), range.begin);
    piece.values.assign(reply.values.begin(), reply.values.end());
    return true;
}

bool ScanWalk::take_keys(const ScanReply& reply, ScanPiece& piece) {
    if ((reply.flags & ScanReply::kRange) != 0) return false;
    std::vector<uint64_t>& keys = piece.keys;
    keys.resize(reply.row_count);
    if (!keys.empty()) std::memcpy(keys.data(), reply.keys.data(), reply.keys.size());
    const auto is_asked_for = [&](uint64_t key) {
        return key >= first_key_ && key <= last_key_ &&
               walk_.contains(table_.positions.position(key));
    };
    if (!std::ranges::all_of(keys, is_asked_for)) return false;
    piece.values.assign(reply.values.begin(), reply.values.end());
    if (!moved_.empty()) {
        const size_t row_bytes = piece.values.empty() ? 0 : table_.row_bytes;
        size_t kept = 0;
        for (size_t i = 0; i < keys.size(); ++i) {
            if (std::ranges::binary_search(moved_, keys[i])) continue;
            keys[kept] = keys[i];
            std::memmove(piece.values.data() + kept * row_bytes,
                         piece.values.data() + i * row_bytes, row_bytes);
            ++kept;
        }
        keys.resize(kept);
        piece.values.resize(kept * row_bytes);
    }
    given_.insert(given_.end(), keys.begin(), keys.end());
    return true;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan/dense_scan.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir {
namespace {

/// Of pieces: one that the caller uses, and one or two for each server.
constexpr size_t kPlacesMin = 3;
constexpr size_t kPlacesMax = 10;

}  // namespace

DenseScan::DenseScan(ClientCore& core, Allocate allocate, const TableInfo& table,
                     const ScanExtent& extent)
    : core_(core),
      allocate_(std::move(allocate)),
      table_(table),
      has_state_(extent.has_state && table.state_bytes != 0),
      row_bytes_(table.row_bytes + (has_state_ ? table.state_bytes : 0)),
      piece_keys_(std::max<uint64_t>(1, extent.piece_bytes / row_bytes_)) {
    const PositionRange share = share_of(table.schema.key_count - 1, extent.share, extent.shares);
    KeyRange all{share.first, share.last + 1};
    if (extent.keys) all = intersect(all, *extent.keys);
    if (all.empty()) return;
    const size_t shards = std::clamp<size_t>(core_.shard_count(), 1, kPlacesMax - 2);
    const uint64_t pieces = (all.key_count() - 1) / piece_keys_ + 1;
    const auto runs = static_cast<uint32_t>(std::min<uint64_t>(shards, pieces));
    for (uint32_t i = 0; i < runs; ++i) {
        const PositionRange run = share_of(all.key_count() - 1, i, runs);
        left_.push_back({all.begin + run.first, all.begin + run.last + 1});
    }
    piece_keys_ = std::min(piece_keys_, all.key_count());
    places_.resize(std::min<uint64_t>(pieces, std::max(kPlacesMin, shards + 2)));
}

bool DenseScan::has_left() const noexcept {
    return std::ranges::any_of(left_, [](KeyRange run) { return !run.empty(); });
}

bool DenseScan::is_over() const noexcept {
    return !has_left() &&
           std::ranges::none_of(places_, [](const Place& place) { return place.is_asked; });
}

KeyRange DenseScan::next_keys() {
    while (left_[turn_ % left_.size()].empty())
        ++turn_;
    KeyRange& run = left_[turn_++ % left_.size()];
    const KeyRange keys{run.begin, run.begin + std::min(run.key_count(), piece_keys_)};
    run.begin = keys.end;
    return keys;
}

std::span<std::byte> DenseScan::memory_of(const Place& place) const noexcept {
    return {place.memory.get(), place.keys.key_count() * row_bytes_};
}

void DenseScan::pull(Place& place, uint64_t now_ns, uint64_t deadline_ns) {
    CallOptions options;
    options.deadline_ns = deadline_ns;
    place.call.asked_ns = now_ns;
    Operation pull;
    pull.table = &table_;
    pull.kind = wire::Kind::kPull;
    pull.by_range = true;
    pull.range = place.keys;
    pull.out = memory_of(place);
    pull.out_row_bytes = row_bytes_;
    pull.options = options;
    pull.options.out_type = table_.schema.value_type;  // TableScan widens them
    pull.has_whole_rows = has_state_;
    place.call.id = core_.start({pull});
    place.is_asked = true;
}

void DenseScan::release() {
    for (Place& place : places_)
        place.is_used = false;
}

Status DenseScan::ask(uint64_t now_ns, uint64_t deadline_ns) {
    while (has_left() && !places_[next_place_].is_asked && !places_[next_place_].is_used) {
        Place& place = places_[next_place_];
        if (place.memory == nullptr) {
            Result<std::shared_ptr<std::byte>> memory = allocate_(piece_keys_ * row_bytes_);
            if (!memory && next_place_ == 0) return memory.error();
            if (!memory) {  // those before will do
                places_.resize(next_place_);
                first_place_ %= places_.size();
                next_place_ = 0;
                continue;
            }
            place.memory = std::move(*memory);
        }
        place.keys = next_keys();
        pull(place, now_ns, deadline_ns);
        next_place_ = (next_place_ + 1) % places_.size();
    }
    return {};
}

bool DenseScan::is_ready() {
    if (places_.empty() || !places_[first_place_].is_asked) return true;
    return core_.done(places_[first_place_].call.id);
}

Result<ScanRows> DenseScan::take(const ScanTime& time, uint64_t now_ns) {
    Place& place = places_[first_place_];
    if (!place.is_asked) return ScanRows();
    const Status ended = core_.take(place.call.id);
    if (place.call.was_too_early(ended.code(), time.begun_ns)) {
        pull(place, now_ns, time.left_ns(now_ns));
        return ScanRows();
    }
    place.is_asked = false;
    if (!ended) return ended.error();
    place.is_used = true;
    first_place_ = (first_place_ + 1) % places_.size();
    if (has_state_) return split(memory_of(place), place.keys);
    return ScanRows{.range = place.keys, .values = memory_of(place)};
}

/// Values and state come row by row.
ScanRows DenseScan::split(std::span<const std::byte> rows, KeyRange keys) {
    const size_t value_bytes = table_.row_bytes;
    const size_t state_bytes = table_.state_bytes;
    values_.resize(keys.key_count() * value_bytes);
    states_.resize(keys.key_count() * state_bytes);
    for (size_t i = 0; i < keys.key_count(); ++i) {
        const std::byte* const row = rows.data() + i * row_bytes_;
        std::memcpy(values_.data() + i * value_bytes, row, value_bytes);
        std::memcpy(states_.data() + i * state_bytes, row + value_bytes, state_bytes);
    }
    return {.range = keys, .values = values_, .state = states_};
}

Status DenseScan::drop() {
    Status first;
    for (Place& place : places_) {
        if (!std::exchange(place.is_asked, false)) continue;
        const Status ended = core_.done(place.call.id) ? core_.take(place.call.id) : Status();
        core_.drop(place.call.id);
        if (first) first = ended;
    }
    return first;
}

}  // namespace weir

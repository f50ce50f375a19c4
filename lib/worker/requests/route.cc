// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/route.h"

#include <algorithm>

#include <fmt/core.h>

namespace weir {
namespace {

constexpr uint64_t kListKeysMax = uint64_t{1} << 32;  // the order is kept in 32-bit indices

/// The shard of every key.
std::vector<uint32_t> owners_of(std::span<const uint64_t> keys, const View& view,
                                const PositionMap& positions) {
    std::vector<uint32_t> owners(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        owners[i] = view.owner(positions.position(keys[i]));
    }
    return owners;
}

size_t run_count(std::span<const uint32_t> owners) {
    size_t runs = 1;
    for (size_t i = 1; i < owners.size(); ++i)
        runs += owners[i] != owners[i - 1] ? 1 : 0;
    return runs;
}

}  // namespace

Error lost_keys(KeyRange keys) {
    return {Errc::kPeerLost,
            fmt::format("keys {} to {} are lost: no server has a copy of their part of the ring",
                        keys.begin, keys.end - 1)};
}

Result<std::shared_ptr<Route>> Route::make(std::span<const uint64_t> keys, const ListId& id,
                                           const View& view, const PositionMap& positions,
                                           PieceLimits limits, Memory& memory) {
    if (keys.size() >= kListKeysMax) {
        return Error(Errc::kInvalidArgument, fmt::format("a list of {} keys; the most is {}",
                                                         keys.size(), kListKeysMax - 1));
    }
    if (positions.is_dense() && !keys.empty() && keys.back() >= positions.key_count()) {
        return Error(Errc::kOutOfRange, fmt::format("key {} is beyond the table's last key {}",
                                                    keys.back(), positions.key_count() - 1));
    }
    std::shared_ptr<Route> route(new Route(&memory));
    const size_t shard_count = view.data().next_shard;  // numbers of shards are below it
    const bool is_lost_anywhere = std::ranges::any_of(
        view.segments(), [](const ViewSegment& s) { return s.primary == kNoShard; });
    if (view.shards().size() == 1 && !is_lost_anywhere) {
        route->add_pieces(view.shards().front().number, 0, keys.size(), limits);
    } else {
        const std::vector<uint32_t> owners = owners_of(keys, view, positions);
        if (const auto at = std::ranges::find(owners, kNoShard); at != owners.end()) {
            const uint64_t key = keys[static_cast<size_t>(at - owners.begin())];
            return lost_keys({key, key + 1});
        }
        const size_t few = 4 * view.shards().size();  // up to so many runs, keep the caller's order
        if (keys.size() <= 8 || run_count(owners) <= few) {
            for (size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
                while (end < keys.size() && owners[end] == owners[begin])
                    ++end;
                route->add_pieces(owners[begin], begin, end - begin, limits);
            }
        } else {
            WEIR_TRY(route->group(keys, owners, shard_count, limits));
        }
    }
    route->count_pieces(shard_count);
    route->hash_pieces(keys.data(), id);
    return route;
}

Result<std::shared_ptr<Route>> Route::make(KeyRange keys, const View& view,
                                           const PositionMap& positions, PieceLimits limits) {
    if (!keys.well_formed() || keys.end > positions.key_count()) {
        return Error(Errc::kOutOfRange, fmt::format("keys {}..{} are not all in the table's 0..{}",
                                                    keys.begin, keys.end, positions.key_count()));
    }
    std::shared_ptr<Route> route(new Route(nullptr));
    for (const OwnedKeys& owned : view.split_dense(keys, positions.key_count(), SplitBy::kOwner)) {
        if (owned.owner == kNoShard) return lost_keys(owned.keys);
        route->add_pieces(owned.owner, owned.keys.begin - keys.begin, owned.keys.key_count(),
                          limits);
    }
    route->count_pieces(view.data().next_shard);
    return route;
}

Route::~Route() {
    if (grouped_ != nullptr) {
        memory_->deallocate(reinterpret_cast<std::byte*>(grouped_), grouped_bytes_,
                            Block::kAlignment);
    }
}

void Route::add_pieces(uint32_t shard, uint64_t begin, uint64_t count, PieceLimits limits) {
    while (count > 0) {
        const uint64_t part = std::min(count, limits.keys_max);
        pieces_.push_back({shard, begin, part, 0, false});
        begin += part;
        count -= part;
    }
}

void Route::count_pieces(size_t shard_count) {
    pieces_per_shard_.assign(shard_count, 0);
    for (const Piece& piece : pieces_)
        ++pieces_per_shard_[piece.shard];
}

Status Route::group(std::span<const uint64_t> keys, std::span<const uint32_t> owners,
                    size_t shard_count, PieceLimits limits) {
    grouped_bytes_ = keys.size_bytes();
    grouped_ = reinterpret_cast<uint64_t*>(memory_->allocate(grouped_bytes_, 64));
    if (grouped_ == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("no registered memory for a list of {} keys; the log of this "
                                 "process names the limit that was reached",
                                 keys.size()));
    }
    std::vector<uint64_t> next(shard_count + 1, 0);  // where the next key of each shard goes
    for (const uint32_t owner : owners)
        ++next[owner + 1];
    for (size_t i = 1; i <= shard_count; ++i)
        next[i] += next[i - 1];
    for (size_t shard = 0; shard < shard_count; ++shard) {
        add_pieces(static_cast<uint32_t>(shard), next[shard], next[shard + 1] - next[shard],
                   limits);
    }
    order_.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        const uint64_t at = next[owners[i]]++;
        grouped_[at] = keys[i];
        order_[at] = static_cast<uint32_t>(i);
    }
    return {};
}

void Route::hash_pieces(const uint64_t* callers, const ListId& all) noexcept {
    if (pieces_.size() == 1) {
        pieces_.front().hash = all.hash;
        return;
    }
    for (Piece& piece : pieces_) {
        piece.hash = hash_key_list(std::span(keys(piece, callers), piece.count));
    }
}

size_t Route::size_bytes() const noexcept {
    return sizeof *this + pieces_.size() * sizeof(Piece) + order_.size() * sizeof(uint32_t) +
           pieces_per_shard_.size() * sizeof(uint32_t) + grouped_bytes_ + kEntryBytes;
}

std::shared_ptr<Route> RouteCache::find(uint64_t variant, const ListId& list) {
    const auto at = by_key_.find({variant, list});
    if (at == by_key_.end()) return nullptr;
    by_age_.splice(by_age_.begin(), by_age_, at->second);
    return at->second->route;
}

void RouteCache::remember(uint64_t variant, const ListId& list, std::shared_ptr<Route> route) {
    const Key key{variant, list};
    if (by_key_.contains(key)) return;
    const size_t bytes = route->size_bytes();
    if (bytes > limit_bytes_) return;
    while (size_bytes_ + bytes > limit_bytes_)
        forget(std::prev(by_age_.end()));
    by_age_.push_front({key, std::move(route), bytes});
    by_key_.emplace(key, by_age_.begin());
    size_bytes_ += bytes;
}

size_t RouteCache::give_back(size_t bytes) noexcept {
    size_t freed = 0;
    for (auto entry = by_age_.end(); freed < bytes && entry != by_age_.begin();) {
        --entry;
        const size_t registered_bytes = entry->route->registered_bytes();
        // An open request holds its route: forgetting that would free nothing.
        if (registered_bytes == 0 || entry->route.use_count() > 1) continue;
        freed += registered_bytes;
        entry = forget(entry);
    }
    return freed;
}

RouteCache::ByAge::iterator RouteCache::forget(ByAge::iterator entry) noexcept {
    size_bytes_ -= entry->bytes;
    by_key_.erase(entry->key);
    return by_age_.erase(entry);
}

}  // namespace weir

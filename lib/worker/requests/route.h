// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Route: splits one key list or key range by shard, into pieces that fit a request. Computed
/// once per list and remembered by the list's hash.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/ring/view.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// A part of a call that goes to one shard as one request.
struct Piece {
    uint32_t shard = 0;
    uint64_t begin = 0;  ///< index of its first key in the caller's list, or in Route::order()
    uint64_t count = 0;
    uint64_t hash = 0;   ///< of its keys; 0 for ranges
    bool known = false;  ///< the shard should remember these keys: send only their hash
    /// A shard remembers a list only if it has every key of it, and may forget it later. Each
    /// time the shard does not know the hash, the list is sent in full twice as often before its
    /// hash is tried again.
    uint32_t times_unknown = 0;
    uint32_t full_sends_left = 0;

    /// Notes that a request with these keys succeeded; `by_hash`: they were not sent in full.
    void succeeded(bool by_hash) noexcept {
        if (by_hash) times_unknown = 0;
        if (full_sends_left > 0) --full_sends_left;
        known = full_sends_left == 0;
    }

    /// Notes that the shard did not know the hash.
    void was_unknown() noexcept {
        known = false;
        if (times_unknown < 10) ++times_unknown;
        full_sends_left = 1U << times_unknown;
    }
};

struct PieceLimits {
    uint64_t keys_max = 0;
};

/// It holds as long as no segment changes its primary. Immutable except for the fields of its pieces that say what the shard knows.
///
/// Thread: one
class Route {
public:
    /// The route of a list that is sorted and unique. `id`: its. `memory` (registered) holds the keys if
    /// they must be regrouped by shard.
    /// Errors: kNoMemory; kOutOfRange if a dense table's key is beyond its end; kInvalidArgument
    ///         if the list is too long; kPeerLost if no server has a copy of a key
    [[nodiscard]] static Result<std::shared_ptr<Route>> make(std::span<const uint64_t> keys,
                                                             const ListId& id, const View& view,
                                                             const PositionMap& positions,
                                                             PieceLimits limits, Memory& memory);
    /// The route of a range of a dense table.
    /// Errors: kOutOfRange; kPeerLost if no server has a copy of a part of it
    [[nodiscard]] static Result<std::shared_ptr<Route>> make(KeyRange keys, const View& view,
                                                             const PositionMap& positions,
                                                             PieceLimits limits);
    ~Route();
    Route(const Route&) = delete;
    Route& operator=(const Route&) = delete;

    [[nodiscard]] std::span<Piece> pieces() noexcept { return pieces_; }

    /// Whether the pieces are runs of the caller's own list, in its order.
    [[nodiscard]] bool in_caller_order() const noexcept { return order_.empty(); }

    /// The keys of a piece: in the caller's list, or regrouped.
    [[nodiscard]] const uint64_t* keys(const Piece& piece, const uint64_t* callers) const noexcept {
        return (in_caller_order() ? callers : grouped_) + piece.begin;
    }

    /// For each key of a piece its index in the caller's list; empty if in_caller_order().
    [[nodiscard]] std::span<const uint32_t> order(const Piece& piece) const noexcept {
        if (in_caller_order()) return {};
        return std::span(order_).subspan(piece.begin, piece.count);
    }

    /// How many pieces go to this shard.
    [[nodiscard]] uint32_t pieces_to(uint32_t shard) const noexcept {
        return shard < pieces_per_shard_.size() ? pieces_per_shard_[shard] : 0;
    }

    /// What the route takes, with its entry in a RouteCache.
    [[nodiscard]] size_t size_bytes() const noexcept;

    /// The part of size_bytes() in registered memory: the regrouped keys.
    [[nodiscard]] size_t registered_bytes() const noexcept { return grouped_bytes_; }

private:
    explicit Route(Memory* memory) noexcept : memory_(memory) {}

    void add_pieces(uint32_t shard, uint64_t begin, uint64_t count, PieceLimits limits);
    void count_pieces(size_t shard_count);
    [[nodiscard]] Status group(std::span<const uint64_t> keys, std::span<const uint32_t> owners,
                               size_t shard_count, PieceLimits limits);
    void hash_pieces(const uint64_t* callers, const ListId& all) noexcept;

    Memory* memory_;
    std::vector<Piece> pieces_;
    std::vector<uint32_t> order_;
    /// Rough size of a cache entry: its places in two containers, and the overhead of their
    /// allocations.
    static constexpr size_t kEntryBytes = 320;

    std::vector<uint32_t> pieces_per_shard_;  ///< by the shard's number
    uint64_t* grouped_ = nullptr;
    size_t grouped_bytes_ = 0;
};

/// The error of a call that has keys of a segment of which no copy is left.
[[nodiscard]] Error lost_keys(KeyRange keys);

/// The routes used most recently, by list, and by a number for the table and how its pieces are cut.
///
/// Thread: one
class RouteCache final : public Reclaimable {
public:
    explicit RouteCache(size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}

    /// nullptr if the route is not remembered.
    [[nodiscard]] std::shared_ptr<Route> find(uint64_t variant, const ListId& list);
    /// Forgets the oldest routes if there is no room. A route that is larger than the limit is
    /// not remembered.
    void remember(uint64_t variant, const ListId& list, std::shared_ptr<Route> route);

    /// Segments have changed their primaries: forgets all routes.
    void clear() noexcept {
        by_key_.clear();
        by_age_.clear();
        size_bytes_ = 0;
    }

    /// Frees registered memory. Routes that have none stay.
    size_t give_back(size_t bytes) noexcept override;

private:
    struct Key {
        uint64_t variant;
        ListId list;
        friend bool operator==(const Key&, const Key&) noexcept = default;
    };

    struct Hash {
        size_t operator()(const Key& key) const noexcept { return key.list.hash + key.variant; }
    };

    struct Entry {
        Key key;
        std::shared_ptr<Route> route;
        size_t bytes;
    };

    using ByAge = std::list<Entry>;

    /// Returns the next older entry.
    ByAge::iterator forget(ByAge::iterator entry) noexcept;

    size_t limit_bytes_;
    size_t size_bytes_ = 0;
    ByAge by_age_;  ///< newest first
    std::unordered_map<Key, ByAge::iterator, Hash> by_key_;
};

}  // namespace weir

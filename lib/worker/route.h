// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Route: the way of one key list or key range: which shard gets which part of it, in pieces that
/// fit a request. Computed once per list and remembered by the list's hash.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/ring/assignment.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// A part of a call that goes to one shard as one request.
struct Piece {
    uint32_t shard = 0;
    uint64_t begin = 0;  ///< index of its first key in the caller's list, or in Route::order()
    uint64_t count = 0;
    uint64_t hash = 0;   ///< of its keys; 0 for ranges
    bool known = false;  ///< the shard has seen these keys under this hash
    /// A shard remembers only lists of which it has every key, and not for ever. Each time that one
    /// turns out to be unknown, it is sent in full twice as often before its hash is tried again.
    uint32_t times_unknown = 0;
    uint32_t full_sends_left = 0;

    /// A request with these keys went well, sent in full or by their hash.
    void succeeded(bool by_hash) noexcept {
        if (by_hash) times_unknown = 0;
        if (full_sends_left > 0) --full_sends_left;
        known = full_sends_left == 0;
    }

    void was_unknown() noexcept {
        known = false;
        if (times_unknown < 10) ++times_unknown;
        full_sends_left = 1U << times_unknown;
    }
};

/// How large pieces may be.
struct PieceLimits {
    uint64_t keys_max = 0;
};

/// Thread: one. Immutable but for what its pieces know.
class Route {
public:
    /// For a list that is sorted and unique. `memory` (registered) takes the regrouped keys.
    /// Errors: kNoMemory; kOutOfRange if a dense table's key is beyond its end
    [[nodiscard]] static Result<std::shared_ptr<Route>> make(std::span<const uint64_t> keys,
                                                             const Assignment& assignment,
                                                             const PositionMap& positions,
                                                             PieceLimits limits, Memory& memory);
    /// For a range of a dense table.
    [[nodiscard]] static Result<std::shared_ptr<Route>> make(KeyRange keys,
                                                             const Assignment& assignment,
                                                             const PositionMap& positions,
                                                             PieceLimits limits);
    ~Route();
    Route(const Route&) = delete;
    Route& operator=(const Route&) = delete;

    [[nodiscard]] std::span<Piece> pieces() noexcept { return pieces_; }

    /// Pieces are runs of the caller's own list, in its order.
    [[nodiscard]] bool in_caller_order() const noexcept { return order_.empty(); }

    /// The keys of a piece, wherever they lie.
    [[nodiscard]] const uint64_t* keys(const Piece& piece, const uint64_t* callers) const noexcept {
        return (in_caller_order() ? callers : grouped_) + piece.begin;
    }

    /// For each key of a piece its index in the caller's list; empty if in_caller_order().
    [[nodiscard]] std::span<const uint32_t> order(const Piece& piece) const noexcept {
        if (in_caller_order()) return {};
        return std::span(order_).subspan(piece.begin, piece.count);
    }

    /// How many pieces go to shard `i`.
    [[nodiscard]] std::span<const uint32_t> pieces_per_shard() const noexcept {
        return pieces_per_shard_;
    }

    /// With what a cache keeps about it.
    [[nodiscard]] size_t size_bytes() const noexcept;

    /// Of these, those in registered memory: its regrouped keys.
    [[nodiscard]] size_t registered_bytes() const noexcept { return grouped_bytes_; }

private:
    explicit Route(Memory* memory) noexcept : memory_(memory) {}

    void add_pieces(uint32_t shard, uint64_t begin, uint64_t count, PieceLimits limits);
    void count_pieces(size_t shard_count);
    [[nodiscard]] Status group(std::span<const uint64_t> keys, std::span<const uint32_t> owners,
                               size_t shard_count, PieceLimits limits);
    void hash_pieces(const uint64_t* callers) noexcept;

    Memory* memory_;
    std::vector<Piece> pieces_;
    std::vector<uint32_t> order_;
    /// A cache's entry, its places in two containers, and what allocations cost beside it.
    static constexpr size_t kEntryBytes = 320;

    std::vector<uint32_t> pieces_per_shard_;
    uint64_t* grouped_ = nullptr;
    size_t grouped_bytes_ = 0;
};

/// The routes used last, by table and list. Thread: one.
class RouteCache final : public Reclaimable {
public:
    explicit RouteCache(size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}

    /// nullptr if it is not remembered.
    [[nodiscard]] std::shared_ptr<Route> find(uint32_t table, const ListId& list);
    void remember(uint32_t table, const ListId& list, std::shared_ptr<Route> route);

    /// Of registered memory; routes that have none of it stay.
    size_t give_back(size_t bytes) noexcept override;

    [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }

private:
    struct Key {
        uint32_t table;
        ListId list;
        friend bool operator==(const Key&, const Key&) noexcept = default;
    };

    struct Hash {
        size_t operator()(const Key& key) const noexcept { return key.list.hash + key.table; }
    };

    struct Entry {
        Key key;
        std::shared_ptr<Route> route;
        size_t bytes;
    };

    using ByAge = std::list<Entry>;

    /// Returns the next older one.
    ByAge::iterator forget(ByAge::iterator entry) noexcept;

    size_t limit_bytes_;
    size_t size_bytes_ = 0;
    ByAge by_age_;  ///< newest first
    std::unordered_map<Key, ByAge::iterator, Hash> by_key_;
};

}  // namespace weir

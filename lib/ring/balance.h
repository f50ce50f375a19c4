// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Balance: which segments should get another primary, for plan().

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/ring/view.h"

namespace weir {

/// Thread: one
class Balance {
public:
    /// A segment of the view, or a part of one.
    struct Stretch {
        uint64_t first;
        uint128 size;      ///< in positions
        uint32_t segment;  ///< its index in the view
        uint32_t holder;   ///< index of a shard in the view: who is to be primary
        bool is_cuttable;  ///< not if it has, or is to lose, a learner
        bool is_moved;
    };

    /// Of a shard's holding to its share, in 2^-20.
    using Ratio = uint64_t;
    static constexpr Ratio kExact = Ratio{1} << 20;

    /// `backup_count`: what has fewer backups stays, unless there are no servers for them; and if it
    /// is not 0, nothing is cut.
    Balance(const View& view, std::span<const uint32_t> live, uint32_t backup_count,
            std::span<const uint32_t> full);

    /// Moves stretches, whole or cut, as plan() says.
    void run();

    /// All that is not lost; in no order.
    [[nodiscard]] std::span<const Stretch> stretches() const noexcept { return stretches_; }

    /// Indices of segments whose learner is to be given up, ascending.
    [[nodiscard]] std::span<const uint32_t> cancelled() const noexcept { return cancelled_; }

    [[nodiscard]] bool is_live(size_t shard) const noexcept { return shards_[shard].share != 0; }

    [[nodiscard]] Ratio ratio_min() const noexcept {
        return by_ratio_.empty() ? 0 : by_ratio_.begin()->first;
    }

    [[nodiscard]] Ratio ratio_max() const noexcept {
        return by_ratio_.empty() ? 0 : by_ratio_.rbegin()->first;
    }

private:
    struct Shard {
        uint32_t server = 0;
        uint128 share = 0;  ///< what it should hold; 0: it is leaving
        uint128 held = 0;
        std::set<std::pair<uint128, uint32_t>> movable = {};  ///< size and index of stretches
        bool has_gained = false;
        bool is_full = false;  ///< it keeps what it holds, and gets nothing
    };

    void set_shares(std::span<const uint32_t> live, std::span<const uint32_t> full);
    void add_stretches();
    void place_leavers();
    void fill_the_poor();
    void fill(uint32_t poor, uint128& free);
    bool pass_on(uint32_t poor, uint32_t other);
    void drain(uint32_t rich);
    bool give(uint32_t rich, uint32_t poor, uint128 wanted, uint128 most);
    bool give_smallest(uint32_t rich, uint32_t poor);
    void move(uint32_t stretch, uint32_t to);
    uint32_t cut(uint32_t stretch, uint128 size);
    void hold(uint32_t shard, uint128 more, uint128 less);

    [[nodiscard]] bool can_cut() const noexcept { return segments_left_ > 0; }

    [[nodiscard]] bool has_copy(const Stretch& stretch, uint32_t shard) const;
    [[nodiscard]] std::optional<std::pair<Ratio, uint32_t>> richest_for(
        uint32_t poor, std::pair<Ratio, uint32_t> below) const;
    [[nodiscard]] std::optional<uint32_t> poorest_for(const Stretch& stretch) const;

    const View& view_;
    std::vector<Shard> shards_;
    std::vector<Stretch> stretches_;
    std::vector<uint32_t> cancelled_;
    std::set<std::pair<Ratio, uint32_t>> by_ratio_;  // live shards that are not full
    std::unordered_map<uint32_t, uint32_t> index_;   // of a shard in the view, by number
    size_t segments_left_ = 0;
    size_t backups_needed_ = 0;  ///< of a segment that may move
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// View: who holds what and who takes part, in one epoch, with fast look-ups.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/ring/view_data.h"

namespace weir {

/// Where a split cuts: wherever the primary changes, or at every segment.
enum class SplitBy { kOwner, kSegment };

/// Keys of a dense table with one primary.
struct OwnedKeys {
    KeyRange keys;
    uint32_t owner = kNoShard;  ///< number of the shard; kNoShard: they are lost
};

/// Thread: any number of readers; immutable
class View {
public:
    /// The view before the first one: epoch 0, without servers and workers.
    View() : View(ViewData{}) {}

    /// Errors: Errc::kInvalidArgument if the data break a rule of check_view(), which it names
    [[nodiscard]] static Result<View> make(ViewData data);

    [[nodiscard]] const ViewData& data() const noexcept { return data_; }

    [[nodiscard]] uint64_t epoch() const noexcept { return data_.epoch; }

    [[nodiscard]] std::span<const ViewServer> servers() const noexcept { return data_.servers; }

    [[nodiscard]] std::span<const ViewShard> shards() const noexcept { return data_.shards; }

    [[nodiscard]] std::span<const ViewSegment> segments() const noexcept { return data_.segments; }

    [[nodiscard]] std::span<const ViewWorker> workers() const noexcept { return data_.workers; }

    /// By number; nullptr if there is none in this view. Logarithmic.
    [[nodiscard]] const ViewServer* server(uint32_t number) const noexcept;
    [[nodiscard]] const ViewShard* shard(uint32_t number) const noexcept;
    [[nodiscard]] const ViewWorker* worker(uint32_t number) const noexcept;

    /// The first iteration of a table for which shards wait for the worker; kNoIteration if there
    /// is none, or no such worker.
    [[nodiscard]] uint64_t first_iteration(uint32_t worker, uint32_t table) const noexcept;

    /// The index of the segment that has `position`.
    [[nodiscard]] size_t segment_index(uint64_t position) const noexcept {
        // slice_ has the segment at the beginning of each equal slice of the ring.
        size_t i = slice_[position >> shift_];
        while (i + 1 < data_.segments.size() && data_.segments[i + 1].first <= position)
            ++i;
        return i;
    }

    /// The number of the shard that is primary of `position`; kNoShard if it is lost.
    [[nodiscard]] uint32_t owner(uint64_t position) const noexcept {
        return data_.segments[segment_index(position)].primary;
    }

    [[nodiscard]] PositionRange range(size_t segment_index) const noexcept {
        return {data_.segments[segment_index].first, last_position(data_.segments, segment_index)};
    }

    /// `keys` of a dense table of `key_count` keys in pieces, in ascending order. Every key is in
    /// exactly one piece; keys beyond the table are left out.
    [[nodiscard]] std::vector<OwnedKeys> split_dense(KeyRange keys, uint64_t key_count,
                                                     SplitBy by) const;

    /// All positions that one shard is primary of.
    [[nodiscard]] PositionSet owned(uint32_t shard) const;

    /// The indices of the segments that the shard is primary of, in ascending order.
    [[nodiscard]] std::vector<uint32_t> segments_of(uint32_t shard) const;

    /// Whether no shard of the server is primary, backup or learner of anything: it may leave.
    [[nodiscard]] bool holds_nothing(uint32_t server) const;

    friend bool operator==(const View& a, const View& b) { return a.data_ == b.data_; }

private:
    explicit View(ViewData data);

    ViewData data_;
    std::vector<uint32_t> slice_;
    uint32_t shift_ = 63;
};

/// Of a shard of the view, for messages to people: "shard 0 of server 1 (rank 1)", or "(rank 1, which
/// joined later)" if its server came when the job was running.
[[nodiscard]] std::string shard_name(const View& view, const ViewShard& shard, bool joined_later);

inline constexpr const char* kJoinedLater = ", which joined later";

}  // namespace weir

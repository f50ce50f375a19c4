// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ViewChange: what a view has that the one before has not; and its parts, as they are sent.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/ring/view.h"

namespace weir {

/// Entries of one list of ViewData that are new or have changed, and the keys of those that are
/// there no more. Both are in ascending order of view_key().
template <class Entry>
struct ListChange {
    std::vector<Entry> put;
    std::vector<uint64_t> removed;
    friend bool operator==(const ListChange&, const ListChange&) = default;
};

/// From one view to a later one. From epoch 0, the view before the first one, it is a whole view.
struct ViewChange {
    uint64_t from = 0;
    uint64_t epoch = 0;
    uint32_t next_server = 0;
    uint32_t next_shard = 0;
    uint32_t next_worker = 0;
    ListChange<ViewServer> servers = {};
    ListChange<ViewShard> shards = {};
    ListChange<ViewSegment> segments = {};
    ListChange<ViewWorker> workers = {};
    ListChange<ViewMember> members = {};
    ListChange<ViewWithdrawal> withdrawals = {};
    friend bool operator==(const ViewChange&, const ViewChange&) = default;
};

/// What leads from `before` to `after`, whose epoch is higher.
[[nodiscard]] ViewChange view_change(const View& before, const View& after);

/// The whole of `view` as a change from nothing.
[[nodiscard]] ViewChange whole_view(const View& view);

/// The view after `change`. A whole view takes the place of any older one.
///
/// Errors: Errc::kStaleEpoch if the change does not begin at `before`'s epoch, or does not go up;
///         Errc::kInvalidArgument if it leads to no valid view. The text names what is wrong
[[nodiscard]] Result<View> apply(const View& before, const ViewChange& change);

/// The change in as many bodies as it takes, none longer than `body_bytes_max`, which is at least
/// kViewPartBytesMin. They must be received in this order.
[[nodiscard]] std::vector<std::vector<std::byte>> encode_parts(const ViewChange& change,
                                                               size_t body_bytes_max);
inline constexpr size_t kViewPartBytesMin = 768;

/// Puts the parts of a change together again. Whatever a peer sends, it holds no more entries than
/// ViewLimits allows, and no more bytes than a few times those that came.
class ViewParts {
public:
    /// Takes the next body.
    /// Errors: Errc::kProtocol naming what is malformed, or that this is not the next part. The
    ///         parts are of no use then
    [[nodiscard]] Status add(std::span<const std::byte> body);

    /// True once all parts are here.
    [[nodiscard]] bool complete() const noexcept {
        return part_count_ != 0 && parts_here_ == part_count_;
    }

    /// Only once complete().
    [[nodiscard]] const ViewChange& change() const noexcept { return change_; }

private:
    ViewChange change_;
    uint32_t part_count_ = 0;
    uint32_t parts_here_ = 0;
    uint8_t last_kind_ = 0;  // of the record that came last
};

}  // namespace weir

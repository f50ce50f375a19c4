// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PieceOrder: the pushes that were sent on one connection for one table, and which of them each
/// further push names as the one before it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir {

/// The place of a piece among those of its table. Pieces are timed in the order in which they are
/// cut; those that a piece was cut into again share its time.
struct PiecePlace {
    uint64_t time = 0;
    uint64_t position = 0;  ///< that of its first key, if it was cut again

    friend constexpr bool operator==(const PiecePlace&, const PiecePlace&) noexcept = default;

    friend constexpr bool operator<(const PiecePlace& a, const PiecePlace& b) noexcept {
        return a.time != b.time ? a.time < b.time : a.position < b.position;
    }
};

/// A shard executes a push only if the one that it names was executed. So a push that is not
/// executed, for whatever reason, takes down all that were sent after it; they are sent again in
/// the order of their places, and nothing overtakes.
///
/// It is made anew with each connection. Thread: the client's
class PieceOrder {
public:
    /// How far a time may be from the base: the wire has only the low halves of times.
    static constexpr uint64_t kReach = uint64_t{1} << 30;

    /// What a push at `place` names: the send number of the last one before it, by place, that was
    /// executed or is under way; 0 if there is none.
    [[nodiscard]] uint32_t predecessor(PiecePlace place) const noexcept {
        if (away_.size() == begin_) return executed_;
        if (is_ascending_ && away_.back().place < place) return away_.back().number;
        uint32_t number = executed_;
        PiecePlace newest;
        for (size_t i = begin_; i < away_.size(); ++i) {
            if (!(away_[i].place < place) || away_[i].place < newest) continue;
            newest = away_[i].place;
            number = away_[i].number;
        }
        return number;
    }

    /// The push was sent. Returns its send number: both ends count.
    uint32_t sent(PiecePlace place) {
        if (begin_ == away_.size()) {
            begin_ = 0;
            away_.clear();
            is_ascending_ = true;
        } else if (begin_ > kCompactAt) {
            away_.erase(away_.begin(), away_.begin() + static_cast<ptrdiff_t>(begin_));
            begin_ = 0;
        }
        is_ascending_ = is_ascending_ && (begin_ == away_.size() || away_.back().place < place);
        away_.push_back({place, ++count_});
        base_ = std::max(base_, place.time);
        return count_;
    }

    /// It is not under way any more. `was_executed`: it was executed, now or before.
    void ended(uint32_t number, bool was_executed) {
        size_t i = begin_;
        while (i < away_.size() && away_[i].number != number)
            ++i;
        if (i == away_.size()) return;
        if (was_executed && executed_place_ < away_[i].place) {
            executed_place_ = away_[i].place;
            executed_ = number;
        }
        if (i == begin_) {
            ++begin_;
        } else {
            away_.erase(away_.begin() + static_cast<ptrdiff_t>(i));
        }
    }

    /// The shard's segments have changed, and none is under way: the next one names none. Both ends
    /// count on.
    void begin_anew() noexcept {
        executed_ = 0;
        executed_place_ = {};
    }

    /// Whether the shard must be told of `time` in full before a push of it is sent.
    [[nodiscard]] bool is_far(uint64_t time) const noexcept {
        return time > base_ ? time - base_ >= kReach : base_ - time >= kReach;
    }

    /// The shard has been told.
    void set_base(uint64_t time) noexcept { base_ = time; }

private:
    struct Away {
        PiecePlace place;
        uint32_t number = 0;
    };

    static constexpr size_t kCompactAt = 256;

    std::vector<Away> away_;  ///< from begin_ on, in the order in which they were sent
    size_t begin_ = 0;
    bool is_ascending_ = true;  ///< their places are
    uint32_t count_ = 0;
    uint32_t executed_ = 0;  ///< the last one, by place, that was executed
    PiecePlace executed_place_;
    uint64_t base_ = 0;
};

}  // namespace weir

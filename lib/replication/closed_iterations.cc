// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/closed_iterations.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {

std::optional<IterationFailure> ClosedState::failure_of(uint64_t iteration) const noexcept {
    const auto found = std::ranges::find(failed, iteration, &FailedIteration::iteration);
    return found == failed.end() ? std::nullopt : std::optional(found->failure);
}

bool ClosedState::is_sound() const noexcept {
    if (last > kIterationMax) return false;
    uint64_t before = last > kRemembered ? last - kRemembered : 0;
    return std::ranges::all_of(failed, [&](const FailedIteration& one) {
        return std::exchange(before, one.iteration) < one.iteration && one.iteration <= last &&
               one.failure.status != Errc::kOk;
    });
}

/// The index of the first entry that ends at or after `position`.
size_t ClosedIterations::first_ending_at(uint64_t position) const noexcept {
    const auto at = std::ranges::lower_bound(entries_, position, {},
                                             [](const Entry& e) { return e.range.last; });
    return static_cast<size_t>(at - entries_.begin());
}

/// Makes no entry reach from before `position` to it. Returns the index of the first one from
/// there on.
size_t ClosedIterations::cut_before(uint64_t position) {
    const size_t i = first_ending_at(position);
    if (i == entries_.size() || entries_[i].range.first >= position) return i;
    Entry before = entries_[i];
    before.range.last = position - 1;
    entries_[i].range.first = position;
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(i), std::move(before));
    return i + 1;
}

size_t ClosedIterations::cut_after(uint64_t position) {
    return position == ~uint64_t{0} ? entries_.size() : cut_before(position + 1);
}

/// Calls `to` for the entries of `range`, after new ones were made where there were none.
template <class Change>
void ClosedIterations::change(PositionRange range, Change&& to) {
    const size_t begin = cut_before(range.first);
    const size_t end = cut_after(range.last);
    std::vector<Entry> filled;
    uint64_t next = range.first;
    for (size_t i = begin; i < end; ++i) {
        Entry& entry = entries_[i];
        if (entry.range.first > next) filled.push_back({{next, entry.range.first - 1}, false, {}});
        next = entry.range.last + 1;  // 0 beyond the ring
        filled.push_back(std::move(entry));
    }
    if (begin == end || filled.back().range.last < range.last)
        filled.push_back({{next, range.last}, false, {}});
    std::ranges::for_each(filled, to);
    const auto at = entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(begin),
                                   entries_.begin() + static_cast<std::ptrdiff_t>(end));
    entries_.insert(at, std::make_move_iterator(filled.begin()),
                    std::make_move_iterator(filled.end()));
}

/// Merges neighbours that are equal, and looks how far all have come.
void ClosedIterations::settle() {
    size_t kept = 0;
    has_primary_ = false;
    has_failure_ = false;
    lowest_ = 0;
    highest_ = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
        Entry& entry = entries_[i];
        if (entry.is_primary) {
            lowest_ = has_primary_ ? std::min(lowest_, entry.state.last) : entry.state.last;
            highest_ = std::max(highest_, entry.state.last);
            has_primary_ = true;
            has_failure_ |= !entry.state.failed.empty();
        }
        Entry* const before = kept == 0 ? nullptr : &entries_[kept - 1];
        if (before != nullptr && before->range.last + 1 == entry.range.first &&
            before->is_primary == entry.is_primary && before->state == entry.state) {
            before->range.last = entry.range.last;
            continue;
        }
        if (kept != i) entries_[kept] = std::move(entry);
        ++kept;
    }
    entries_.resize(kept);
}

void ClosedIterations::set_primary(std::span<const PositionRange> ranges) {
    for (Entry& entry : entries_)
        entry.is_primary = false;
    for (const PositionRange range : ranges)
        change(range, [](Entry& entry) { entry.is_primary = true; });
    settle();
}

void ClosedIterations::set(const ClosedRun& run) {
    WEIR_CHECK(run.state.is_sound());
    change(run.range, [&](Entry& entry) { entry.state = run.state; });
    settle();
}

void ClosedIterations::drop(PositionRange range) {
    const auto begin = static_cast<std::ptrdiff_t>(cut_before(range.first));
    const auto end = static_cast<std::ptrdiff_t>(cut_after(range.last));
    WEIR_CHECK(std::none_of(entries_.begin() + begin, entries_.begin() + end,
                            [](const Entry& entry) { return entry.is_primary; }));
    entries_.erase(entries_.begin() + begin, entries_.begin() + end);
}

std::vector<ClosedRun> ClosedIterations::runs(PositionRange range) const {
    std::vector<ClosedRun> found;
    for (size_t i = first_ending_at(range.first);
         i < entries_.size() && entries_[i].range.first <= range.last; ++i) {
        const Entry& entry = entries_[i];
        const PositionRange both{std::max(range.first, entry.range.first),
                                 std::min(range.last, entry.range.last)};
        if (!found.empty() && found.back().range.last + 1 == both.first &&
            found.back().state == entry.state) {
            found.back().range.last = both.last;
        } else {
            found.push_back({both, entry.state});
        }
    }
    return found;
}

const ClosedState* ClosedIterations::find(uint64_t position) const noexcept {
    const size_t i = first_ending_at(position);
    if (i == entries_.size() || entries_[i].range.first > position) return nullptr;
    return &entries_[i].state;
}

std::optional<IterationFailure> ClosedIterations::failure_of(uint64_t iteration) const noexcept {
    if (!has_failure_) return std::nullopt;
    for (const Entry& entry : entries_) {
        if (!entry.is_primary) continue;
        if (const auto failure = entry.state.failure_of(iteration)) return failure;
    }
    return std::nullopt;
}

void ClosedIterations::close(uint64_t iteration, const std::optional<IterationFailure>& failure) {
    WEIR_CHECK(has_primary_ && iteration > lowest_);
    const bool stay_equal = lowest_ == highest_ && !failure && !has_failure_;
    if (stay_equal) {
        for (Entry& entry : entries_) {
            if (entry.is_primary) entry.state.last = iteration;
        }
        lowest_ = iteration;
        highest_ = iteration;
        return;
    }
    for (Entry& entry : entries_) {
        ClosedState& state = entry.state;
        if (!entry.is_primary || state.last >= iteration) continue;
        state.last = iteration;
        if (failure) state.failed.push_back({iteration, *failure});
        std::erase_if(state.failed, [&](const FailedIteration& one) {
            return one.iteration + ClosedState::kRemembered <= iteration;
        });
    }
    settle();
}

}  // namespace weir

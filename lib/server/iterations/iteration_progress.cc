// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations/iteration_progress.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {

IterationProgress::IterationProgress(ClosedIterations& closed, uint32_t window)
    : closed_(closed), window_(window) {
    WEIR_CHECK(window > 0);
}

size_t IterationProgress::search(uint32_t worker) const noexcept {
    const auto at = std::ranges::lower_bound(members_, worker, {},
                                             [](const Member& member) { return member.is.worker; });
    if (at == members_.end() || at->is.worker != worker) return kNone;
    return static_cast<size_t>(at - members_.begin());
}

void IterationProgress::set_members(std::span<const IterationMember> members) {
    WEIR_CHECK(std::ranges::adjacent_find(members, std::ranges::greater_equal(),
                                          &IterationMember::worker) == members.end());
    std::vector<Member> after;
    std::vector<size_t> old_index;
    for (const IterationMember member : members) {
        const size_t i = search(member.worker);
        old_index.push_back(i);
        after.push_back({member, std::max(member.first - 1, last_closed())});
        if (i == kNone) continue;
        after.back().last_seen = std::max(members_[i].last_seen, member.first - 1);
        after.back().is_lost = members_[i].is_lost;
    }
    members_ = std::move(after);
    for (uint64_t iteration = first_open(); iteration <= last_open(); ++iteration) {
        Open& in = open(iteration);
        const std::vector<Parts> before =
            std::exchange(in.parts, std::vector<Parts>(members_.size()));
        for (size_t i = 0; i < members_.size(); ++i) {
            if (old_index[i] < before.size()) in.parts[i] = before[old_index[i]];
        }
        count_missing(iteration);
    }
    find_hopeless();
}

void IterationProgress::restart(std::span<const PositionRange> primary) {
    closed_.set_primary(primary);
    for (Member& member : members_)
        member.last_seen = std::max(member.is.first - 1, last_closed());
    for (uint64_t iteration = first_open(); iteration <= last_open(); ++iteration) {
        reopen(iteration);
        open(iteration).failure.reset();
        open(iteration).is_used = false;
        note_withdrawals(iteration);
    }
    find_hopeless();
    fail_hopeless();
}

IterationProgress::Verdict IterationProgress::judge(uint64_t iteration, uint32_t worker,
                                                    uint32_t parts) noexcept {
    const size_t i = index_of(worker);
    if (i == kNone || parts == 0 || parts > kPartsMax) return Verdict::kRefuse;
    Member& member = members_[i];
    if (iteration < member.is.first) return Verdict::kRefuse;
    if (iteration <= last_closed()) return Verdict::kPast;
    if (iteration > member.last_seen + 1) return Verdict::kSkips;
    member.last_seen = std::max(member.last_seen, iteration);
    return iteration > last_open() ? Verdict::kLater : Verdict::kNow;
}

bool IterationProgress::lacks(uint64_t iteration, uint32_t worker, uint32_t parts) const noexcept {
    const size_t i = index_of(worker);
    if (i == kNone) return false;
    const Parts& of = open(iteration).parts[i];
    return of.announced == 0 || (of.announced == parts && of.arrived < parts);
}

bool IterationProgress::is_over(uint64_t iteration, uint32_t worker) const noexcept {
    const size_t i = index_of(worker);
    return i == kNone || open(iteration).parts[i].is_over;
}

bool IterationProgress::is_last(uint64_t iteration, uint32_t worker,
                                uint32_t parts) const noexcept {
    return parts == 1 && iteration == first_open() && iteration < barred() &&
           open(iteration).missing == 1 && lacks(iteration, worker, parts) &&
           !is_over(iteration, worker) && closed_.has_primary();
}

void IterationProgress::arrived(uint64_t iteration, uint32_t worker, uint32_t parts) {
    const size_t i = index_of(worker);
    WEIR_CHECK(i != kNone);
    Open& in = open(iteration);
    Parts& of = in.parts[i];
    in.is_used = true;
    WEIR_CHECK(first_open() <= iteration && iteration <= last_open());
    WEIR_CHECK(of.announced == 0 || (of.announced == parts && of.arrived < parts));  // lacks()
    of.announced = parts;
    if (++of.arrived == of.announced) end_parts(iteration, i);
}

void IterationProgress::fail(uint64_t iteration, const Failure& failure) noexcept {
    note(iteration, failure);
    if (const size_t i = index_of(failure.worker); i != kNone) end_parts(iteration, i);
}

void IterationProgress::end_parts(uint64_t iteration, size_t member) noexcept {
    Open& in = open(iteration);
    if (std::exchange(in.parts[member].is_over, true)) return;
    if (members_[member].is.first > iteration) return;
    WEIR_CHECK(in.missing > 0);
    --in.missing;
}

void IterationProgress::note(uint64_t iteration, Failure failure) noexcept {
    std::optional<Failure>& first = open(iteration).failure;
    open(iteration).is_used = true;
    if (!first) first = failure;
}

void IterationProgress::set_withdrawals(std::vector<Withdrawal> withdrawals) {
    withdrawals_ = std::move(withdrawals);
    for (uint64_t iteration = first_open(); iteration <= last_open(); ++iteration)
        note_withdrawals(iteration);
}

void IterationProgress::note_withdrawals(uint64_t iteration) noexcept {
    if (end_) return;
    for (const Withdrawal& of : withdrawals_) {
        if (of.first <= iteration && iteration <= of.last)
            note(iteration, {Errc::kCancelled, of.worker});
    }
}

void IterationProgress::lose(uint32_t worker) noexcept {
    const size_t i = index_of(worker);
    if (i == kNone || members_[i].is_lost) return;
    members_[i].is_lost = true;
    find_hopeless();
    fail_hopeless();
}

void IterationProgress::end(Failure failure) noexcept {
    end_ = failure;
    for (uint64_t iteration = first_open(); iteration <= last_open(); ++iteration) {
        // Who leaves then withdraws its parts, and the others are to hear of the end.
        std::optional<Failure>& its = open(iteration).failure;
        if (its && its->status == Errc::kCancelled) its.reset();
    }
    find_hopeless();
    fail_hopeless();
}

/// From which iteration on a lost worker lacks parts; if iterations have ended, from the first one.
void IterationProgress::find_hopeless() noexcept {
    hopeless_from_ = end_ ? first_open() : kNotHeld;
    loss_ = end_;
    for (const Member& member : members_) {
        if (!member.is_lost) continue;
        uint64_t iteration = std::max(first_open(), member.is.first);
        while (iteration <= last_open() && is_over(iteration, member.is.worker))
            ++iteration;
        if (iteration >= hopeless_from_) continue;
        hopeless_from_ = iteration;
        loss_ = Failure{Errc::kPeerLost, member.is.worker};
    }
}

void IterationProgress::fail_hopeless() noexcept {
    WEIR_CHECK(loss_.has_value() == (hopeless_from_ != kNotHeld));
    for (uint64_t iteration = hopeless_from_; iteration <= last_open(); ++iteration)
        note(iteration, *loss_);
}

std::optional<IterationProgress::Failure> IterationProgress::hopeless(
    uint64_t iteration, uint32_t worker) const noexcept {
    const size_t i = index_of(worker);
    const bool gave_up = i != kNone && members_[i].is_lost;
    return gave_up || is_hopeless(iteration) ? failure_for(iteration, worker) : std::nullopt;
}

uint64_t IterationProgress::hold() noexcept {
    hold_ = std::min(hold_, std::max(last_open(), closed_.highest()) + 1);
    return hold_;
}

bool IterationProgress::complete() const noexcept {
    return open(first_open()).missing == 0 && !members_.empty() && closed_.has_primary() &&
           first_open() < barred() && !end_;
}

void IterationProgress::close() {
    WEIR_CHECK(complete());
    closed_.close(first_open(), open(first_open()).failure);
    reopen(last_open());  // in the room of the one that is closed now
}

bool IterationProgress::close_empty() {
    if (!complete()) return false;
    uint64_t end = barred();
    for (const Member& member : members_)
        end = std::min(end, member.is.first);
    const bool is_used = std::ranges::any_of(window_, &Open::is_used);
    if (is_used || end <= first_open()) return false;
    closed_.close(end - 1, std::nullopt);
    for (uint64_t iteration = first_open(); iteration <= last_open(); ++iteration)
        reopen(iteration);
    return true;
}

/// Nothing of the iteration has arrived yet.
void IterationProgress::reopen(uint64_t iteration) {
    Open& opened = open(iteration);
    opened.parts.assign(members_.size(), Parts());
    opened.is_used = loss_.has_value();
    opened.failure = loss_;
    count_missing(iteration);
    note_withdrawals(iteration);
}

void IterationProgress::count_missing(uint64_t iteration) noexcept {
    Open& in = open(iteration);
    in.missing = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
        if (members_[i].is.first <= iteration && !in.parts[i].is_over) ++in.missing;
    }
}

std::optional<IterationProgress::Failure> IterationProgress::failure_of(
    uint64_t iteration) const noexcept {
    if (iteration > last_open()) return loss_;
    if (iteration > last_closed()) return open(iteration).failure;
    return closed_.failure_of(iteration);
}

std::optional<IterationProgress::Failure> IterationProgress::failure_for(
    uint64_t iteration, uint32_t worker) const noexcept {
    if (const auto failure = failure_of(iteration)) return failure;
    const size_t i = index_of(worker);
    const bool gave_up = iteration > last_closed() && i != kNone && members_[i].is_lost;
    return gave_up ? std::optional(Failure{Errc::kPeerLost, worker}) : std::nullopt;
}

uint64_t IterationProgress::last_begun() const noexcept {
    uint64_t last = last_closed();
    for (const Member& member : members_) {
        if (member.last_seen >= member.is.first) last = std::max(last, member.last_seen);
    }
    return last;
}

uint64_t IterationProgress::last_seen(uint32_t worker) const noexcept {
    const size_t i = index_of(worker);
    return i == kNone ? 0 : members_[i].last_seen;
}

}  // namespace weir

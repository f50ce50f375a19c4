// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IterationProgress: which iterations of a table are open at a shard, which workers' parts of them
/// have arrived, and which iterations have failed. The update rule runs once all parts have
/// arrived; it does not run if a part failed.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/replication/closed_iterations.h"

namespace weir {

/// A worker that takes part in a table's iterations from `first` on.
struct IterationMember {
    uint32_t worker = 0;
    uint64_t first = 1;
    friend bool operator==(IterationMember, IterationMember) noexcept = default;
};

/// Iterations count from 1. A window of them is open at a time, above the last one that is closed
/// wherever the shard is primary, and they are closed in order. Every member pushes one or more
/// parts of each iteration from its first one on, and each part says how many there are. An
/// iteration before that of the first member has no parts. Without members none is closed.
///
/// Thread: the shard's
class IterationProgress {
public:
    using Failure = IterationFailure;

    /// More than this many parts of one worker and iteration are not taken.
    static constexpr uint32_t kPartsMax = 1U << 20;

    /// `window`: how many are open; 1 or more.
    explicit IterationProgress(ClosedIterations& closed, uint32_t window = 1);

    /// A view has these members, in ascending order. What has arrived from others still counts.
    void set_members(std::span<const IterationMember> members);

    /// The shard is primary of these ranges from now on. Nothing has arrived any more, of any open
    /// iteration.
    void restart(std::span<const PositionRange> primary);

    [[nodiscard]] ClosedIterations& closed() noexcept { return closed_; }

    [[nodiscard]] const ClosedIterations& closed() const noexcept { return closed_; }

    enum class Verdict {
        kNow,     ///< a part of an open iteration
        kLater,   ///< a part of a later iteration: keep it until that is open
        kPast,    ///< a part of a closed iteration
        kSkips,   ///< this worker has not yet sent a part of the iteration before it
        kRefuse,  ///< no member of this iteration, or no number of parts: a mistake of the worker
    };
    /// What to do with a part of `iteration`, of which `worker` announces `parts`. With kNow and
    /// kLater, `iteration` now counts as seen (see last_seen()).
    [[nodiscard]] Verdict judge(uint64_t iteration, uint32_t worker, uint32_t parts) noexcept;

    // Of an open iteration, after kNow:

    /// Whether one of `parts` parts of the worker has not arrived. Not if it announced another
    /// number before.
    [[nodiscard]] bool lacks(uint64_t iteration, uint32_t worker, uint32_t parts) const noexcept;

    /// Whether the iteration waits for a part of the worker.
    [[nodiscard]] bool waits_for(uint64_t iteration, uint32_t worker) const noexcept {
        const size_t i = index_of(worker);
        return i != kNone && members_[i].is.first <= iteration && !open(iteration).parts[i].is_over;
    }

    /// Whether a part, one of `parts`, is all that the iteration lacks, and it will be closed then.
    [[nodiscard]] bool is_last(uint64_t iteration, uint32_t worker, uint32_t parts) const noexcept;
    /// A part has arrived. Only while the iteration lacks() one.
    void arrived(uint64_t iteration, uint32_t worker, uint32_t parts);
    /// The iteration fails, and waits for no further part of the worker. The first failure is
    /// kept.
    void fail(uint64_t iteration, const Failure& failure) noexcept;

    /// The worker will send nothing more: the first open iteration that lacks a part of it has
    /// failed, and all later ones have, too, because they could only be closed after it.
    void lose(uint32_t worker) noexcept;

    /// The worker, who is gone, withdrew its parts of iterations `first` to `last`: they fail unless
    /// they are closed.
    struct Withdrawal {
        uint32_t worker = 0;
        uint64_t first = 1;
        uint64_t last = 1;
    };

    /// All of a view.
    void set_withdrawals(std::vector<Withdrawal> withdrawals);

    /// No iteration is closed any more: all that are open and all later ones have failed so.
    void end(Failure failure) noexcept;

    [[nodiscard]] bool has_ended() const noexcept { return end_.has_value(); }

    /// Closes no iteration from the first one on that is above the window and closed nowhere, before
    /// release(). Returns that iteration. Held already, it is the same one.
    [[nodiscard]] uint64_t hold() noexcept;

    void release() noexcept { hold_ = kNotHeld; }

    /// Closes no iteration behind `last` before go_on(): for a checkpoint.
    void stop_behind(uint64_t last) noexcept { stop_ = last + 1; }

    void go_on() noexcept { stop_ = kNotHeld; }

    /// Whether all parts of the first open iteration have arrived: run the rule unless the
    /// iteration has failed, then close().
    [[nodiscard]] bool complete() const noexcept;
    /// Ends the first open iteration and opens one more.
    void close();
    /// Ends, at once, all iterations that come before that of the first member and of which
    /// nothing has arrived. True if there are some.
    bool close_empty();

    /// How `iteration` failed somewhere at this shard, or will because a worker is lost. Nothing if
    /// neither is so, or if it failed too long ago to be remembered.
    [[nodiscard]] std::optional<Failure> failure_of(uint64_t iteration) const noexcept;

    /// The same, as a reply to `worker`: if that one itself is lost, every iteration that is
    /// not closed has failed for it, so that it does not wait.
    [[nodiscard]] std::optional<Failure> failure_for(uint64_t iteration,
                                                     uint32_t worker) const noexcept;

    /// How an iteration fails that will not be closed, because a lost worker lacks a part of it or
    /// of one before it; or for that worker itself. Other iterations that have failed are closed,
    /// and only then their parts are replied to: a worker that has heard of all its parts would not
    /// send them again to a shard that takes over a segment before.
    [[nodiscard]] std::optional<Failure> hopeless(uint64_t iteration,
                                                  uint32_t worker) const noexcept;

    [[nodiscard]] bool is_hopeless(uint64_t iteration) const noexcept {
        return iteration >= hopeless_from_;
    }

    [[nodiscard]] uint64_t first_open() const noexcept { return last_closed() + 1; }

    [[nodiscard]] uint64_t last_open() const noexcept { return last_closed() + window_.size(); }

    /// The last iteration of which any part was sent here, or one that is closed.
    [[nodiscard]] uint64_t last_begun() const noexcept;

    /// The last iteration that is closed wherever the shard is primary.
    [[nodiscard]] uint64_t last_closed() const noexcept { return closed_.lowest(); }

    /// The last iteration of which this worker has sent a part.
    [[nodiscard]] uint64_t last_seen(uint32_t worker) const noexcept;

private:
    static constexpr uint64_t kNotHeld = ~uint64_t{0};
    static constexpr size_t kNone = ~size_t{0};

    struct Member {
        IterationMember is;
        uint64_t last_seen = 0;
        bool is_lost = false;
    };

    /// One worker's parts of one iteration.
    struct Parts {
        uint32_t announced = 0;  ///< 0: no part has arrived
        uint32_t arrived = 0;
        bool is_over = false;  ///< all have arrived, or no more are waited for
    };

    struct Open {
        std::vector<Parts> parts;  ///< by index in members_
        uint32_t missing = 0;      ///< members whose parts are not over
        bool is_used = false;      ///< something has arrived
        std::optional<Failure> failure;
    };

    [[nodiscard]] Open& open(uint64_t iteration) noexcept {
        return window_[iteration % window_.size()];
    }

    [[nodiscard]] const Open& open(uint64_t iteration) const noexcept {
        return window_[iteration % window_.size()];
    }

    /// Mostly a worker's number is its index.
    [[nodiscard]] size_t index_of(uint32_t worker) const noexcept {
        const bool is_there = worker < members_.size() && members_[worker].is.worker == worker;
        return is_there ? worker : search(worker);
    }

    /// From here on none is closed now.
    [[nodiscard]] uint64_t barred() const noexcept { return hold_ < stop_ ? hold_ : stop_; }

    [[nodiscard]] size_t search(uint32_t worker) const noexcept;
    void reopen(uint64_t iteration);
    void count_missing(uint64_t iteration) noexcept;
    [[nodiscard]] bool is_over(uint64_t iteration, uint32_t worker) const noexcept;
    void end_parts(uint64_t iteration, size_t member) noexcept;
    void find_hopeless() noexcept;
    void fail_hopeless() noexcept;
    void note(uint64_t iteration, Failure failure) noexcept;
    void note_withdrawals(uint64_t iteration) noexcept;

    ClosedIterations& closed_;
    std::vector<Open> window_;     ///< iteration i at i % size
    std::vector<Member> members_;  ///< ascending by worker
    std::optional<Failure> loss_;  ///< of every iteration that is not open yet: a lost worker
    std::optional<Failure> end_;   ///< end() was called
    std::vector<Withdrawal> withdrawals_;
    uint64_t hold_ = kNotHeld;           ///< none from here on is closed
    uint64_t stop_ = kNotHeld;           ///< nor from here on
    uint64_t hopeless_from_ = kNotHeld;  ///< the first iteration that lacks a lost worker's part
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WorkRounds: who has which pieces of the job's work. Workers take it in rounds: once all of them
/// ask, it is dealt out to them. A worker that comes, dies or gives its work back ends the round; then
/// all ask again, until one of them says that the work is done.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/manager/asker.h"

namespace weir {

/// The pieces of each worker, ascending.
using Pieces = std::map<uint32_t, std::vector<uint32_t>>;

/// Deals out pieces 0 .. piece_count - 1. Nobody gets more than one piece more than another one,
/// and each keeps as many of those it had `before` as that allows.
///
/// Shape: `workers` ascending, not empty
[[nodiscard]] Pieces deal_pieces(uint32_t piece_count, std::span<const uint32_t> workers,
                                 const Pieces& before);

/// Thread: the manager's
class WorkRounds {
public:
    explicit WorkRounds(Outbox& outbox) noexcept : outbox_(outbox) {}

    /// The worker is in the job: a round begins when it, too, has asked.
    void add(uint32_t worker) { workers_.try_emplace(worker); }

    /// The worker is in the job no more, or takes no more work. True: it is missed in the round that
    /// goes on, if one does.
    bool remove(uint32_t worker);

    /// A worker asks for its share. The number of pieces, and the description, are those of the first
    /// one that asks. True: it takes no part in the round that goes on, if one does. One that is not
    /// in the job, or waits already, is refused, and so is everybody once the work is done.
    bool arrive(const Asker& asker, uint32_t piece_count, std::string_view description);

    /// The worker's call has ended without its share, and it asks no more. True: it had a share
    /// already, in the round that goes on, and does not know of it.
    [[nodiscard]] bool withdraw(uint32_t worker, uint64_t request);

    /// The round is over. False: none was going on.
    bool end() noexcept;

    /// The work is done, as this worker says: those that wait for a share are refused.
    ///
    /// Errors: kInvalidArgument if it had no share in the last round
    [[nodiscard]] Status finish(uint32_t worker);

    /// Deals the work out if all workers of the job ask for it. If it is `broken`, they get that.
    void settle(const Status& broken);

    /// Whether the worker takes part in rounds, now or once it asks.
    [[nodiscard]] bool has(uint32_t worker) const { return workers_.contains(worker); }

    /// Whether the worker has a share in the round that goes on.
    [[nodiscard]] bool has_share(uint32_t worker) const {
        return state_ == State::kGoingOn && pieces_.contains(worker);
    }

    /// Its share in that, ascending; nothing if it has none.
    [[nodiscard]] std::span<const uint32_t> share_of(uint32_t worker) const {
        return has_share(worker) ? std::span<const uint32_t>(pieces_.at(worker))
                                 : std::span<const uint32_t>();
    }

    /// Whether rounds have begun, and the worker has no share in one that goes on.
    [[nodiscard]] bool is_outside(uint32_t worker) const {
        return state_ == State::kOver || (round_ > 0 && !pieces_.contains(worker));
    }

    /// Whether there was a round, and it is over, and another one is to begin.
    [[nodiscard]] bool is_over() const noexcept { return state_ == State::kOver; }

    [[nodiscard]] uint64_t round() const noexcept { return round_; }  ///< the last; 0: none yet

    [[nodiscard]] uint32_t piece_count() const noexcept { return piece_count_; }  ///< 0: none yet

    [[nodiscard]] const std::string& description() const noexcept { return description_; }

private:
    enum class State : uint8_t {
        kNotBegun,
        kGoingOn,
        kOver,  ///< the round is; the next one begins when all have asked
        kDone   ///< the work is
    };

    void refuse_as_done(const Asker& asker);

    Outbox& outbox_;
    std::map<uint32_t, std::optional<Asker>> workers_;  // those that ask, with their requests
    Pieces pieces_;                                     // as last dealt
    std::map<uint32_t, uint64_t> dealt_;                // to which requests
    uint32_t piece_count_ = 0;
    std::string description_;
    uint64_t round_ = 0;
    State state_ = State::kNotBegun;
};

}  // namespace weir

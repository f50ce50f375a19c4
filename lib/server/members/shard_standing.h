// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardStanding: where a shard stands in its job: joining, serving, over; and the view by which it
/// serves.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/ring/view.h"
#include "lib/server/shard_options.h"
#include "lib/wire/messages.h"

namespace weir {

/// Thread: the shard's
class ShardStanding {
public:
    enum class Phase : uint8_t {
        kJoining,
        kServing,
        kThrown,  ///< code of the program has thrown: it does nothing more, and waits for the job's end
        kOver
    };

    explicit ShardStanding(ShardOptions options) : options_(std::move(options)) {}

    [[nodiscard]] const ShardOptions& options() const noexcept { return options_; }

    [[nodiscard]] std::string name() const;
    /// `address`: of its endpoint. `pass`: as PassesMessage has it.
    [[nodiscard]] JoinMessage join_message(std::string address, uint64_t pass) const;

    /// The number and rank of a shard that joins a running job.
    void set_number(const AdmitMessage& numbers);

    /// Not while a shard that joins waits for its number.
    [[nodiscard]] bool has_number() const noexcept { return !options_.join || has_number_; }

    [[nodiscard]] Phase phase() const noexcept { return phase_; }

    [[nodiscard]] bool is_serving() const noexcept { return phase_ == Phase::kServing; }

    /// Ok, or the error that ended the job early.
    [[nodiscard]] const Status& outcome() const noexcept { return outcome_; }

    /// kOver. The first outcome counts, and after kThrown only an error does.
    void end(Status outcome);

    /// Code of the program has thrown. kThrown, or kOver if nobody else would end it.
    void throw_out(const Error& why);

    [[nodiscard]] bool has_thrown() const noexcept { return has_thrown_; }

    /// For good.
    void lose_manager() noexcept { has_lost_manager_ = true; }

    [[nodiscard]] bool has_lost_manager() const noexcept { return has_lost_manager_; }

    // The view.

    /// 0: there is none yet.
    [[nodiscard]] const View& view() const noexcept { return view_; }

    /// The epoch in which the positions that this shard owns last changed.
    [[nodiscard]] uint64_t since() const noexcept { return since_; }

    /// Serves by this view from now on.
    void apply(View view, uint64_t since);

    /// Of the view.
    [[nodiscard]] std::vector<PositionRange> primary_ranges() const;

    enum class OfEpoch { kServed, kStale, kEarly };

    /// Whether a request of this epoch is served.
    [[nodiscard]] OfEpoch judge(uint32_t epoch) const noexcept {
        return epoch == static_cast<uint32_t>(view_.epoch()) ? OfEpoch::kServed
                                                             : judge_other(epoch);
    }

    /// Something moves, is replicated, or is held for that. Derived by Shard::look_at_moves(); the
    /// way of a push branches on it.
    [[nodiscard]] bool is_moving() const noexcept { return is_moving_; }

    void set_moving(bool is_moving) noexcept { is_moving_ = is_moving; }

private:
    [[nodiscard]] OfEpoch judge_other(uint32_t epoch) const noexcept;

    bool is_moving_ = false;
    bool has_thrown_ = false;
    bool has_lost_manager_ = false;
    bool has_number_ = false;  ///< a joining shard has its number
    Phase phase_ = Phase::kJoining;
    View view_;
    uint64_t since_ = 0;
    Status outcome_;  ///< kThrown, kOver
    ShardOptions options_;
};

}  // namespace weir

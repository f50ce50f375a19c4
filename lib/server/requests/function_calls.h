// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FunctionCalls: from what a worker says of a function to what the tables of this shard run.

#include <cstdint>

#include "lib/server/shard_room.h"
#include "lib/store/functions/function_call.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/wire/call_message.h"

namespace weir {

/// Thread: the shard's
class FunctionCalls : ShardRoom {
public:
    FunctionCalls(const ShardRoom& room, const RuleRegistry& rules)
        : ShardRoom(room), rules_(rules) {}

    /// Each poll has time for some calls; the others wait for the next ones, and let other requests come in between.
    void begin_poll() noexcept { left_ = kPerPoll; }

    /// False: not in this poll.
    [[nodiscard]] bool take_turn() noexcept {
        if (left_ == 0) return false;
        --left_;
        return true;
    }

    /// Of a function that changes rows, or that reads some.
    ///
    /// Errors: kUnavailable: this process does not have it; kNotFound: or one of the tables; kBusy: one of these is
    ///         still being made; as TableShard::call()
    [[nodiscard]] Result<FunctionCall> make(ShardTable& table, const CallMessage& asked,
                                            bool changes) const;
    /// That of a push. Errors: also kInvalidArgument: it has more rows than a poll has time for
    [[nodiscard]] Result<FunctionCall> make(ShardTable& table, const Request& push) const;

private:
    static constexpr uint32_t kPerPoll = 2;

    const RuleRegistry& rules_;
    uint32_t left_ = kPerPoll;
};

}  // namespace weir

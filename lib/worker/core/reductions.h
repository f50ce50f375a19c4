// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Reductions: calls of functions that read. Each asks the shards for results of parts of a table, and puts these
/// together.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/store/functions/function_call.h"
#include "lib/store/memory.h"
#include "lib/task/task_id.h"
#include "lib/wire/call_message.h"
#include "lib/wire/scan_message.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/core/control.h"
#include "lib/worker/function_options.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"

namespace weir {

/// A walk has the positions that one shard had in one view, and goes over them as that shard lists its rows. If the
/// shard does not have all of them any more, what the walk has found counts for nothing, and its positions are asked
/// for anew. So each row counts once, whatever moves.
///
/// Thread: the client's
class Reductions {
public:
    using CallId = Calls::Id;

    Reductions(Standing& standing, Peers& peers, Calls& calls, CallTasks& tasks, Control& control,
               Sender& sender, KnownTables& tables, Memory& memory, const Clock& clock)
        : standing_(standing),
          peers_(peers),
          calls_(calls),
          tasks_(tasks),
          control_(control),
          sender_(sender),
          tables_(tables),
          memory_(memory),
          clock_(clock) {}

    /// What is asked for. It has been checked.
    struct Question {
        const TableInfo* table = nullptr;
        const FunctionEntry* function = nullptr;
        CallMessage call{};
        std::optional<KeyRange> keys{};  ///< not empty
        CallResult* result = nullptr;    ///< the caller's
    };

    /// `after`: as CallOptions has it. `deadline_ns`: of all of it, from now on; 0: each answer has the usual one.
    CallId start(Question question, uint64_t deadline_ns, std::span<const TaskId> after);

    [[nodiscard]] bool has_open() const noexcept { return !open_.empty(); }

    /// Takes what has come, and asks for more. Returns how much there was.
    size_t poll();

private:
    struct Walk {
        uint32_t shard = 0;
        uint64_t epoch = 0;     ///< of a view in which the shard has all of
        PositionSet positions;  ///< them
        CallId asked = 0;
        Block memory;  ///< while nothing is asked
        bool begins = true;
        bool by_row = false;
        uint64_t cursor = 0;
        CallResult found;
    };

    struct Reduction {
        CallId call = 0;
        Question question;
        bool has_deadline = false;
        PositionSet left;  ///< of no walk
        std::vector<Walk> walks;
        CallResult result;
    };

    [[nodiscard]] Status begin(CallId id, Call& call, const Question& question,
                               uint64_t deadline_ns);
    [[nodiscard]] bool poll(Reduction& reduction, size_t& done);
    template <class Work>
    [[nodiscard]] static Status safely(const Question& question, const Work& work);
    [[nodiscard]] Status go_on(Reduction& reduction, size_t& done);
    [[nodiscard]] bool has_moved(const Walk& walk) const;
    static void give_up(Reduction& reduction, Walk& walk);
    [[nodiscard]] Status take(Reduction& reduction, Walk& walk);
    [[nodiscard]] Status begin_walks(Reduction& reduction);
    [[nodiscard]] Status ask(const Reduction& reduction, Walk& walk);
    [[nodiscard]] Error explained(const Reduction& reduction, const Walk& walk,
                                  const Error& why) const;

    Standing& standing_;
    Peers& peers_;
    Calls& calls_;
    CallTasks& tasks_;
    Control& control_;
    Sender& sender_;
    KnownTables& tables_;
    Memory& memory_;
    const Clock& clock_;
    std::vector<Reduction> open_;
};

}  // namespace weir

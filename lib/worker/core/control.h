// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Control: calls that are neither push nor pull: to the manager, and about a shard.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/frame.h"
#include "lib/wire/messages.h"
#include "lib/wire/scan_message.h"
#include "lib/wire/table_list_message.h"
#include "lib/wire/work_message.h"
#include "lib/wire/work_share.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/deadlines.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/sender.h"

namespace weir {

/// Each call has one request. A call fails at once if the client is not ready.
///
/// Thread: the client's
class Control {
public:
    using CallId = Calls::Id;

    Control(Standing& standing, Peers& peers, Requests& requests, Sender& sender, Calls& calls,
            CallTasks& tasks, Deadlines& deadlines, KnownTables& tables, const RuleRegistry& rules,
            const Clock& clock)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          sender_(sender),
          calls_(calls),
          tasks_(tasks),
          deadlines_(deadlines),
          tables_(tables),
          rules_(rules),
          clock_(clock) {}

    /// A request without keys, and what is asked. `first`, `epoch`: of its header; `epoch` of the view in
    /// which `peer` is asked, if it matters who is.
    struct Question {
        uint32_t peer = Peers::kManager;
        wire::Kind kind = wire::Kind::kStats;
        std::vector<std::byte> body = {};
        uint64_t first = 0;
        uint32_t epoch = 0;
        Block memory = {};  ///< scan: where the rows go
    };

    /// `deadline_ns` 0: the default.
    CallId ask(Question question, uint64_t deadline_ns = 0);
    /// A call that starts after tasks. `deadline_ns` counts from now on. Without one (0) the call waits for
    /// as long as its tasks take, which have their own, and the usual one counts from when it starts.
    CallId add_task(uint64_t deadline_ns, CallTasks::Waiting waiting, Status wrong);
    /// Of the time that a call has that starts only now; 0: it was given none.
    [[nodiscard]] Result<uint64_t> remaining_ns(const Call& call) const;

    // As ClientCore has them.
    CallId create_table(TableSchema schema);
    CallId ask_about_table(wire::Kind kind, std::string_view table_name);
    CallId barrier(uint64_t deadline_ns, std::span<const TaskId> after);
    CallId wait_for(uint64_t deadline_ns, std::span<const TaskId> after);
    CallId leave(const Status& outcome, uint64_t deadline_ns);
    CallId checkpoint(uint64_t deadline_ns);
    CallId scan(uint32_t shard, const ScanMessage& message, Block memory, uint64_t deadline_ns);

    /// What an ended scan() has brought. The memory is there if the call has succeeded.
    struct Scanned {
        std::vector<std::byte> body;
        Block memory;
    };

    [[nodiscard]] Result<Scanned> take_scan(CallId call);

    /// The body of the reply to an ended call, which is then forgotten.
    [[nodiscard]] Result<std::vector<std::byte>> take_body(CallId call);
    [[nodiscard]] Result<TableInfo> take_table(CallId call);
    /// The name of the rule of the table that an ended call has brought, which stays; empty: none.
    [[nodiscard]] std::string rule_of_table(CallId call);
    [[nodiscard]] Result<TableListMessage> take_list(CallId call);
    [[nodiscard]] Result<WorkShare> take_share(CallId call);
    [[nodiscard]] Result<LostWorkersMessage> take_lost_workers(CallId call);
    [[nodiscard]] Result<uint64_t> take_checkpoint(CallId call);
    [[nodiscard]] Result<ResumedMessage> take_resumed(CallId call);
    [[nodiscard]] Result<WrittenMessage> take_written(CallId call);
    [[nodiscard]] Result<StatsMessage> take_stats(CallId call);

    /// Tells the manager of barriers and questions for work whose call has ended here and which are still
    /// open there: this worker must not count as waiting, and their requests must end.
    void withdraw_from_manager();

private:
    /// There must be room for it.
    void add_request(CallId call_id, Call& call, Question question);
    [[nodiscard]] Status check_barrier() const;
    template <class Message>
    [[nodiscard]] Result<Message> take_message(CallId call, const char* malformed);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Sender& sender_;
    Calls& calls_;
    CallTasks& tasks_;
    Deadlines& deadlines_;
    KnownTables& tables_;
    const RuleRegistry& rules_;
    const Clock& clock_;
};

}  // namespace weir

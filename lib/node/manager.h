// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Manager: decides which shards and workers are in the job, which shard owns which keys, and
/// which tables there are. It runs in the process of the first server.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/node/messages.h"
#include "lib/node/outbox.h"
#include "lib/node/state_machine.h"
#include "lib/ring/view.h"
#include "transport/transport.h"

namespace weir {

struct ManagerOptions {
    uint32_t server_count = 1;
    uint32_t shards_per_server = 1;
    uint32_t worker_count = 1;
    /// Ranks of servers and of workers, by number, for messages that name a missing process.
    std::vector<uint32_t> server_ranks;
    std::vector<uint32_t> worker_ranks;
    uint64_t join_timeout_ns = 30 * kSecond;
};

/// Life: waits until all shards and workers have joined; if one does not join in time, ends the
///       job with an error that names it. Then sends all of them the first view, epoch 1, and
///       serves workers until all have left or are lost. Then tells the shards to end.
///
/// Thread: one
class Manager final : public StateMachine {
public:
    Manager(ManagerOptions options, std::unique_ptr<transport::Endpoint> endpoint,
            const Clock& clock);

    size_t poll() override;
    [[nodiscard]] int arm() override;

    [[nodiscard]] bool finished() const override { return phase_ == Phase::kOver; }

    [[nodiscard]] std::string name() const override { return "manager"; }

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

private:
    enum class Phase { kJoining, kRunning, kEnding, kOver };

    struct Peer {
        bool joined = false;
        JoinMessage is;
    };

    /// The worker that sent a request, and what a reply to it needs, now or later.
    struct Asker {
        transport::ConnectionId connection;
        uint64_t request;
        uint32_t worker;
    };

    /// A shard or worker of the job.
    struct Member {
        transport::ConnectionId connection = 0;
        enum class State { kMissing, kHere, kLeft, kLost } state = State::kMissing;
        std::string address;
        uint32_t rank = 0;
        uint64_t host = 0;
        LeaveMessage end = {};                 ///< lost worker: why it gave up; kOk: unknown
        std::optional<Asker> at_barrier = {};  ///< worker: its request while it is at the barrier
    };

    struct TableEntry {
        TableMessage message;
        std::vector<bool> asked;    ///< by shard: has not answered yet
        Errc status = Errc::kOk;    ///< not kOk: the table cannot be made
        std::string why;            ///< why not: the first reason, which names the shard
        std::vector<Asker> askers;  ///< workers that wait for the table
    };

    void handle(const transport::Completion& completion);
    void receive(transport::ConnectionId connection, std::span<const std::byte> message);
    void join(transport::ConnectionId connection, Peer& peer, const wire::Frame& frame);
    void create_table(const Asker& asker, const wire::Frame& frame);
    void open_table(const Asker& asker, const wire::Frame& frame);
    void table_made(uint32_t shard, const wire::Frame& frame);
    static void fail_table(TableEntry& entry, Errc status, std::string why);
    void fail_table_without(TableEntry& entry, size_t shard);
    void answer_table(TableEntry& entry);
    void barrier(const Asker& asker);
    void withdraw(const Asker& asker, uint64_t request);
    void leave(const Asker& asker, const wire::Frame& frame);
    void end_barrier_if_complete();
    void leave_barrier(Member& worker);
    void lost(transport::ConnectionId connection);
    void lose_worker(uint32_t worker);
    void tell_shards_of(uint32_t worker);
    void tell_workers_of(uint32_t shard);
    void begin_if_complete();
    [[nodiscard]] Result<View> make_first_view() const;
    void end_if_no_worker_is_left();
    [[nodiscard]] bool shards_are_gone() const;
    void end(Errc status, const std::string& why);
    [[nodiscard]] std::string shard_name(size_t shard) const;
    [[nodiscard]] std::string missing() const;
    [[nodiscard]] Error lost_workers() const;
    void reply(const Asker& to, Errc status, std::span<const std::byte> body = {});
    void refuse(transport::ConnectionId connection, std::string_view why);

    ManagerOptions options_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    Outbox outbox_;
    RepeatedLog refusals_{clock_};
    std::array<transport::Completion, 32> completions_;  ///< of one poll
    Phase phase_ = Phase::kJoining;
    uint64_t started_ns_;
    uint64_t ending_since_ns_ = 0;
    std::unordered_map<transport::ConnectionId, Peer> peers_;
    View view_;
    std::vector<Member> shards_;
    std::vector<Member> workers_;
    std::vector<TableEntry> tables_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shard: one thread's share of the parameters. It alone reads and writes its keys.
///
/// The way of a push: receive() -> admit() (shard_requests.cc: is it for us, is it its turn) ->
/// start() (its keys and values: in the message, mapped, or read by the Fetcher) -> push()
/// (shard_push.cc: the table) -> reply().

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/node/assignment_parts.h"
#include "lib/node/messages.h"
#include "lib/node/outbox.h"
#include "lib/node/state_machine.h"
#include "lib/ring/assignment.h"
#include "lib/server/fetcher.h"
#include "lib/server/iterations.h"
#include "lib/store/key_list_cache.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"
#include "lib/store/rule_registry.h"
#include "lib/store/table.h"
#include "transport/transport.h"

namespace weir {

struct ShardOptions {
    uint32_t number = 0;  ///< through all servers of the job
    uint32_t rank = 0;    ///< of its process, for people
    std::string manager_address;
    size_t fetch_bytes_max = size_t{64} << 20;  ///< on their way from and to workers at one time
    /// Remembered key lists of all tables together: this shard's part of what they may take of its
    /// pool.
    size_t list_cache_bytes = size_t{256} << 20;
    /// Of requests of one worker that wait for something, each a few hundred bytes and what its
    /// message carried. Beyond this (8,000 full messages) a worker is told that we are busy.
    size_t waiting_bytes_max = size_t{64} << 20;
};

/// Thread: one. Ends when the manager says so, or when the manager and all workers are gone.
class Shard final : public StateMachine {
public:
    /// `memory` (registered, not exposed) holds the tables and what is fetched.
    Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock,
          Memory& memory, const RuleRegistry& rules);
    ~Shard() override;
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;

    size_t poll() override;
    [[nodiscard]] int arm() override;

    [[nodiscard]] bool finished() const override { return phase_ == Phase::kOver; }

    [[nodiscard]] std::string name() const override;

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    /// Ok, or what ended the job before its time.
    [[nodiscard]] Status outcome() const override { return outcome_; }

private:
    using ConnectionId = transport::ConnectionId;
    enum class Phase { kJoining, kServing, kOver };
    static constexpr size_t kWaitingBytes = 512;  ///< about what a request takes that waits

    struct Session {
        ConnectionId connection = 0;
        bool known = false;  ///< has said who it is
        uint32_t worker = 0;
        size_t waiting_bytes = 0;  ///< of its requests that wait for something
    };

    /// A request that waits for an iteration, or for a pull to be written: what was taken out of
    /// its message, and a copy of the rest, which its sender can no longer change.
    struct Deferred {
        Deferred(ConnectionId from, const wire::Frame& received);
        Deferred(const Deferred&) = delete;  // the spans would be another's
        Deferred& operator=(const Deferred&) = delete;
        Deferred(Deferred&&) noexcept = default;
        Deferred& operator=(Deferred&&) noexcept = default;
        ~Deferred() = default;

        ConnectionId connection;
        std::vector<std::byte> body;
        wire::Frame frame;  ///< with spans of `body`
    };

    struct Acknowledgement {
        ConnectionId connection = 0;
        uint64_t request = 0;
    };

    /// Rows that the network is reading for a pull: no push may touch them until it is done.
    struct Pin {
        uint64_t context = 0;
        KeyRange keys;
    };

    /// A request with its keys and values at hand.
    struct Request {
        ConnectionId connection = 0;
        wire::FrameHeader header;
        std::span<const std::byte> keys;
        std::span<const std::byte> values;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;
        std::byte* out = nullptr;   ///< pull: the worker's memory, where that can be addressed
        std::span<std::byte> room;  ///< pull of a list: for its values, before they are written
    };

    /// A push that was fetched while its rows were pinned.
    struct Held {
        Request request;
        Fetcher::Ticket ticket = 0;  ///< its keys and values
    };

    struct TableState {
        TableState(std::unique_ptr<TableShard> t, uint32_t workers)
            : table(std::move(t)), iterations(workers), alone(workers == 1) {}

        std::unique_ptr<TableShard> table;
        Iterations iterations;
        std::vector<Acknowledgement> to_acknowledge;  ///< parts of the open iteration
        std::deque<Deferred> deferred;                ///< until another iteration
        std::deque<Deferred> behind_pins;             ///< pushes
        std::deque<Held> held;                        ///< pushes behind pins too
        std::vector<Pin> pins;
        bool alone = false;          ///< there is one worker
        bool aggregated = false;     ///< something of this iteration waits for the rule
        bool apply_waiting = false;  ///< the iteration is complete, but rows are pinned
    };

    /// A pull that is being written to its worker, from a buffer of ours or, without one, from
    /// the rows of `keys`, which are pinned once it is posted.
    struct Write {
        ConnectionId connection = 0;
        uint32_t table = 0;
        KeyRange keys;
        std::span<const std::byte> buffer;
        Fetcher::Ticket ticket = 0;  ///< of the buffer
        transport::RemoteSpan to;
        uint64_t request = 0;
    };

    // shard.cc: connections and control
    void prefetch_rows(const transport::Completion& next) const;
    void handle(const transport::Completion& completion);
    void receive(ConnectionId connection, std::span<const std::byte> message);
    void control(ConnectionId connection, const wire::Frame& frame);
    void hello(Session& session, const wire::Frame& frame);
    void assigned(std::span<const std::byte> body);
    [[nodiscard]] Status create_table(std::span<const std::byte> body);
    void stats(ConnectionId connection, uint64_t request);
    void closed(ConnectionId connection);
    void refuse(ConnectionId connection, std::string_view why);
    [[nodiscard]] Session* session_of(ConnectionId connection);
    void worker_gone(uint64_t worker);
    void worker_lost(uint32_t worker);
    void worker_gave_up(const Session& session, uint64_t request);
    void end(Status outcome);

    // shard_requests.cc: is it for us, is it its turn, and where are its bytes
    void admit(Session& session, const wire::Frame& frame);
    [[nodiscard]] Errc check(const TableState& state, const wire::Frame& frame) const;
    void admit_part(Session& session, TableState& state, const wire::Frame& frame, Errc status);
    void defer(Session& session, std::deque<Deferred>& queue, const wire::Frame& frame);
    void start(Session& session, const wire::Frame& frame);
    void count_mapped(const wire::Frame& frame);
    [[nodiscard]] bool find_bytes(const wire::Frame& frame, Request& request);
    [[nodiscard]] std::byte* map(ConnectionId connection, const wire::MemoryHandle& at,
                                 size_t alignment, transport::Access access);
    size_t take_fetched();
    void fetched(const Fetched& fetched);
    [[nodiscard]] bool add_waiting(Session& session, size_t bytes) const;
    size_t retry_deferred();
    size_t admit_again(std::deque<Deferred>& queue);

    // shard_push.cc: what a push does
    void apply(const Request& request);
    void push(TableState& state, const Request& request);
    [[nodiscard]] Errc change(TableState& state, const Request& request, bool aggregate);
    void push_part(TableState& state, const Request& request);
    void end_part(TableState& state, const Session& session, uint64_t request, Errc status);
    void answer_failed(TableState& state);
    void finish_iteration(TableState& state);
    void reply_failed(ConnectionId connection, uint64_t request,
                      const Iterations::Failure& failure);
    [[nodiscard]] static bool pinned(const TableState& state, const wire::FrameHeader& header);
    [[nodiscard]] static bool waits_for_pins(const TableState& state);
    [[nodiscard]] Result<RowList> rows_of(TableState& state, const Request& request);

    // shard_pull.cc: what a pull does
    void pull(TableState& state, const Request& request);
    [[nodiscard]] Errc read_rows(TableState& state, const Request& request,
                                 std::span<std::byte> out);
    void pull_by_write(TableState& state, const Request& request, size_t bytes);
    [[nodiscard]] bool post_write(uint64_t id);
    size_t post_writes();
    void written(uint64_t context, Errc status);
    void reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail = 0,
               std::span<const std::byte> body = {});

    ShardOptions options_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    MemoryWithCaches memory_;
    const RuleRegistry& rules_;
    Outbox outbox_;
    RepeatedLog refusals_{clock_};
    /// Of one poll; cleared once, not each time.
    std::array<transport::Completion, 64> completions_;
    Fetcher fetcher_;
    KeyListCache lists_;
    Phase phase_ = Phase::kJoining;
    Status outcome_;
    ConnectionId manager_ = 0;
    bool manager_lost_ = false;
    uint32_t worker_count_ = 0;
    AssignmentParts assignment_parts_;
    std::unique_ptr<Assignment> assignment_;
    std::unordered_map<ConnectionId, Session> sessions_;
    Session* last_session_ = nullptr;                  ///< of the message before this one
    std::vector<std::unique_ptr<TableState>> tables_;  ///< by number
    std::vector<bool> lost_workers_;
    bool retry_ = false;  ///< something that deferred requests wait for has happened
    std::unordered_map<uint64_t, Write> writes_;
    uint64_t next_write_ = 1;
    std::deque<uint64_t> writes_waiting_;  ///< those that found no room
    std::vector<std::byte> reply_buffer_;
    StatsMessage counters_;
};

}  // namespace weir

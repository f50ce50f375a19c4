// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shard: the part of the parameters that one thread owns; no other thread touches them.
///
/// The way of a push: receive() -> admit() (shard_requests.cc: is it valid, is it its turn) ->
/// start() (finds its keys and values: in the message, mapped, or read by the Fetcher) -> apply()
/// -> push() (shard_push.cc: changes the table) -> reply().

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
    uint32_t number = 0;  ///< counted through all servers of the job
    uint32_t rank = 0;    ///< of its process in the job; for messages to people
    std::string manager_address;
    size_t fetch_bytes_max = size_t{64} << 20;  ///< of requests whose bytes are read or written
    /// Limit of the remembered key lists of all tables together: this shard's part of what its
    /// pool may spend on such lists.
    size_t list_cache_bytes = size_t{256} << 20;
    /// Limit of one worker's requests that wait: for each, a few hundred bytes and the keys and
    /// values in its message. Beyond it (8,000 full messages), requests are answered with kBusy.
    size_t waiting_bytes_max = size_t{64} << 20;
};

/// Serves pushes and pulls until the manager ends the job, or the manager and all workers are
/// gone. It also ends if it cannot reach the manager, or if the manager breaks the protocol.
///
/// Thread: one
class Shard final : public StateMachine {
public:
    /// `memory` holds the tables and the Fetcher's blocks; it is registered, but
    /// not exposed to peers. `clock`, `memory` and `rules` must outlive the shard.
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

    /// Ok, or the error that ended the job early.
    [[nodiscard]] Status outcome() const override { return outcome_; }

private:
    using ConnectionId = transport::ConnectionId;
    enum class Phase { kJoining, kServing, kOver };
    static constexpr size_t kWaitingBytes = 512;  ///< what a waiting request takes, about

    struct Session {
        ConnectionId connection = 0;
        bool known = false;  ///< its hello has come: `worker` is valid
        uint32_t worker = 0;
        size_t waiting_bytes = 0;  ///< as ShardOptions::waiting_bytes_max counts them
    };

    /// A request that waits for an iteration, or until no row is pinned: its decoded header, and
    /// a copy of the keys and values in its message, which the sender can no longer change.
    struct Deferred {
        Deferred(ConnectionId from, const wire::Frame& received);
        Deferred(const Deferred&) = delete;  // the spans would point into the original
        Deferred& operator=(const Deferred&) = delete;
        Deferred(Deferred&&) noexcept = default;
        Deferred& operator=(Deferred&&) noexcept = default;
        ~Deferred() = default;

        ConnectionId connection;
        std::vector<std::byte> body;
        wire::Frame frame;  ///< its spans point into `body`
    };

    struct Acknowledgement {
        ConnectionId connection = 0;
        uint64_t request = 0;
    };

    /// Rows that the network is reading for a pull: no push may change them until the write ends.
    struct Pin {
        uint64_t context = 0;  ///< of the write: its key in writes_
        KeyRange keys;
    };

    /// A request whose keys and values are in memory of this process.
    struct Request {
        ConnectionId connection = 0;
        wire::FrameHeader header;
        std::span<const std::byte> keys;
        std::span<const std::byte> values;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;
        std::byte* out = nullptr;   ///< pull: the worker's memory if it is mapped, or nullptr
        std::span<std::byte> room;  ///< pull of a list, not mapped: buffer for the values
    };

    /// A push whose rows were pinned while it was fetched.
    struct Held {
        Request request;
        Fetcher::Ticket ticket = 0;  ///< of its keys and values
    };

    struct TableState {
        TableState(std::unique_ptr<TableShard> t, uint32_t workers)
            : table(std::move(t)), iterations(workers), alone(workers == 1) {}

        std::unique_ptr<TableShard> table;
        Iterations iterations;
        std::vector<Acknowledgement> to_acknowledge;  ///< arrived parts of the open iteration
        std::deque<Deferred> deferred;                ///< wait until an iteration is closed
        std::deque<Deferred> behind_pins;             ///< pushes that wait until no row is pinned
        std::deque<Held> held;                        ///< fetched pushes that wait for the same
        std::vector<Pin> pins;
        bool alone = false;          ///< the job has one worker
        bool aggregated = false;     ///< the table has a sum of the open iteration
        bool apply_waiting = false;  ///< all parts have arrived, but rows are pinned
    };

    /// A pull whose values are written to its worker: from `buffer`, or if that is empty from the
    /// rows of `keys`, which are pinned from posting to completion.
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

    // shard_requests.cc: is a request valid, is it its turn, and where are its keys and values
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

    // shard_push.cc: changes the table
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

    // shard_pull.cc: sends values
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
    /// Of one poll(). A member, so that poll() does not initialise it each time.
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
    Session* last_session_ = nullptr;                  ///< of the latest message
    std::vector<std::unique_ptr<TableState>> tables_;  ///< by number
    std::vector<bool> lost_workers_;
    bool retry_ = false;  ///< deferred or held requests may now be able to go on
    std::unordered_map<uint64_t, Write> writes_;
    uint64_t next_write_ = 1;
    std::deque<uint64_t> writes_waiting_;  ///< keys in writes_ of those not posted yet
    std::vector<std::byte> reply_buffer_;
    StatsMessage counters_;
};

}  // namespace weir

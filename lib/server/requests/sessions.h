// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sessions: which connection is which worker, how many bytes of each worker's requests wait, who
/// is in the view, and which workers send nothing more.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/check.h"
#include "lib/ring/view_data.h"
#include "lib/server/requests/push_order.h"
#include "transport/transport.h"

namespace weir {

struct Session {
    transport::ConnectionId connection = 0;
    bool known = false;      ///< its hello has come: `worker` is valid
    bool is_proven = false;  ///< it is known to be that worker's; else it says so
    bool is_member = false;  ///< it is proven, and its worker is in the view
    uint32_t worker = 0;
    uint64_t hello = 0;         ///< number of this connection among the worker's
    uint64_t pass = 0;          ///< with which it came
    size_t waiting_bytes = 0;   ///< as Sessions::add_waiting() counts them
    size_t deferred_bytes = 0;  ///< those of them that add_deferred() has counted
    /// By table, also of tables that this shard does not know yet.
    std::unordered_map<uint32_t, PushOrder> orders;

    [[nodiscard]] PushOrder& order(uint32_t table) {
        if (last_order_ == nullptr || last_table_ != table) {
            last_table_ = table;
            last_order_ = &orders[table];
        }
        return *last_order_;
    }

private:
    uint32_t last_table_ = 0;
    PushOrder* last_order_ = nullptr;  ///< that order() returned
};

/// Worker numbers are never used twice. One that no view has given out yet may be that of a worker
/// that has the next view before this shard has it. Its pass may have come before that view, or not:
/// what is not proven yet has no effect on other connections.
///
/// Thread: the shard's
class Sessions {
public:
    /// What a waiting request takes, about, beside its keys and values.
    static constexpr size_t kWaitingBytes = 512;
    /// So many connections that are not proven yet may be open at a time.
    static constexpr size_t kUnprovenMax = 1024;

    explicit Sessions(size_t waiting_bytes_max) noexcept : waiting_bytes_max_(waiting_bytes_max) {}

    /// Adds a connection that was accepted. Its worker is not known yet.
    void open(transport::ConnectionId connection) { sessions_[connection].connection = connection; }

    /// nullptr if it is closed. Valid until close() of this connection.
    [[nodiscard]] Session* find(transport::ConnectionId connection) {
        if (last_ != nullptr && last_->connection == connection) return last_;
        const auto found = sessions_.find(connection);
        if (found == sessions_.end()) return nullptr;
        last_ = &found->second;
        return last_;
    }

    enum class Hello { kWelcome, kNoSuchWorker, kGone, kOld, kFalse };

    /// What a connection says of itself.
    struct Claim {
        uint64_t worker = 0;
        uint64_t number = 0;  ///< of the connection among the worker's
        uint64_t pass = 0;
    };

    /// The session says that it is a connection of a worker: one of the view, or one that only a
    /// later view may have; before the first one, that is any number of 32 bits. The connection
    /// with the highest number is the worker's: others() must be closed then. kGone: the worker has
    /// left, or is dead, and its hello was slower than the view that says so. kFalse: it has another
    /// pass.
    [[nodiscard]] Hello hello(Session& session, const Claim& claim);

    struct Judged {
        transport::ConnectionId connection = 0;
        Hello verdict = Hello::kWelcome;
    };

    /// The manager says which pass a worker has, before the view that has the worker. Returns what
    /// becomes of connections that have said that they are its.
    [[nodiscard]] std::vector<Judged> receive_pass(uint32_t worker, uint64_t pass);

    /// Other connections of the session's worker that are proven, as this one is.
    [[nodiscard]] std::vector<transport::ConnectionId> others(const Session& session) const;

    /// A view has come, with these workers. All numbers below `next_worker` were given out.
    /// Forgets the workers that are gone, and returns their connections: close them.
    [[nodiscard]] std::vector<transport::ConnectionId> apply_view(
        std::span<const ViewWorker> workers, uint32_t next_worker);

    /// The connection is closed. Returns whose it was, if that is a worker of the view.
    std::optional<uint32_t> close(transport::ConnectionId connection);

    [[nodiscard]] bool is_connected(uint64_t worker) const noexcept;

    [[nodiscard]] bool is_member(uint64_t worker) const noexcept {
        const Worker* const found = find_worker(worker);
        return found != nullptr && found->is_member;
    }

    template <class Function>
    void for_each(Function&& function) {
        for (auto& entry : sessions_)
            function(entry.second);
    }

    // Of a worker of the view; of another one, nothing happens:

    /// The manager says that it is dead, or has given up: it counts as lost when it is not
    /// connected, or says so itself.
    void leaves(uint64_t worker) noexcept;

    [[nodiscard]] bool is_leaving(uint64_t worker) const noexcept {
        const Worker* const found = find_worker(worker);
        return found != nullptr && found->is_leaving;
    }

    /// It says itself that it sends no part of an iteration any more.
    void gives_up(uint64_t worker) noexcept;

    [[nodiscard]] bool has_given_up(uint64_t worker) const noexcept {
        const Worker* const found = find_worker(worker);
        return found != nullptr && found->has_given_up;
    }

    /// It sends no part of an iteration any more, and who waits for one fails.
    void lose(uint64_t worker) noexcept;

    [[nodiscard]] bool is_lost(uint64_t worker) const noexcept {
        const Worker* const found = find_worker(worker);
        return found != nullptr && found->is_lost;
    }

    [[nodiscard]] bool empty() const noexcept { return sessions_.empty(); }

    /// It was in some view, maybe one that this shard never had, and is in none any more.
    [[nodiscard]] bool is_gone(uint64_t worker) const noexcept {
        return worker < next_worker_ && !is_member(worker);
    }

    /// Counts a request that waits with `bytes` of keys and values. False if too many bytes of
    /// this worker wait already.
    [[nodiscard]] bool add_waiting(Session& session, size_t bytes) const noexcept {
        const size_t sum = session.waiting_bytes + kWaitingBytes + bytes;
        if (sum > waiting_bytes_max_) return false;
        session.waiting_bytes = sum;
        return true;
    }

    /// Counts a request that waits for a view or an iteration. They may use half of what a worker
    /// has: the part that ends the iteration may have to be fetched, and must not find it all taken.
    [[nodiscard]] bool add_deferred(Session& session, size_t bytes) const noexcept {
        const size_t sum = session.deferred_bytes + kWaitingBytes + bytes;
        if (sum > waiting_bytes_max_ / 2 || !add_waiting(session, bytes)) return false;
        session.deferred_bytes = sum;
        return true;
    }

    /// It waits for something else, and still counts as waiting.
    static void end_deferred(Session& session, size_t bytes) noexcept {
        WEIR_CHECK(session.deferred_bytes >= kWaitingBytes + bytes);
        session.deferred_bytes -= kWaitingBytes + bytes;
    }

    /// The request waits no longer.
    static void end_waiting(Session& session, size_t bytes) noexcept {
        WEIR_CHECK(session.waiting_bytes >= session.deferred_bytes + kWaitingBytes + bytes);
        session.waiting_bytes -= kWaitingBytes + bytes;
    }

private:
    /// One of the view, or of a later one.
    struct Worker {
        std::optional<uint64_t> pass = {};
        uint64_t newest = 0;  ///< the highest number of its hellos
        bool has_said_hello = false;
        bool is_member = false;
        bool is_leaving = false;
        bool has_given_up = false;
        bool is_lost = false;
    };

    [[nodiscard]] Hello prove(Session& session, Worker& worker);

    [[nodiscard]] const Worker* find_worker(uint64_t number) const noexcept {
        if (number > kWorkerMax) return nullptr;
        const auto found = workers_.find(static_cast<uint32_t>(number));
        return found == workers_.end() ? nullptr : &found->second;
    }

    /// No view in sight has this number.
    [[nodiscard]] bool is_beyond(uint64_t worker) const noexcept {
        return next_worker_ > 0 && worker >= uint64_t{next_worker_} + ViewLimits::kWorkersMax;
    }

    static constexpr uint64_t kWorkerMax = 0xFFFF'FFFE;

    size_t waiting_bytes_max_;
    std::unordered_map<transport::ConnectionId, Session> sessions_;
    Session* last_ = nullptr;   ///< that find() found
    uint32_t next_worker_ = 0;  ///< 0: no view has come
    std::unordered_map<uint32_t, Worker> workers_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sessions: which connection is which worker, how many bytes of each worker's requests wait, and
/// which workers send nothing more.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/server/push_order.h"
#include "transport/transport.h"

namespace weir {

struct PartInFetch {
    uint32_t table = 0;
    uint64_t iteration = 0;
    friend bool operator==(const PartInFetch&, const PartInFetch&) = default;
};

struct Session {
    transport::ConnectionId connection = 0;
    bool known = false;  ///< its hello has come: `worker` is valid
    uint32_t worker = 0;
    uint64_t hello = 0;                       ///< number of this connection among the worker's
    size_t waiting_bytes = 0;                 ///< as Sessions::add_waiting() counts them
    std::vector<PushOrder> orders;            ///< by table
    std::vector<PartInFetch> parts_in_fetch;  ///< parts that are admitted and being fetched

    [[nodiscard]] PushOrder& order(uint32_t table) {
        if (table >= orders.size()) orders.resize(table + 1);
        return orders[table];
    }
};

/// Thread: the shard's
class Sessions {
public:
    /// What a waiting request takes, about, beside its keys and values.
    static constexpr size_t kWaitingBytes = 512;

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

    enum class Hello { kWelcome, kNoSuchWorker, kOld };
    /// The session says that it is connection `number` of `worker`. Before begin(), any worker of
    /// 32 bits is welcome, because it may have the view before its shard has. The connection with
    /// the highest number is the worker's: others() must be closed then.
    [[nodiscard]] Hello hello(Session& session, uint64_t worker, uint64_t number);

    /// Other connections of the session's worker.
    [[nodiscard]] std::vector<transport::ConnectionId> others(const Session& session) const;

    /// The first view has come. Returns the connections whose hello named a worker that the job
    /// does not have: close them.
    [[nodiscard]] std::vector<transport::ConnectionId> begin(uint32_t worker_count);

    /// The connection is closed. Returns whose it was, if that is a worker of the job.
    std::optional<uint32_t> close(transport::ConnectionId connection);

    [[nodiscard]] bool is_connected(uint64_t worker) const noexcept;

    /// The manager says that this worker is dead, or has left: it counts as lost when it is not
    /// connected.
    void leaves(uint32_t worker) { leaving_[worker] = true; }

    [[nodiscard]] bool is_leaving(uint64_t worker) const { return leaving_[worker]; }

    template <class Function>
    void for_each(Function&& function) {
        for (auto& entry : sessions_)
            function(entry.second);
    }

    /// This worker sends no part of an iteration any more.
    void lose(uint32_t worker) { lost_[worker] = true; }

    [[nodiscard]] bool is_lost(uint64_t worker) const { return lost_[worker]; }

    /// Workers of the job; 0 before begin().
    [[nodiscard]] uint32_t worker_count() const noexcept {
        return static_cast<uint32_t>(lost_.size());
    }

    [[nodiscard]] bool empty() const noexcept { return sessions_.empty(); }

    /// Counts a request that waits with `bytes` of keys and values. False if too many bytes of
    /// this worker wait already. A request that has waited and must wait again fits: its bytes
    /// have just been subtracted.
    [[nodiscard]] bool add_waiting(Session& session, size_t bytes) const noexcept {
        const size_t sum = session.waiting_bytes + kWaitingBytes + bytes;
        if (sum > waiting_bytes_max_) return false;
        session.waiting_bytes = sum;
        return true;
    }

    /// Counts a request that goes on waiting for something else, whatever the limit.
    static void add_waiting_again(Session& session) noexcept {
        session.waiting_bytes += kWaitingBytes;
    }

    /// The request waits no longer.
    static void end_waiting(Session& session, size_t bytes) noexcept {
        session.waiting_bytes -= kWaitingBytes + bytes;
    }

private:
    size_t waiting_bytes_max_;
    std::unordered_map<transport::ConnectionId, Session> sessions_;
    Session* last_ = nullptr;  ///< that find() found
    bool begun_ = false;
    std::vector<bool> lost_;                         ///< by worker
    std::vector<bool> leaving_;                      ///< by worker
    std::unordered_map<uint32_t, uint64_t> newest_;  ///< by worker: its highest hello
};

}  // namespace weir

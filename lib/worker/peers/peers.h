// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Peers: the shards of the view and the manager; how connections to them open, and are made anew.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/node/manager_link.h"
#include "lib/ring/view.h"
#include "lib/store/table_schema.h"
#include "lib/wire/frame.h"
#include "lib/worker/peers/peer.h"
#include "lib/worker/peers/standing.h"
#include "transport/transport.h"

namespace weir {

/// Shards have the numbers of the view, the manager has kManager. What becomes of requests when a
/// connection ends is decided elsewhere (core/outages.h).
///
/// Invariants: each shard of the view is not kGone unless a later view is adopted right now;
/// broken_count_ shards are kBroken.
///
/// Thread: the client's
class Peers {
public:
    using ConnectionId = transport::ConnectionId;
    static constexpr uint32_t kManager = kNoShard - 1;

    Peers(Standing& standing, transport::Endpoint& endpoint, const Clock& clock);

    [[nodiscard]] Peer& operator[](uint32_t number) noexcept {
        if (number == kManager) return manager_;
        WEIR_CHECK(number < shards_.size());
        return shards_[number];
    }

    [[nodiscard]] const Peer& operator[](uint32_t number) const noexcept {
        return const_cast<Peers&>(*this)[number];
    }

    [[nodiscard]] Peer& manager() noexcept { return manager_; }

    [[nodiscard]] ManagerLink& link() noexcept { return link_; }

    [[nodiscard]] const ManagerLink& link() const noexcept { return link_; }

    /// All, by number; some may be kGone.
    [[nodiscard]] std::span<Peer> shards() noexcept { return shards_; }

    [[nodiscard]] uint32_t shard_count() const noexcept {
        return static_cast<uint32_t>(shards_.size());
    }

    /// Calls function(number, peer) for the shards, and then for the manager.
    template <class Function>
    void for_each(Function&& function) {
        for (uint32_t i = 0; i < shards_.size(); ++i)
            function(i, shards_[i]);
        function(kManager, manager_);
    }

    /// nullptr if no peer has this connection (any more).
    [[nodiscard]] Peer* find(ConnectionId connection) noexcept;

    [[nodiscard]] const View& view() const noexcept { return view_; }

    /// This worker's number.
    [[nodiscard]] uint32_t worker() const noexcept { return standing_.options().worker; }

    /// The shards that have segments, in ascending order.
    [[nodiscard]] std::span<const uint32_t> owners() const noexcept { return owners_; }

    /// Workers in the first view.
    [[nodiscard]] uint32_t worker_count_at_start() const noexcept { return count_at_start_; }

    // Joining.
    /// Connects to the manager.
    void begin();
    /// The first view: connects to its shards.
    void begin_with(View view);
    /// A connection that was begun here is open.
    void connected(ConnectionId connection);
    /// Calls may start once a connection to every shard was open.
    void become_ready_if_connected();
    /// Frames that need no request.
    void send_to_manager(wire::Kind kind, std::span<const std::byte> body);

    // Later.
    /// A later view. Nothing is held any more; true if something was.
    bool adopt(View view);
    /// False: not now. Sends the hello of a new connection, which goes before the first request.
    [[nodiscard]] bool greet(Peer& peer);
    /// Begins connections to shards that are kBroken, if it is time.
    void connect_again(uint64_t now_ns);
    /// After the end of a connection: kBroken, with a pause.
    void break_connection(Peer& peer, uint64_t now_ns);

    /// Nothing is to be had of the peer any more.
    void lose(Peer& peer) noexcept { enter(peer, Peer::State::kLost); }

    /// Closes the connection, and its end is to come. `fault`: kOk if another one may follow.
    void close(Peer& peer, Errc fault);
    /// The same, because of what the peer sent.
    void refuse(ConnectionId connection, std::string_view why);
    /// Once a worker that has left has no open requests; else it would connect anew when shards close
    /// their connections.
    void leave_shards();

    [[nodiscard]] bool has_broken() const noexcept { return broken_count_ > 0; }

    /// When connect_again() has something to do, ~0: never.
    [[nodiscard]] uint64_t connect_at_ns() const noexcept;

    // What errors say of peers: loss_texts.cc.
    /// Nobody says any more who lives, because of this.
    void set_manager_end(Error why) { manager_end_ = std::move(why); }

    [[nodiscard]] const std::optional<Error>& manager_end() const noexcept { return manager_end_; }

    [[nodiscard]] Error no_answer_from(std::string_view whom) const;
    /// `why` nothing more is to be had of the peer, with what the job has lost, and why the manager is gone.
    [[nodiscard]] Error with_cause(const Error& why, const Peer& peer) const;
    /// The peer is kLost or kGone.
    [[nodiscard]] Error gone(const Peer& peer) const;
    [[nodiscard]] bool has_backups() const noexcept;
    /// What nobody has any more, now that the shard's server is gone, as far as this client knows the
    /// tables: there is no manager to say it. Empty if others have all of it, or there is nothing.
    [[nodiscard]] std::string loss_of_server(uint32_t shard,
                                             std::span<const TableSchema> tables) const;

private:
    void enter(Peer& peer, Peer::State next) noexcept;
    void join_job();
    void opened(Peer& peer);
    void note_shards();
    [[nodiscard]] static uint64_t longer_pause(uint64_t pause_ns) noexcept;

    Standing& standing_;
    transport::Endpoint& endpoint_;
    const Clock& clock_;
    ManagerLink link_;
    uint64_t pass_;  ///< PassesMessage
    Peer manager_;
    std::vector<Peer> shards_;  ///< by number
    size_t broken_count_ = 0;
    View view_;
    uint32_t count_at_start_ = 0;       ///< of workers
    std::vector<uint32_t> owners_;      ///< of view_
    std::optional<Error> manager_end_;  ///< set once
};

}  // namespace weir

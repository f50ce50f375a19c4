// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RaftIo: what libraft asks of its surroundings (struct raft_io), over a Clock and a function that sends.
/// libraft has the term, the vote and the entries in its own memory; here is what it asks for later, the
/// newest snapshot, and what messages are judged by, the terms of the entries.
///
/// Everything that libraft starts has ended when settle() returns: before the next message or tick is given
/// to it. So it never has two things under way, and in particular never counts who has a new leader's log
/// before that leader has stored the first entry of its term.
///
/// libraft 0.15 has faults that random histories have found (log_histories_test.cc); RaftIo keeps them away:
///  - A replica answers an Append that fits with the last index of its log, though it may have other entries
///    behind what the Append covers; a leader then commits entries that it alone has. No more is claimed, and
///    no more is taken as committed, than the Append covers.
///  - Asked for a trial vote, a replica that is in a later term says no, but not which term. Replicas in
///    different terms may refuse each other for ever. A vote brings the sender's term along.
///  - A replica that has a newer snapshot than its leader knows refuses what begins before it, and gets the
///    leader's older snapshot, for ever. It takes what begins behind its own snapshot.
///  - Told that an Append could not be sent, a new leader that knows nothing yet of a replica's log begins at
///    the first entry, and sends its snapshot though it still has all entries that are lacking. Of whatever is
///    no snapshot it hears that it was sent: what is lost on the way is sent again all the same.
///  - If it cannot send an answer at once, it frees memory twice. send() never fails at once.

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/consensus/libraft.h"
#include "lib/consensus/log_state.h"
#include "lib/consensus/messages.h"

namespace weir::consensus {

/// Thread: one
class RaftIo {
public:
    /// False: the receiver cannot be reached now.
    using Send = std::function<bool(uint64_t receiver, const Message& message)>;

    /// The clock must outlive it. `members`: the ids of all replicas.
    RaftIo(const Clock& clock, uint64_t seed, std::vector<uint64_t> members, Send send);

    [[nodiscard]] raft_io* io() noexcept { return &io_; }

    /// Gives libraft a message of a peer. False: it contradicts what this replica knows to be true, so no
    /// replica that is right sends it; libraft, which would abort, does not get it.
    [[nodiscard]] bool deliver(const raft& raft, uint64_t sender, Message message);

    /// Time has passed.
    void tick() { tick_(&io_); }

    /// Tells libraft of all that has ended.
    void settle();

private:
    static RaftIo& of(raft_io* io) noexcept { return *static_cast<RaftIo*>(io->impl); }

    void send(raft_io_send* request, const raft_message* message, raft_io_send_cb done);
    [[nodiscard]] int get_snapshot(raft_io_snapshot_get* request, raft_io_snapshot_get_cb done);
    [[nodiscard]] bool is_credible(const raft& raft, const Append& append) const;
    [[nodiscard]] bool is_credible(const raft& raft, const Install& install) const;
    /// Leaves out the entries that this replica's snapshot covers, if it no longer has the one before them.
    /// They are committed, so every later leader has the same.
    void begin_at_snapshot(Append& append) const;

    LogState state_;
    const Clock& clock_;
    Random random_;
    std::vector<uint64_t> members_;
    Send send_;
    raft_io io_{};
    raft_io_tick_cb tick_ = nullptr;
    raft_io_recv_cb receive_ = nullptr;
    std::deque<std::function<void()>> ended_;  ///< what libraft is to be told
    uint64_t covered_ = 0;  ///< the last index that the message covers which libraft was given last
};

}  // namespace weir::consensus

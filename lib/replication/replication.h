// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Replication: what a shard holds, as what, and how others come to hold it: the streams that it sends
/// (Streams), those that it receives (IncomingStream), and its roles (Holdings).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/node/lease_line.h"
#include "lib/replication/holdings.h"
#include "lib/replication/incoming_stream.h"
#include "lib/replication/streams.h"
#include "lib/ring/view.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the shard's
class Replication {
public:
    using ConnectionId = transport::ConnectionId;

    /// What it asks of its shard.
    class Host {
    public:
        Host() = default;
        Host(const Host&) = delete;
        Host& operator=(const Host&) = delete;

        /// The peer breaks the protocol.
        virtual void refuse(ConnectionId connection, std::string_view why) = 0;
        virtual void close(ConnectionId connection) = 0;
        virtual void send_to_shard(ConnectionId connection, wire::FrameHeader& header) = 0;
        virtual void send_to_manager(const wire::FrameHeader& header,
                                     std::span<const std::byte> body) = 0;

    protected:
        ~Host() = default;
    };

    struct Options {
        std::shared_ptr<const ServerLease> lease =
            nullptr;  ///< that of its server, if it needs one
        LendingOptions lending{};
        size_t change_bytes_max = Streams::kChangeBytesMax;
        uint64_t pass = 0;  ///< by which streams prove whose they are
    };

    /// What is a reference must outlive this. `view`: that of the shard.
    Replication(Host& host, transport::Endpoint& endpoint, const Clock& clock, const View& view,
                Replicas& tables, KnownLists& lists, const Options& options, RepeatedLog& failures)
        : host_(host),
          endpoint_(endpoint),
          clock_(clock),
          view_(view),
          tables_(tables),
          options_(options),
          holdings_(tables),
          streams_(endpoint, clock, holdings_, tables, lists, options.lending, failures) {
        streams_.set_pass(options.pass);
    }

    Replication(const Replication&) = delete;
    Replication& operator=(const Replication&) = delete;
    ~Replication() = default;

    /// Of its shard. One that joins gets it later.
    void set_number(uint32_t number) noexcept { number_ = number; }

    [[nodiscard]] Holdings& holdings() noexcept { return holdings_; }

    [[nodiscard]] const Holdings& holdings() const noexcept { return holdings_; }

    /// Which are told of each change.
    [[nodiscard]] Streams& streams() noexcept { return streams_; }

    [[nodiscard]] const Streams& streams() const noexcept { return streams_; }

    /// Whether anything moves, or is replicated.
    [[nodiscard]] bool is_active() const noexcept {
        return !holdings_.is_settled() || !streams_.empty() || !incoming_.empty() ||
               stopping_.has_value();
    }

    /// Whether a change of now may have to be sent as a whole, or has been.
    [[nodiscard]] bool has_had_backups() const noexcept {
        return has_had_backups_ || streams_.records_iterations();
    }

    /// All that has rows here, whatever its role: what clocks refer to.
    [[nodiscard]] const SegmentList& segments() const noexcept { return holdings_.segments(); }

    /// The positions that this shard is primary of.
    [[nodiscard]] const PositionSet& primary() const noexcept { return holdings_.primary(); }

    // Requests. While it is active:

    /// False: too much waits to be sent, so nothing may change now.
    [[nodiscard]] bool has_room() const noexcept { return streams_.has_room(); }

    /// As Streams::pushed().
    void changed(TableReplica& table, const Entries& entries, uint32_t worker,
                 const RangeClock& clock) {
        streams_.pushed(table, entries, worker, clock);
    }

    /// As Streams::made_rows().
    void made_rows(TableReplica& table, std::span<const uint64_t> keys) {
        streams_.made_rows(table, keys);
    }

    /// The number of the last change; 0: there was none.
    [[nodiscard]] uint64_t last_change() const noexcept { return streams_.last_change(); }

    /// All backups in sync have applied the changes up to this one.
    [[nodiscard]] uint64_t replicated_change() const noexcept {
        return streams_.replicated_change();
    }

    /// Whether this shard is primary of all these keys. A worker that goes by the view names no others.
    [[nodiscard]] bool serves(const TableReplica& table, KeyRange keys) const;

    /// Whether a push of this list by its hash cannot be recorded: its keys have to come. Its segments
    /// are known.
    [[nodiscard]] bool needs_keys(const KnownList& list) const {
        return !streams_.empty() && streams_.needs_keys(list);
    }

    // Views.

    /// Closes the streams of shards that are in the next view no more, before anything is done by it: what
    /// a dead primary has sent and nobody has applied was acknowledged to nobody, and must not arrive when
    /// another one serves. A change that is being applied is finished, so that nobody becomes primary with
    /// half of one.
    void cut_off_the_gone(const View& next);
    /// Takes the roles that the next view gives to this shard.
    /// Errors: Errc::kProtocol as Holdings::set_primary()
    [[nodiscard]] Status apply_roles(const View& next, bool is_first);
    /// The view is here: the streams, out and in, go by it.
    void follow_view();

    /// The manager says how a shard, which will be in a view, proves who it is.
    void receive_pass(uint32_t shard, uint64_t pass) { passes_.emplace(shard, pass); }

    // In each poll, while it is active.

    /// Receives, sends and reports. Returns what was done.
    size_t poll();
    /// After that, when replies to what backups have are on their way: hands over what is leaving, if
    /// others have all of it. Backups change by it.
    size_t hand_over();
    /// What nobody waits for, when the replies of a poll are on their way.
    size_t work_behind();
    /// As many messages as are to be received in a poll, at most `most`. Each of a stream's messages is
    /// some work when this shard learns: one of a worker may be behind them, or a shard that shares its
    /// CPU, through which a push goes, too.
    [[nodiscard]] size_t messages_per_poll(size_t most) noexcept;

    /// A worker waits for what is done next.
    void note_request() noexcept { quiet_polls_ = 0; }

    /// Whether workers have asked for nothing lately, and no record of a push has come: nobody waits then
    /// for what is done in a poll.
    [[nodiscard]] bool is_quiet() const noexcept {
        constexpr uint32_t kPolls = 256;
        return quiet_polls_ >= kPolls;
    }

    /// Whether a poll would do something although nothing has come.
    [[nodiscard]] bool must_poll() const noexcept {
        return streams_.must_poll() || holdings_.is_dropping() || is_preparing();
    }

    /// The latest time at which it is to be polled, though nothing has come; ~0: none.
    [[nodiscard]] uint64_t due_ns() const noexcept;

    /// Looks anew whether replies have to wait for backups.
    bool look_at_backups() noexcept {
        const bool has_in_sync = streams_.has_in_sync();
        has_had_backups_ |= has_in_sync;
        return has_in_sync;
    }

    // Connections between shards.

    /// A connection turns out to be the stream of another shard. False: it was refused or closed.
    [[nodiscard]] bool follow(ConnectionId connection, const wire::Frame& frame);
    void receive(ConnectionId connection, const wire::Frame& frame);
    /// Whether it was a connection to or from another shard.
    [[nodiscard]] bool closed(ConnectionId connection, bool memory_in_doubt);

private:
    [[nodiscard]] bool is_named_for(uint32_t primary, PositionRange range) const;
    [[nodiscard]] bool is_preparing() const noexcept;
    [[nodiscard]] Stream::What chunks_of_poll() const noexcept;
    [[nodiscard]] std::string_view judge_follow(const FollowMessage& message,
                                                uint32_t primary) const;
    void look_for_stuck_streams();
    void report(const LearnerReport& report, Errc status);
    void tell_applied(ConnectionId connection, IncomingStream& incoming);

    Host& host_;
    transport::Endpoint& endpoint_;
    const Clock& clock_;
    const View& view_;
    Replicas& tables_;
    Options options_;
    uint32_t number_ = 0;
    Holdings holdings_;
    Streams streams_;  ///< to shards that learn from this one
    std::unordered_map<ConnectionId, std::unique_ptr<IncomingStream>>
        incoming_;  ///< what it learns
    /// Of streams that last and have no connection now; by the number of their primary.
    std::unordered_map<uint32_t, std::unique_ptr<IncomingStream>> detached_;
    std::map<uint32_t, uint64_t> passes_;  ///< of shards by number, of the view and of later ones
    bool has_had_backups_ = false;         ///< of something

    // Handover; set when a view is here.
    PositionSet leaving_;               ///< by the last view
    std::optional<uint64_t> stopping_;  ///< for this epoch: kStopped is to be sent

    // Pace.
    uint64_t next_stuck_look_ns_ = 0;
    bool is_learning_ = false;      ///< something, by the view
    bool receives_chunks_ = false;  ///< the last record that came was one
    uint32_t quiet_polls_ = 0;      ///< since somebody waited for what is done; some at most
};

}  // namespace weir

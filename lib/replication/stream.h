// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stream: a connection from a primary to a shard that learns segments of it, or is a backup of
/// them: chunks of what is there, and between them records of all that changes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/key/position_set.h"
#include "lib/replication/holdings.h"
#include "lib/replication/lender.h"
#include "lib/replication/spare_buffers.h"
#include "lib/replication/touched_rows.h"
#include "lib/wire/record_message.h"
#include "transport/transport.h"

namespace weir {

/// Segments are streamed in batches, of those that were named at the same time. A batch begins with
/// a kBegin, from which on all that changes in it is to be added as records; then come the times of
/// each table; then the rows, in chunks of about a message, each as it is now; then kEnd. What
/// comes later wins. The learner says which record it has applied last, and not more than a window
/// of bytes is ahead of that.
///
/// If the connection breaks, or the learner closes it, everything begins anew on another one;
/// unless the stream is `lasting`, as all streams are of a job that has backups. Such a stream keeps
/// what was not applied, and goes on behind that on the next connection. It goes on after the
/// learner has everything: it is a backup then. Records of one change are applied together there,
/// so that a backup never has half of one when it becomes primary.
///
/// A backup is *in sync* as soon as it has the last chunk: from then on replies wait until it has
/// what they say. It is reported after that, when it has all that was replied before. Changes are
/// numbered as Streams::last_change() counts them.
///
/// Thread: the shard's
class Stream {
public:
    /// The learner may find so much work at once (RecordMessage::work_bytes()), and whatever else comes to
    /// it waits for that.
    static constexpr size_t kWindowBytes = size_t{512} << 10;
    /// Limit of the work of chunks in flight while pushes wait for backups (What::kFewChunks). Records do
    /// not count.
    static constexpr size_t kFewChunksBytes = size_t{32} << 10;
    /// Records may wait all the time. So that chunks come all the same, they may be this share of what waits.
    static constexpr size_t kChunksShare = 8;
    /// Records that wait; beyond it, has_room() is false. One push may be longer.
    static constexpr size_t kQueueBytesMax = size_t{16} << 20;
    // Before it connects again: the first pause, and the last one, which is also that before it asks a
    // learner that refused.
    static constexpr uint64_t kPauseNs = 20 * kMillisecond;
    static constexpr uint64_t kPauseNsMax = 1000 * kMillisecond;

    /// What the two ends are, and where the learner is.
    struct Ends {
        uint32_t primary = 0;
        uint32_t learner = 0;
        std::string address;
        uint64_t lasting = 0;  ///< as FollowMessage::stream
        uint64_t pass = 0;     ///< of the primary
    };

    /// What its shard is to be in a segment.
    enum class As : uint8_t {
        kLearner,    ///< its next primary
        kBackup,     ///< a backup that learns it, or has learned it over this stream
        kTakenOver,  ///< a backup that has all of it as of now, from another primary
    };

    /// A segment that it is to carry.
    struct Carried {
        LearnedSegment is;
        As as = As::kLearner;
        friend bool operator==(const Carried&, const Carried&) = default;
    };

    /// Any number of a change is below it.
    static constexpr uint64_t kAllChanges = ~uint64_t{0};

    /// What all streams of a shard use.
    struct Shared {
        Lender& lender;
        RepeatedLog& failures;  ///< for connections that cannot be made
    };

    /// What is a reference must outlive it.
    Stream(Ends ends, transport::Endpoint& endpoint, const Clock& clock, const Holdings& holdings,
           Replicas& tables, Shared shared);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    /// The segments that the learner is to get; ascending. Others are not streamed any more.
    void carry(std::span<const Carried> segments, uint64_t epoch);

    [[nodiscard]] std::vector<LearnedSegment> segments() const;

    /// The positions of which every change must be added.
    [[nodiscard]] const PositionSet& positions() const noexcept { return positions_; }

    /// Grows with every change of positions().
    [[nodiscard]] uint64_t generation() const noexcept { return generation_; }

    /// Adds a record of something that has just changed. `has_more`: so is the next one of. What it
    /// says of the stream is filled in; of one that has to be cut, its rows are gone then.
    void add(RecordMessage& record, bool has_more = false);

    /// For a list that is added next, and makes so many records. The learner keeps it until
    /// forget_lists(), which is due at the latest when generation() grows.
    [[nodiscard]] uint64_t number_list(uint64_t part_count) noexcept {
        last_list_ += part_count;
        return last_list_ - part_count + 1;
    }

    void forget_lists();

    /// What is added from now on belongs to this change of the shard, or comes after it.
    void begin_change(uint64_t change) noexcept { last_change_ = change; }

    /// Whether other replicas of the same segments have other streams: then its learner remembers what
    /// it gets until all have it.
    void set_shared(bool is_shared) noexcept { is_shared_ = is_shared; }

    /// All backups in sync have the changes up to this one.
    void replicated_everywhere(uint64_t change) noexcept;

    /// All records of the change that has begun were added.
    void end_change(uint64_t change);

    /// The rule has run on these rows of a table, or an iteration has failed. Backups get the rows, as
    /// one change with the iteration; a learner that is to be no backup gets them, too, over a stream
    /// that lasts, and all rows of its segments once more over another one. (A segment becomes complete
    /// with the first time; what comes after that must have arrived before it changes hands.)
    void iteration_closed(size_t table, const AggregatedRows& changed);
    /// The same of one that has changed the rows of a record, or none; it is added with that.
    void iteration_closed(RecordMessage& record);

    /// The table has got many rows at once, and nobody uses it yet. They need no change: learners and
    /// backups get all its rows once more, in chunks. A segment is not complete before.
    void table_filled(size_t table);
    /// Whether backups that are in sync, and learners of segments that are complete, have applied these
    /// chunks.
    [[nodiscard]] bool has_filled(size_t table) const noexcept;
    /// The table is filled anew later. What takes over other segments does not come behind its chunks.
    void forget_filled(size_t table);

    /// The table is dropped. What was recorded of it is still sent.
    void forget_table(size_t table);

    /// Whether it goes on with another connection: that of a job that has backups.
    [[nodiscard]] bool is_lasting() const noexcept { return ends_.lasting != 0; }

    /// Whether replies wait for it.
    [[nodiscard]] bool is_in_sync() const noexcept { return is_in_sync_; }

    /// The learner has applied all changes up to this one, as far as they are of this stream.
    [[nodiscard]] uint64_t replicated_change() const noexcept {
        return changes_.empty() ? kAllChanges : changes_.front().number - 1;
    }

    /// False: too much waits. Let what makes records wait until there is room.
    [[nodiscard]] bool has_room() const noexcept { return queue_bytes_ < kQueueBytesMax; }

    /// Nothing changes any more in some of its segments: has_sent_all_of() looks at what was added
    /// until now.
    void mark() noexcept;
    /// Whether the learner has applied all of those of its segments that are in `positions`, and
    /// what was added before mark().
    [[nodiscard]] bool has_sent_all_of(const PositionSet& positions) const;

    /// Whether the next two, or take_complete(), may have something to tell.
    [[nodiscard]] bool has_news() const noexcept { return is_refused_ || has_unreported_; }

    /// Whether the learner has refused what it was to learn since the last call: it has no memory.
    [[nodiscard]] bool take_refusal() noexcept { return std::exchange(is_refused_, false); }

    /// What the learner has refused, or may have: those that it learns; if there are none, its backups.
    [[nodiscard]] std::vector<LearnedSegment> refused_segments() const;

    /// The segments that have become complete at the learner, once each. `replicated`: all backups in
    /// sync have the changes up to this one.
    [[nodiscard]] std::vector<LearnedSegment> take_complete(uint64_t replicated);

    // The connection:

    [[nodiscard]] std::optional<transport::ConnectionId> connection() const noexcept {
        return connection_;
    }

    void connected();
    /// `memory_in_doubt`: as in transport::Completion.
    void closed(bool memory_in_doubt = false);
    /// The learner has sent kApplied. Returns what is wrong with it; empty if nothing is.
    [[nodiscard]] std::string_view applied(const wire::FrameHeader& header);

    /// Records alone; or chunks behind them: few and short ones while there are pushes, whose records
    /// would wait behind all that the learner has still to take.
    enum class What : uint8_t { kRecords, kFewChunks, kChunks };

    /// Connects if it is time; sends `what`, about `bytes_max` in all; but nothing that was added after
    /// this change. Returns what it has sent, in bytes.
    size_t send(size_t bytes_max, What what = What::kChunks, uint64_t change_max = kAllChanges);

    /// The positions of segments that it was told to carry since the last call, and that the learner
    /// has from another primary.
    [[nodiscard]] PositionSet take_taken_over() noexcept { return std::exchange(taken_over_, {}); }

    /// Adds, as one change, rows of a table as they are now, and the times and closed iterations of
    /// those segments of `positions` that it carries.
    void add_as_now(size_t table, const PositionSet& positions, const TouchedRows& rows);

    /// Says in the record how far iterations of its table have come in a range.
    void put_iterations(RecordMessage& record, PositionRange range) const;

    /// Whether send() may do something.
    [[nodiscard]] bool has_work() const noexcept {
        return state_ != State::kOpen || !queue_.empty() || has_chunks();
    }

    /// Whether there are rows to send that nobody has just changed.
    [[nodiscard]] bool has_chunks() const noexcept {
        return !std::ranges::all_of(batches_, &Batch::is_done);
    }

    /// Whether it can only go on when the connection takes more.
    [[nodiscard]] bool must_poll() const noexcept { return must_poll_ && has_work(); }

    /// Whether something is on its way to the learner, or would be if there were a connection.
    [[nodiscard]] bool awaits_learner() const noexcept {
        return !batches_.empty() && (state_ != State::kOpen || accepted_ != last_index_);
    }

    /// Whether that is so, and nothing was heard of the learner, for longer than `most_ns`. It is said
    /// once in that time. Call it a few times in it: while nobody does, no time counts.
    [[nodiscard]] bool is_stuck(uint64_t now_ns, uint64_t most_ns) noexcept;

    /// When it goes on though nothing arrives: it connects again then. All ones: never.
    [[nodiscard]] uint64_t due_ns() const noexcept {
        const bool waits = state_ == State::kPaused && !connection_ && !batches_.empty();
        return waits ? until_ns_ : ~uint64_t{0};
    }

private:
    enum class State : uint8_t { kPaused, kConnecting, kOpen };

    /// How far a batch has come; entered through enter().
    enum class Stage : uint8_t {
        kNamed,  ///< nothing of it was added
        kRows,  ///< kBegin and the times were added: every change is recorded, and rows are on their way
        kEnded,   ///< kEnd was added; rows of `again` may follow
        kInSync,  ///< of a backup: replies wait for it
    };

    struct Batch {
        std::vector<LearnedSegment> segments;
        As as = As::kLearner;
        PositionSet positions = {};  ///< of the segments
        Stage stage = Stage::kNamed;
        std::set<size_t> tables = {};  ///< kRows: whose rows were not sent
        /// Whose rows changed since, but are not recorded. What takes over other segments waits at the
        /// learner for a view, and that view may wait for these rows: so a stream that lasts has none
        /// here then.
        std::set<size_t> again = {};
        std::optional<size_t> walked = {};  ///< the table whose rows are being sent
        KeyCursor cursor = {};              ///< in it
        uint64_t end = 0;  ///< from kEnded on: index of its kEnd, or of the last row behind that
        uint64_t in_sync_behind = 0;  ///< kInSync: index of the last record before that
        uint64_t in_sync_change = 0;  ///< kInSync: the last change before that
        bool is_reported = false;     ///< once, though it may begin anew on another connection

        [[nodiscard]] bool has_begun() const noexcept { return stage != Stage::kNamed; }

        [[nodiscard]] bool has_ended() const noexcept { return stage >= Stage::kEnded; }

        [[nodiscard]] bool is_in_sync() const noexcept { return stage == Stage::kInSync; }

        [[nodiscard]] bool is_backup() const noexcept { return as != As::kLearner; }

        [[nodiscard]] bool is_done() const noexcept {
            return has_ended() && again.empty() && !walked.has_value();
        }
    };

    struct Queued {
        std::vector<std::byte> bytes = {};
        Block lent = {};  ///< its rows, if the learner is to take them from there
        size_t lent_bytes = 0;
        size_t work_bytes = 0;  ///< for the learner, at least size()
        size_t sent = 0;        ///< of `bytes`
        uint64_t change = 0;    ///< the last one when it was added; 0: it may be sent at once

        [[nodiscard]] size_t size() const noexcept { return bytes.size() + lent_bytes; }
    };

    struct Sent {
        uint64_t index = 0;
        size_t work_bytes = 0;
        Queued kept = {};  ///< all of it, if the stream is lasting, or its rows are lent
    };

    struct Change {
        uint64_t index = 0;  ///< of its last record
        uint64_t number = 0;
    };

    void enter(State state, uint64_t pause_ns = 0);
    void enter(Batch& batch, Stage stage);
    void try_later(std::string_view why);
    void begin_anew();
    void send_again();
    void connect();
    void add_whole(RecordMessage& record, bool has_more);
    [[nodiscard]] bool can_lend() const;
    [[nodiscard]] bool lend(Queued& record);
    void put_rows_into(Queued& record);
    [[nodiscard]] static Block take_lent(Queued& record);
    void set_lent_aside();
    void give_back(Queued&& record);
    void add_rows(const Batch& batch, size_t table, const AggregatedRows& changed);
    void find_positions();
    [[nodiscard]] bool has_window(size_t work_bytes) const noexcept;
    [[nodiscard]] bool post(uint64_t index, size_t bytes_to_come,
                            std::span<const std::span<const std::byte>> body);
    void was_sent(size_t work_bytes);
    void chunk_is_ahead(uint64_t index, size_t work_bytes);
    void forget_chunks_ahead() noexcept;
    [[nodiscard]] bool send_queue(uint64_t change_max);
    [[nodiscard]] size_t chunk_bytes_ahead_max(What what) const noexcept;
    [[nodiscard]] bool send_next_chunk(What what);
    void begin(Batch& batch);
    void take_over(Batch& batch);
    void end(Batch& batch);
    [[nodiscard]] uint64_t next_index() const noexcept;

    /// Some of the record at the head of the queue was sent, which last_index_ names then.
    [[nodiscard]] bool has_sent_fragment() const noexcept {
        return !queue_.empty() && queue_.front().sent > 0;
    }

    [[nodiscard]] bool begin_walk(Batch& batch);
    void add_iterations(const Batch& batch, size_t table);
    [[nodiscard]] bool send_rows(Batch& batch, const TableReplica& table, size_t work_bytes_max);
    [[nodiscard]] RecordMessage record_of(const TableReplica& table, size_t number);
    void add_listed(size_t table, bool has_more);
    void find_in_sync();
    void find_unreported();

    Ends ends_;
    transport::Endpoint& endpoint_;
    const Clock& clock_;
    const Holdings& holdings_;
    Replicas& tables_;
    Lender& lender_;
    RepeatedLog& failures_;

    // The connection; entered through enter().
    State state_ = State::kPaused;
    std::optional<transport::ConnectionId> connection_;
    uint64_t connection_count_ = 0;
    uint64_t until_ns_ = 0;      ///< kPaused: when to connect
    uint64_t pause_ns_ = 0;      ///< before the next attempt; grows until the first ack
    uint64_t connected_ns_ = 0;  ///< when the connection was made
    bool is_out_ = false;        ///< the learner is out of reach, and that was logged
    bool must_poll_ = false;     ///< it takes nothing now

    // Whether the learner is heard of: for is_stuck().
    uint64_t heard_ = 0;       ///< acks of the learner
    uint64_t seen_ = 0;        ///< of these, by is_stuck()
    uint64_t looked_ns_ = 0;   ///< is_stuck() was called
    uint64_t went_on_ns_ = 0;  ///< the learner was heard of, or nothing waited for it

    // What it is to carry, by the view.
    uint64_t epoch_ = 0;
    std::vector<Batch> batches_;
    PositionSet taken_over_;
    bool is_shared_ = false;
    bool is_refused_ = false;  ///< by a learner without memory; until take_refusal()

    // Derived from the batches by find_positions(), find_in_sync() and find_unreported().
    PositionSet positions_;
    uint64_t generation_ = 1;
    bool is_in_sync_ = false;
    bool has_unreported_ = false;

    // Records that wait, and those that were sent: of each index above applied_ there is one in
    // unapplied_.
    SpareBuffers<> spare_;
    std::deque<Queued> queue_;
    size_t queue_bytes_ = 0;
    std::deque<Sent> unapplied_;
    uint64_t last_index_ = 0;  ///< of the record that was sent last, or of which some was sent
    uint64_t applied_ = 0;
    uint64_t accepted_ =
        0;  ///< at least applied_: what the learner keeps until the change is whole, too
    size_t unaccepted_bytes_ = 0;    ///< of work for the learner
    std::deque<Sent> chunks_ahead_;  ///< that it has not accepted
    size_t chunk_bytes_ahead_ = 0;   ///< of work in them
    uint64_t mark_ = 0;              ///< index that must be applied
    uint64_t last_list_ = 0;         ///< number that was given to a list
    uint64_t sent_bytes_ = 0;        ///< and what it took to find them

    // Changes.
    uint64_t last_change_ = 0;
    std::deque<Change> changes_;   ///< that the learner has not applied; of a lasting stream
    std::deque<Change> uncommon_;  ///< while it is shared: changes that not all backups have
    uint64_t common_ = 0;          ///< index up to which all have them

    // Kept for their memory.
    ListedRows listed_;
    std::vector<std::byte> values_;
    std::vector<std::byte> state_bytes_;
};

}  // namespace weir

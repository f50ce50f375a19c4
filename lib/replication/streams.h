// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Streams: all streams of one primary, one to each shard that learns from it or is its backup; and
/// what a push means to them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/key/key_list.h"
#include "lib/replication/holdings.h"
#include "lib/replication/stream.h"
#include "lib/ring/moves.h"
#include "lib/ring/view.h"
#include "lib/store/index/known_lists.h"
#include "lib/vclock/range_clock.h"
#include "transport/transport.h"

namespace weir {

/// It numbers the changes of the shard: last_change() is how many there were. The reply to one may leave
/// once replicated_change() is not below it.
///
/// Thread: the shard's
class Streams {
public:
    /// Of keys that are remembered for lists that are pushed by their hash, or that sums change again and again.
    static constexpr size_t kListBytesMax = size_t{64} << 20;
    /// Of a change, which both ends keep until it has arrived as a whole.
    static constexpr size_t kChangeBytesMax = size_t{8} << 30;
    /// Sums that may come again. Beyond it, all are forgotten.
    static constexpr size_t kSumsMax = size_t{1} << 16;

    /// What is a reference must outlive this.
    Streams(transport::Endpoint& endpoint, const Clock& clock, const Holdings& holdings,
            Replicas& tables, KnownLists& lists, const LendingOptions& lending,
            RepeatedLog& failures)
        : endpoint_(endpoint),
          clock_(clock),
          holdings_(holdings),
          tables_(tables),
          lists_(lists),
          failures_(failures),
          lender_(lending) {}

    [[nodiscard]] bool empty() const noexcept { return streams_.empty(); }

    /// By which streams prove whose they are.
    void set_pass(uint64_t pass) noexcept { pass_ = pass; }

    /// What a view names anew begins when it is here; or later, when this is called once more.
    enum class Begin : uint8_t { kNow, kLater };

    /// Follows a view, which the holdings already have: begins streams to learners and backups that
    /// it names, and ends those of others; a stream of what is leaving goes on until that is let go.
    /// `number`: of this shard.
    void apply_view(const View& view, uint32_t number, Begin begin = Begin::kNow);

    /// Backups that are this shard's now, and that other primaries had, may lack these rows, which
    /// are here: they get them, by table, with the next view.
    void note_touched(const TouchedLog& log) { log.collect(touched_); }

    /// Ends all streams: before the endpoint goes.
    void end() { streams_.clear(); }

    /// Nothing of what is leaving changes any more.
    void mark() noexcept {
        for (const auto& [learner, stream] : streams_)
            stream->mark();
    }

    /// Whether the rows that an iteration changes are recorded: iteration_closed() needs them then.
    [[nodiscard]] bool records_iterations() const noexcept {
        return std::ranges::any_of(streams_,
                                   [](const ToLearner& one) { return one.stream->is_lasting(); });
    }

    /// Whether replies have to wait for some backup.
    [[nodiscard]] bool has_in_sync() const noexcept {
        return std::ranges::any_of(streams_,
                                   [](const ToLearner& one) { return one.stream->is_in_sync(); });
    }

    /// The number of the last change; 0: there was none.
    [[nodiscard]] uint64_t last_change() const noexcept { return last_change_; }

    /// All backups in sync have applied the changes up to this one.
    [[nodiscard]] uint64_t replicated_change() const noexcept;

    // Pushes:

    /// False: too much waits to be sent.
    [[nodiscard]] bool has_room() const noexcept;

    /// Whether a push of this list by its hash could not be recorded: a stream carries some of its
    /// keys, and they are not known. Its segments are.
    [[nodiscard]] bool needs_keys(const KnownList& list) const;

    /// A push was executed, and the worker's clock raised: records what it has changed. Nobody else can
    /// change its keys.
    void pushed(TableReplica& table, const Entries& entries, uint32_t worker,
                const RangeClock& clock);

    /// A push whose effect comes later, or not at all, has made rows for keys that were new: backups get
    /// them, too, with all others of its `keys` that are as fresh.
    void made_rows(TableReplica& table, std::span<const uint64_t> keys);

    /// An iteration of the table is about to be closed: what is replied from now on waits for it.
    void iteration_closes() noexcept { begin_change(); }

    /// An iteration of the table was closed. `changed`: as of Stream::iteration_closed().
    void iteration_closed(TableReplica& table, const AggregatedRows& changed);

    /// The same of one in which a single push has changed these entries.
    void iteration_closed(TableReplica& table, const Entries& only) { record(table, only, {}); }

    /// As Stream::table_filled(), has_filled() and forget_filled().
    void table_filled(uint32_t table) {
        for (const auto& [learner, stream] : streams_)
            stream->table_filled(table);
    }

    [[nodiscard]] bool has_filled(uint32_t table) const noexcept {
        return std::ranges::all_of(
            streams_, [&](const ToLearner& one) { return one.stream->has_filled(table); });
    }

    void forget_filled(uint32_t table) {
        for (const auto& [learner, stream] : streams_)
            stream->forget_filled(table);
    }

    /// The table is dropped.
    void forget_table(uint32_t table) {
        touched_.erase(table);
        for (const auto& [learner, stream] : streams_)
            stream->forget_table(table);
    }

    // Connections. The functions return whether it is one of a stream.

    bool connected(transport::ConnectionId connection);
    bool closed(transport::ConnectionId connection, bool memory_in_doubt);

    /// Returns what is wrong with the frame; empty if nothing is.
    [[nodiscard]] std::string_view receive(transport::ConnectionId connection,
                                           const wire::FrameHeader& header);

    /// Sends `what`, about `bytes_max` in all. Returns what it has sent.
    size_t send(size_t bytes_max, Stream::What what = Stream::What::kChunks);

    /// As Stream::has_chunks(), of any.
    [[nodiscard]] bool has_chunks() const noexcept {
        return std::ranges::any_of(streams_,
                                   [](const ToLearner& one) { return one.stream->has_chunks(); });
    }

    /// As Stream::must_poll().
    [[nodiscard]] bool must_poll() const noexcept;

    /// As Stream::due_ns(), of the first one.
    [[nodiscard]] uint64_t due_ns() const noexcept;

    /// Whether take_complete() or take_refused() may have something to tell.
    [[nodiscard]] bool has_news() const noexcept {
        return std::ranges::any_of(streams_,
                                   [](const ToLearner& one) { return one.stream->has_news(); });
    }

    /// Learners that have become complete since the last call.
    [[nodiscard]] std::vector<LearnerReport> take_complete();

    /// What learners were to learn that have had no memory for it since the last call.
    [[nodiscard]] std::vector<LearnerReport> take_refused();

    /// As Stream::awaits_learner(), of any.
    [[nodiscard]] bool await_learners() const noexcept {
        return std::ranges::any_of(
            streams_, [](const ToLearner& one) { return one.stream->awaits_learner(); });
    }

    /// What was to get to learners of which nothing was heard for longer than that; see Stream::is_stuck().
    [[nodiscard]] std::vector<LearnerReport> take_stuck(uint64_t now_ns, uint64_t most_ns);

    /// Whether the learners have all of what is leaving.
    [[nodiscard]] bool have_leavers_arrived() const;

private:
    struct ToLearner {
        uint32_t learner = 0;  ///< its shard
        std::unique_ptr<Stream> stream;
    };

    using Streamed = std::vector<StreamedKeys>;  ///< of a list, by learner; ascending

    /// Of a change: a push of a worker, whose clock was raised, or the end of an iteration.
    struct Cause {
        uint32_t worker = 0;
        const RangeClock* clock = nullptr;

        [[nodiscard]] bool is_iteration() const noexcept { return clock == nullptr; }
    };

    [[nodiscard]] std::map<uint32_t, std::vector<Stream::Carried>> wanted_by(const View& view,
                                                                             uint32_t number) const;
    void leave_only_known(std::map<uint32_t, std::vector<Stream::Carried>>& wanted) const;
    [[nodiscard]] uint64_t change_of_those_before(const ToLearner& one) const noexcept;
    [[nodiscard]] std::vector<ToLearner>::iterator place_of(uint32_t learner) noexcept;
    [[nodiscard]] Stream* to(uint32_t learner) const noexcept;
    [[nodiscard]] Stream* find(transport::ConnectionId connection) const noexcept;
    [[nodiscard]] bool is_streamed(uint64_t position) const noexcept;

    /// What is recorded from now on is of the next change.
    void begin_change() noexcept {
        ++last_change_;
        for (const auto& [learner, stream] : streams_)
            stream->begin_change(last_change_);
    }

    void look_at_positions();
    void take_over(Stream& stream);
    void record(TableReplica& table, const Entries& entries, const Cause& cause);
    void record_range(Stream& stream, TableReplica& table, const Entries& entries,
                      const Cause& cause);
    void record_kept_of_range(Stream& stream, const TableReplica& table, const Entries& entries,
                              const Cause& cause);
    [[nodiscard]] bool record_sum(TableReplica& table, const AggregatedRows& changed);
    [[nodiscard]] Streamed streamed_of_sum(const TableReplica& table,
                                           std::span<const uint64_t> keys);
    void record_list(Streamed& streamed, const Entries& entries, TableReplica& table,
                     const Cause& cause);
    void record_keys(Stream& stream, StreamedKeys& streamed, const RowList& list,
                     const TableShard& table, const Cause& cause);
    void record_kept(Stream& stream, const StreamedKeys& streamed, const Entries& entries,
                     const TableShard& table, const Cause& cause);
    void record_no_rows(Stream& stream, const TableReplica& table, const Cause& cause);
    void add_last_record(Stream& stream, std::span<const PositionRange> segments,
                         const Cause& cause);
    void put_rows(const StreamedKeys& streamed, std::span<const uint32_t> rows,
                  const TableShard& table);
    [[nodiscard]] Streamed& remembered(KnownList* list, Streamed& streamed);
    void forget_lists();
    [[nodiscard]] Streamed streamed_of(const TableReplica& table,
                                       std::span<const uint64_t> keys) const;

    transport::Endpoint& endpoint_;
    const Clock& clock_;
    const Holdings& holdings_;
    Replicas& tables_;
    KnownLists& lists_;
    RepeatedLog& failures_;
    Lender lender_;
    std::vector<ToLearner> streams_;  ///< ascending by learner
    uint64_t stream_count_ = 0;       ///< that there have been
    uint64_t last_change_ = 0;
    uint32_t number_ = 0;  ///< of this shard
    uint64_t pass_ = 0;
    bool is_shared_ = false;  ///< some segment has several backups, or is to have
    std::map<uint32_t, TouchedRows>
        touched_;  ///< of backups that are taken over with the next view

    uint32_t next_to_send_ = 0;    ///< the learner whose turn it is, or who comes next
    uint64_t positions_seen_ = 0;  ///< sum of the streams' generations that `lists_in_` belongs to
    uint64_t lists_in_ = 1;        ///< as KnownList::streamed_in
    std::unordered_set<uint64_t> sums_;  ///< places of lists of sums that have come once
    size_t list_bytes_ = 0;              ///< of keys remembered in lists since forget_lists()
    RecordMessage record_;               ///< kept for its memory, as what follows
    std::vector<PositionRange> segments_;
    std::vector<KeyRange> parts_;
    std::vector<uint64_t> keys_;
    StreamedKeys kept_;  ///< of a change of some entries
    std::vector<uint32_t> rows_;
    std::vector<std::byte> values_;
    std::vector<std::byte> state_bytes_;
};

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IncomingStream: the end of a Stream at a learner or backup. It takes the records and applies them.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/replication/holdings.h"
#include "lib/replication/spare_buffers.h"
#include "lib/replication/stream.h"
#include "lib/replication/streams.h"
#include "lib/replication/touched_rows.h"
#include "lib/ring/view.h"
#include "lib/wire/frame.h"
#include "lib/wire/record_message.h"
#include "transport/transport.h"

namespace weir {

/// A record is applied as a whole, as soon as all of it is here. One that cannot be applied yet
/// keeps those behind it waiting: a kBegin until the view is here that names its learners, and
/// while rows are being dropped; rows of a table until that is made here.
///
/// What comes is not trusted: rows and times count only where the view names this shard as the
/// learner or a backup of the sender, in segments that a kBegin or kTakeOver has named. For other
/// segments the sender may have an older view: what comes for them is left out.
///
/// The records of one change are applied when the last of them is here; those of a long one in steps.
/// What has been applied is what the sender may acknowledge; so what is not applied when the sender dies
/// was acknowledged to nobody.
///
/// What was learned stays when the connection ends: the view that makes this shard its primary may
/// be on its way. It is dropped when a kBegin comes for it again, or a view does not name it. A
/// stream that lasts goes on() with the next connection.
///
/// Thread: the shard's
class IncomingStream {
public:
    /// More than a window of records does not wait here, beside the one that comes in fragments.
    static constexpr size_t kWaitingBytesMax = Stream::kWindowBytes + (size_t{1} << 20);

    static constexpr size_t kSegmentsMax = size_t{1} << 16;  ///< of one connection

    /// What it applies of a change in one go, and one record more.
    static constexpr size_t kStepBytes = size_t{1} << 20;

    /// Of lists that it knows by number; the sender remembers less.
    static constexpr size_t kListBytesMax = size_t{64} << 20;

    /// Who sends, and who learns, by number; and the number of this connection among theirs.
    struct Ends {
        uint32_t primary = 0;
        uint32_t learner = 0;
        uint64_t connection = 0;
        uint64_t stream = 0;  ///< as in FollowMessage
    };

    /// Indices of the last record that was applied, and of the last one that was applied or is kept
    /// until its change is whole.
    struct Progress {
        uint64_t applied = 0;
        uint64_t accepted = 0;
        friend bool operator==(Progress, Progress) noexcept = default;
    };

    /// `view`, `holdings` and `tables` must outlive it. `change_bytes_max`: of what is kept of a change
    /// until the rest of it comes.
    IncomingStream(Ends ends, const View& view, Holdings& holdings, Replicas& tables,
                   size_t change_bytes_max = Streams::kChangeBytesMax);
    IncomingStream(const IncomingStream&) = delete;
    IncomingStream& operator=(const IncomingStream&) = delete;
    ~IncomingStream() = default;

    [[nodiscard]] uint32_t primary() const noexcept { return ends_.primary; }

    [[nodiscard]] uint64_t number() const noexcept { return ends_.connection; }

    [[nodiscard]] uint64_t stream() const noexcept { return ends_.stream; }

    /// The stream goes on with connection `number`, behind a record. What came of later ones and
    /// was not applied comes again. False: that record was not applied here.
    [[nodiscard]] bool go_on_behind(uint64_t index, uint64_t number);

    /// Where a frame has come from, and what its sender lends.
    struct Source {
        transport::Endpoint& endpoint;
        transport::ConnectionId connection;
    };

    /// Takes a frame of kind kRecord. Returns what is wrong with it; empty if nothing is.
    [[nodiscard]] std::string_view receive(const wire::Frame& frame, Source source);

    /// Applies what waits, as far as it can. Returns what is wrong with it.
    [[nodiscard]] std::string_view go_on();

    /// Applies the rest of a change of which it has applied some: before this shard can become the primary
    /// of what that changes, and before a connection ends by which it would come again. Returns what is wrong
    /// with it: then what it is of counts as learned no more.
    std::string_view finish_change();

    /// Whether the last record that it took was more than rows: somebody waits for it.
    [[nodiscard]] bool has_received_push() const noexcept { return has_received_push_; }

    /// It makes room for a segment, or applies a long change, a bounded part in each go_on().
    [[nodiscard]] bool is_preparing() const noexcept {
        return is_preparing_ || applied_records_ > 0;
    }

    /// How far it is, if there is news since the last call.
    [[nodiscard]] std::optional<Progress> take_progress();

    /// The same again, now and then, while what has come waits here, for room or for a view, or the rest of a
    /// record is on its way: so its primary knows that it is in reach.
    [[nodiscard]] std::optional<Progress> take_sign_of_life(uint64_t now_ns) noexcept;

    /// What has come waits, or is not whole.
    [[nodiscard]] bool has_begun_record() const noexcept {
        return !waiting_.empty() || bytes_to_come_ > 0;
    }

    /// Why it cannot learn, once that is so: nothing more is applied.
    [[nodiscard]] Errc refusal() const noexcept { return refusal_; }

    /// What it has applied and other backups may lack.
    [[nodiscard]] const TouchedLog& touched() const noexcept { return touched_; }

    /// There is a new view: what comes for segments that it does not name any more is left out.
    /// `learner`: the number of this shard, which one that joins knows only then.
    void apply_view(uint32_t learner);

private:
    enum class Outcome : uint8_t { kApplied, kWait, kRefused, kMalformed };

    struct Segment {
        LearnedSegment is;
        bool is_active = false;  ///< it is learned; else what comes for it is left out
        bool is_torn = false;    ///< it was learned, and has a part of a change that was refused
    };

    /// A list whose keys come no more.
    struct NumberedList {
        uint32_t table = 0;
        std::vector<uint64_t> keys;
        ListId id = {};                      ///< by which the table may remember where they are
        std::weak_ptr<KnownList> rows = {};  ///< as the table remembers them
        uint64_t seen_in = 0;  ///< segment_changes_ when all keys were seen to be in segments
    };

    [[nodiscard]] std::string_view receive_whole(std::span<const std::byte> bytes,
                                                 std::vector<std::byte>* memory, Source source);
    [[nodiscard]] Outcome accept(const RecordMessage& record, std::vector<std::byte>* memory,
                                 size_t bytes_max = kStepBytes);
    [[nodiscard]] Outcome accept_waiting(size_t bytes_max);
    void note_change(const RecordMessage& last);
    [[nodiscard]] Outcome apply(const RecordMessage& record);
    [[nodiscard]] Outcome begin(const RecordMessage& record);
    [[nodiscard]] Outcome take_over(const RecordMessage& record);
    [[nodiscard]] bool add_segment(const LearnedSegment& segment, bool is_active);
    void tear();
    void mend();
    [[nodiscard]] Outcome apply_rows(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome apply_range(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome apply_list(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome apply_known_list(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome apply_keys(TableReplica& table, std::span<const uint64_t> keys,
                                     const RecordMessage& record);
    [[nodiscard]] bool are_known(const TableReplica& table, std::span<const uint64_t> keys) const;
    [[nodiscard]] bool keep_list(const RecordMessage& record);
    [[nodiscard]] NumberedList* numbered_list(const RecordMessage& record);
    [[nodiscard]] Outcome skip_rows(const RecordMessage& record);
    [[nodiscard]] Outcome apply_times(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome apply_iterations(TableReplica& table, const RecordMessage& record);
    [[nodiscard]] Outcome ended(const Status& status);
    [[nodiscard]] bool is_learner(const LearnedSegment& segment) const noexcept;
    [[nodiscard]] bool is_backup(PositionRange range) const noexcept;
    [[nodiscard]] bool is_plausible(uint32_t worker) const noexcept;
    [[nodiscard]] const Segment* find(PositionRange range) const noexcept;
    void find_positions();
    [[nodiscard]] std::string_view judge(Outcome outcome);

    Ends ends_;
    const View& view_;
    Holdings& holdings_;
    Replicas& tables_;

    std::vector<Segment> segments_;  ///< that a kBegin has named
    PositionSet known_;              ///< of all of them
    PositionSet active_;
    bool all_active_ = true;
    uint64_t segment_changes_ = 1;  ///< how often these may have changed

    std::unordered_map<uint64_t, NumberedList> lists_;  ///< by number
    size_t list_bytes_ = 0;

    uint64_t received_ = 0;  ///< index of the last record of which something has come
    uint64_t applied_ = 0;
    uint64_t accepted_ = 0;
    Progress told_;
    uint64_t next_sign_ns_ = 0;
    std::vector<std::vector<std::byte>> change_;  ///< records of one, but for its last
    size_t applied_records_ = 0;  ///< of these: then its last one is the first that waits
    size_t change_bytes_ = 0;
    size_t change_bytes_max_;
    TouchedLog touched_;
    Errc refusal_ = Errc::kOk;
    bool has_told_refusal_ = false;
    bool is_preparing_ = false;
    bool has_received_push_ = false;
    std::string_view wrong_;          ///< with the last record
    std::vector<std::byte> partial_;  ///< the beginning of a record that comes in fragments
    size_t bytes_to_come_ = 0;        ///< of it
    SpareBuffers<> spare_;
    std::deque<std::vector<std::byte>> waiting_;
    size_t waiting_bytes_ = 0;
    RecordMessage record_;  ///< kept for its memory, as what follows
    std::vector<uint64_t> keys_;
    std::vector<uint64_t> active_keys_;
    std::vector<std::byte> values_;
    std::vector<std::byte> state_;
};

}  // namespace weir

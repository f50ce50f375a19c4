// SPDX-License-Identifier: Apache-2.0
/// \file
/// Segments that move, and their backups: this shard sends those that others learn or have
/// (Streams), takes those that it learns or backs up (Follower), and stops serving what a view takes
/// from it.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/server/shard.h"

namespace weir {

using wire::Kind;

namespace {

/// What streams may send in one poll: a push that has just missed it waits for so much. Of chunks, which the
/// learner has to take, too, less while there are pushes.
constexpr size_t kBytesPerPoll = size_t{32} << 10;
constexpr size_t kBytesBesideRequests = size_t{8} << 10;

}  // namespace

void Shard::look_at_moves() noexcept {
    const bool is_counted = streams_.is_counted();
    has_had_copies_ |= is_counted;
    holds_answers_ = is_counted || !held_.empty() || !ready_.empty() || !unconfirmed_drops_.empty();
    const bool needed_lease = std::exchange(needs_lease_, is_counted && options_.lease != nullptr);
    if (needs_lease_ && !needed_lease) writes_.want_replies();
    is_moving_ = !holdings_.is_settled() || !streams_.empty() || !followers_.empty() ||
                 stopping_.has_value() || holds_answers_ || checkpoint_.is_under_way() ||
                 !fills_.empty();
}

// Views.

/// Closes the streams of shards that are in the view no more, before anything is done by it: what a
/// dead primary has sent and nobody has applied was promised to nobody, and must not arrive when
/// another one serves.
void Shard::cut_off_the_gone(const View& view) {
    const auto is_gone = [&](uint32_t shard) {
        return shard < view.data().next_shard && view.shard(shard) == nullptr;
    };
    std::vector<ConnectionId> gone;
    for (const auto& [connection, follower] : followers_) {
        if (is_gone(follower->primary())) gone.push_back(connection);
    }
    for (const ConnectionId connection : gone) {
        endpoint_->close(connection);
        closed(connection);
    }
    for (const auto& [primary, follower] : detached_) {
        if (is_gone(primary)) streams_.note_touched(follower->touched());
    }
    std::erase_if(detached_, [&](const auto& entry) { return is_gone(entry.first); });
}

/// Whether this shard learns the segment from `primary`, or is its backup.
bool Shard::is_named_for(uint32_t primary, PositionRange range) const {
    const size_t i = view_.segment_index(range.first);
    const ViewSegment& segment = view_.segments()[i];
    return view_.range(i) == range && segment.primary == primary &&
           (segment.learner.shard == options_.number ||
            std::ranges::count(segment.backups, options_.number) > 0);
}

/// Takes the roles that a view gives to this shard. False: it cannot, and has ended.
bool Shard::take_roles(const View& view, bool is_first) {
    std::vector<PositionRange> primary;
    for (const uint32_t segment : view.segments_of(options_.number))
        primary.push_back(view.range(segment));
    if (is_first) {
        holdings_.begin(primary);
        return true;
    }
    if (const Status taken = holdings_.set_primary(primary); !taken) {
        end(Error(taken.code(), fmt::format("the manager sent view {}: {}", view.epoch(),
                                            taken.error().message())));
        return false;
    }
    // What was handed over before may have been given back; what was not is told again, for this view.
    using Role = Holdings::Role;
    const bool loses = !holdings_.in_role({Role::kLeaving, Role::kHandedOver}).ranges().empty();
    stopping_ = loses ? std::optional(view.epoch()) : std::nullopt;
    return true;
}

/// The view is here: streams and followers go by it.
void Shard::follow_view() {
    holdings_.forget_unless(
        [&](PositionRange range) { return is_named_for(view_.owner(range.first), range); });
    // One that loses something has the view early. What the view gives it begins when it has stopped:
    // others take the beginning of it only when they have the view, and would keep what is leaving
    // waiting behind that.
    // What was handed over by an earlier view, which this one revises, waits for nothing any more. What
    // was leaving then waits for nothing that was added since: others may take that with this view only.
    PositionSet leaving = holdings_.in_role({Holdings::Role::kLeaving});
    if (!leaving.without(leaving_).ranges().empty()) streams_.mark();
    leaving_ = std::move(leaving);
    is_learning_ = std::ranges::any_of(view_.segments(), [&](const ViewSegment& segment) {
        return segment.has_learner() && segment.learner.shard == options_.number;
    });
    streams_.take_view(view_, options_.number,
                       stopping_ ? Streams::Begin::kLater : Streams::Begin::kNow);
    for (const auto& [connection, follower] : followers_)
        follower->take_view(options_.number);
    for (const auto& [primary, follower] : detached_)
        follower->take_view(options_.number);
    look_at_moves();
}

// What moves, in each poll while something does.

size_t Shard::move_on() {
    size_t done = 0;
    std::vector<std::pair<ConnectionId, std::string_view>> wrong;
    for (const auto& [connection, follower] : followers_) {
        if (const std::string_view why = follower->go_on(); !why.empty())
            wrong.emplace_back(connection, why);
        if (follower->is_preparing()) ++done;
        tell_applied(connection, *follower);
    }
    for (const auto& [connection, why] : wrong)
        refuse(connection, why);
    done += streams_.send(kBytesPerPoll, Stream::What::kRecords);
    if (streams_.has_news()) {
        for (const LearnerReport& report : streams_.take_complete())
            tell_manager(report, Errc::kOk);
        for (const LearnerReport& report : streams_.take_refused())
            tell_manager(report, Errc::kNoMemory);
    }
    look_for_stuck_streams();
    done += release_answers();
    if (stopping_ && streams_.have_leavers_arrived()) {
        wire::FrameHeader header = wire::header_of(Kind::kStopped);
        header.first = *std::exchange(stopping_, std::nullopt);
        to_manager_.send(header);
        holdings_.hand_over();
        streams_.take_view(view_, options_.number);
        ++done;
    }
    if (holds_pushes_ && streams_.has_room() && !checkpoint_.is_frozen()) {
        holds_pushes_ = false;
        retry_ = true;
    }
    look_at_moves();
    return done;
}

/// A push waits for the copies that count, and its record there for the chunks before it.
Stream::What Shard::chunks_of_poll() const noexcept {
    const bool delay_pushes = !is_quiet() && streams_.is_counted();
    return delay_pushes ? Stream::What::kFewChunks : Stream::What::kChunks;
}

/// What nobody waits for, when the answers of a poll are on their way.
size_t Shard::work_behind() {
    size_t done = holdings_.drop_some() ? 1 : 0;
    if (checkpoint_.is_under_way() || !fills_.empty()) done += go_on_with_checkpoint();
    if (streams_.has_chunks())
        done += streams_.send(is_quiet() ? kBytesPerPoll : kBytesBesideRequests, chunks_of_poll());
    return done;
}

/// Of two servers that do not reach each other the manager may hear all the time. Answers would wait for a
/// copy on the other one without end, so it is told: after more than a server is waited for that it
/// does not hear.
void Shard::look_for_stuck_streams() {
    constexpr uint64_t kLeases = 3;
    constexpr uint64_t kLooks = 8;
    if (options_.lease == nullptr || streams_.empty()) return;
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < next_stuck_look_ns_) return;
    const uint64_t most_ns = kLeases * options_.lease->length_ns();
    next_stuck_look_ns_ = now_ns + most_ns / kLooks;
    if (most_ns == 0) return;
    for (const LearnerReport& report : streams_.take_stuck(now_ns, most_ns))
        tell_manager(report, Errc::kPeerLost);
}

void Shard::tell_manager(const LearnerReport& report, Errc status) {
    wire::FrameHeader header = wire::header_of(Kind::kComplete);
    header.status = status;
    to_manager_.send(header, CompleteMessage{report.first, report.shard, report.named}.encode());
}

bool Shard::is_preparing() const noexcept {
    return std::ranges::any_of(followers_,
                               [](const auto& entry) { return entry.second->is_preparing(); });
}

void Shard::tell_applied(ConnectionId connection, Follower& follower) {
    std::optional<Follower::Progress> progress = follower.take_progress();
    if (!progress && follower.has_begun_record())
        progress = follower.take_sign_of_life(clock_.now_ns());
    if (!progress) return;
    wire::FrameHeader header = wire::header_of(Kind::kApplied);
    header.first = progress->applied;
    if (progress->taken > progress->applied) header.request = progress->taken;
    header.status = follower.refusal();
    outbox_.send(connection, header);
}

// Pushes and pulls while something moves.

/// Whether this shard is primary of all keys of a range that a request names. A worker that goes by
/// the view names no others. Of lists the table finds the rows of such keys only.
bool Shard::serves(const ShardTable& table, const Request& request) const {
    const wire::FrameHeader& h = request.header;
    const PositionSet& primary = holdings_.primary();
    if (h.count == 0 || holdings_.is_settled()) return true;
    if ((h.flags & wire::kKeysRange) == 0) return true;
    const KeyRange keys = range_of(request);
    if (!table.positions.is_dense() || keys.end > table.positions.key_count()) return false;
    if (primary.covers(
            {table.positions.position(keys.begin), table.positions.position(keys.end - 1)})) {
        return true;
    }
    uint64_t count = 0;  // no key may lie between two parts
    for (const KeyRange own : primary.dense_keys(table.positions.key_count()))
        count += intersect(own, keys).key_count();
    return count == keys.key_count();
}

/// Whether a push can be executed now: kOk, or kBusy if it must wait until streams have room, or
/// how it is answered.
Errc Shard::judge_push(const ShardTable& table, const Request& request) const {
    if (!serves(table, request)) return Errc::kOutOfRange;
    if (checkpoint_.is_frozen()) return Errc::kBusy;
    if (streams_.empty()) return Errc::kOk;
    if (!streams_.has_room()) return Errc::kBusy;
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysKnown) == 0) return Errc::kOk;
    const ListId id = known_list(request);
    const TouchedSegments* const touched = touched_.find(h.table, id, holdings_.segments());
    const bool is_recorded = touched != nullptr && streams_.knows(h.table, id, *touched);
    return is_recorded ? Errc::kOk : Errc::kUnknownList;
}

// Connections between shards.

/// A connection turns out to be the stream of another shard.
void Shard::follow(ConnectionId connection, const wire::Frame& frame) {
    const auto message = FollowMessage::decode(frame.values);
    if (!message || frame.header.first >= kNoShard)
        return refuse(connection, "a malformed beginning of a stream");
    const auto primary = static_cast<uint32_t>(frame.header.first);
    const auto pass = passes_of_shards_.find(primary);
    if (pass == passes_of_shards_.end() && message->epoch > view_.epoch()) {
        endpoint_->close(connection);  // its pass is on the way, and it comes again
        return closed(connection);
    }
    if (pass == passes_of_shards_.end() || pass->second != message->pass)
        return refuse(connection, "a stream in the name of a shard that it is not");
    bool names_us = false;
    for (size_t i = 0; i < view_.segments().size() && !names_us; ++i)
        names_us = is_named_for(primary, view_.range(i));
    // The view may have come early, for something that it takes from this shard: a backup follows the
    // old primary until the new one takes over.
    const bool goes_on = message->stream != 0 && view_.shard(primary) != nullptr;
    if (message->epoch <= view_.epoch() && !names_us && !goes_on)
        return refuse(connection, "a stream, though the view does not name it for that");
    if (followers_.size() > view_.shards().size())
        return refuse(connection, "one stream more than there are shards");
    for (const auto& [older, follower] : followers_) {
        if (follower->primary() != primary) continue;
        if (follower->number() >= message->number)
            return refuse(connection, "a stream that is older than the one that there is");
        const ConnectionId old = older;
        endpoint_->close(old);
        closed(old);
        break;
    }
    std::unique_ptr<Follower> follower;
    if (auto detached = detached_.extract(primary); !detached.empty())
        follower = std::move(detached.mapped());
    if (follower != nullptr && (message->stream == 0 || follower->stream() != message->stream ||
                                !follower->go_on_behind(message->behind, message->number))) {
        follower.reset();
    }
    if (follower == nullptr && message->behind != 0)
        return refuse(connection, "a stream that goes on behind what never came here");
    if (follower == nullptr) {
        follower = std::make_unique<Follower>(
            Follower::Ends{primary, options_.number, message->number, message->stream}, view_,
            holdings_, tables_, options_.change_bytes_max);
    }
    (void)sessions_.close(connection);
    followers_.emplace(connection, std::move(follower));
    look_at_moves();
}

void Shard::receive_from_shard(ConnectionId connection, const wire::Frame& frame) {
    std::string_view wrong;
    if (const auto found = followers_.find(connection); found != followers_.end()) {
        Follower& follower = *found->second;
        wrong = frame.header.kind == Kind::kRecord
                    ? follower.receive(frame, {*endpoint_, connection})
                    : "a frame that a stream does not have";
        if (follower.has_taken_push()) quiet_polls_ = 0;
        takes_chunks_ = !follower.has_taken_push();
    } else {
        wrong = streams_.receive(connection, frame.header);  // nothing, if it was closed
    }
    if (!wrong.empty()) refuse(connection, wrong);
}

/// Whether it was a connection to or from another shard.
bool Shard::closed_of_shard(ConnectionId connection, bool memory_in_doubt) {
    auto follower = followers_.extract(connection);
    const bool was_theirs = !follower.empty();
    if (was_theirs && follower.mapped()->stream() != 0) {
        const uint32_t primary = follower.mapped()->primary();
        // No more than there may be honest ones: each keeps what waits.
        if (detached_.contains(primary) || detached_.size() <= view_.shards().size())
            detached_[primary] = std::move(follower.mapped());
    }
    return streams_.closed(connection, memory_in_doubt) || was_theirs;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/replication.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/wire/messages.h"

namespace weir {

using wire::Kind;

namespace {

/// What streams may send in one poll: a push that has just missed it waits for so much. Of chunks, which the
/// learner has to take, too, less while there are pushes.
constexpr size_t kBytesPerPoll = size_t{32} << 10;
constexpr size_t kBytesBesideRequests = size_t{8} << 10;
constexpr uint64_t kStuckLookNs = 100 * kMillisecond;  // whether learners take what they are sent

}  // namespace

bool Replication::serves(const TableReplica& table, KeyRange keys) const {
    const PositionSet& primary = holdings_.primary();
    if (keys.empty() || holdings_.is_settled()) return true;
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

// Views.

void Replication::cut_off_the_gone(const View& next) {
    std::vector<std::pair<ConnectionId, std::string_view>> wrong;
    for (const auto& [connection, incoming] : incoming_) {
        if (const std::string_view why = incoming->finish_change(); !why.empty())
            wrong.emplace_back(connection, why);
    }
    for (const auto& [connection, why] : wrong)
        host_.refuse(connection, why);
    const auto is_gone = [&](uint32_t shard) {
        return shard < next.data().next_shard && next.shard(shard) == nullptr;
    };
    std::vector<ConnectionId> gone;
    for (const auto& [connection, incoming] : incoming_) {
        if (is_gone(incoming->primary())) gone.push_back(connection);
    }
    for (const ConnectionId connection : gone)
        host_.close(connection);
    for (const auto& [primary, incoming] : detached_) {
        if (is_gone(primary)) streams_.note_touched(incoming->touched());
    }
    std::erase_if(detached_, [&](const auto& entry) { return is_gone(entry.first); });
    std::erase_if(passes_, [&](const auto& entry) { return is_gone(entry.first); });
}

/// Whether this shard learns the segment from `primary`, or is its backup.
bool Replication::is_named_for(uint32_t primary, PositionRange range) const {
    const size_t i = view_.segment_index(range.first);
    const ViewSegment& segment = view_.segments()[i];
    return view_.range(i) == range && segment.primary == primary &&
           (segment.learner.shard == number_ || std::ranges::count(segment.backups, number_) > 0);
}

Status Replication::apply_roles(const View& next, bool is_first) {
    std::vector<PositionRange> primary;
    for (const uint32_t segment : next.segments_of(number_))
        primary.push_back(next.range(segment));
    if (is_first) {
        holdings_.begin(primary);
        return {};
    }
    WEIR_TRY(holdings_.set_primary(primary));
    // What was handed over before may have been given back; what was not is told again, for this view.
    using Role = Holdings::Role;
    const bool loses = !holdings_.in_role({Role::kLeaving, Role::kHandedOver}).ranges().empty();
    stopping_ = loses ? std::optional(next.epoch()) : std::nullopt;
    return {};
}

/// One that loses something has the view early. What the view gives it begins when it has stopped: others
/// take the beginning of it only when they have the view, and would keep what is leaving waiting behind
/// that.
/// What was handed over by an earlier view, which this one revises, waits for nothing any more. What was
/// leaving then waits for nothing that was added since: others may take that with this view only.
void Replication::follow_view() {
    holdings_.forget_unless(
        [&](PositionRange range) { return is_named_for(view_.owner(range.first), range); });
    PositionSet leaving = holdings_.in_role({Holdings::Role::kLeaving});
    if (!leaving.without(leaving_).ranges().empty()) streams_.mark();
    leaving_ = std::move(leaving);
    is_learning_ = std::ranges::any_of(view_.segments(), [&](const ViewSegment& segment) {
        return segment.has_learner() && segment.learner.shard == number_;
    });
    streams_.apply_view(view_, number_, stopping_ ? Streams::Begin::kLater : Streams::Begin::kNow);
    for (const auto& [connection, incoming] : incoming_)
        incoming->apply_view(number_);
    for (const auto& [primary, incoming] : detached_)
        incoming->apply_view(number_);
}

// What moves, in each poll while something does.

size_t Replication::poll() {
    size_t done = 0;
    std::vector<std::pair<ConnectionId, std::string_view>> wrong;
    for (const auto& [connection, incoming] : incoming_) {
        if (const std::string_view why = incoming->go_on(); !why.empty())
            wrong.emplace_back(connection, why);
        if (incoming->is_preparing()) ++done;
        tell_applied(connection, *incoming);
    }
    for (const auto& [connection, why] : wrong)
        host_.refuse(connection, why);
    done += streams_.send(kBytesPerPoll, Stream::What::kRecords);
    if (streams_.has_news()) {
        for (const LearnerReport& one : streams_.take_complete())
            report(one, Errc::kOk);
        for (const LearnerReport& one : streams_.take_refused())
            report(one, Errc::kNoMemory);
    }
    look_for_stuck_streams();
    return done;
}

size_t Replication::hand_over() {
    if (!stopping_ || !streams_.have_leavers_arrived()) return 0;
    wire::FrameHeader header = wire::header_of(Kind::kStopped);
    header.first = *std::exchange(stopping_, std::nullopt);
    host_.send_to_manager(header, {});
    holdings_.hand_over();
    streams_.apply_view(view_, number_);
    return 1;
}

size_t Replication::messages_per_poll(size_t most) noexcept {
    constexpr size_t kBesideRequests = 4;
    if (!is_quiet()) ++quiet_polls_;
    if (!is_learning_ || is_quiet()) return most;
    return std::exchange(receives_chunks_, false) ? 1 : kBesideRequests;
}

/// A push waits for the backups in sync, and its record there for the chunks before it.
Stream::What Replication::chunks_of_poll() const noexcept {
    const bool delay_pushes = !is_quiet() && streams_.has_in_sync();
    return delay_pushes ? Stream::What::kFewChunks : Stream::What::kChunks;
}

size_t Replication::work_behind() {
    size_t done = holdings_.drop_some() ? 1 : 0;
    if (streams_.has_chunks())
        done += streams_.send(is_quiet() ? kBytesPerPoll : kBytesBesideRequests, chunks_of_poll());
    return done;
}

uint64_t Replication::due_ns() const noexcept {
    const uint64_t due_ns = streams_.empty() ? ~uint64_t{0} : streams_.due_ns();
    const bool looks = options_.lease != nullptr && streams_.await_learners();
    return looks ? std::min(due_ns, clock_.now_ns() + kStuckLookNs) : due_ns;
}

/// Of two servers that do not reach each other the manager may hear all the time. Replies would wait for a
/// backup on the other one without end, so it is told: after more than a server is waited for that it
/// does not hear.
void Replication::look_for_stuck_streams() {
    constexpr uint64_t kLeases = 3;
    constexpr uint64_t kLooks = 8;
    if (options_.lease == nullptr || streams_.empty()) return;
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < next_stuck_look_ns_) return;
    const uint64_t most_ns = kLeases * options_.lease->length_ns();
    next_stuck_look_ns_ = now_ns + most_ns / kLooks;
    if (most_ns == 0) return;
    for (const LearnerReport& one : streams_.take_stuck(now_ns, most_ns))
        report(one, Errc::kPeerLost);
}

void Replication::report(const LearnerReport& report, Errc status) {
    wire::FrameHeader header = wire::header_of(Kind::kComplete);
    header.status = status;
    host_.send_to_manager(header,
                          CompleteMessage{report.first, report.shard, report.named}.encode());
}

bool Replication::is_preparing() const noexcept {
    return std::ranges::any_of(incoming_,
                               [](const auto& entry) { return entry.second->is_preparing(); });
}

void Replication::tell_applied(ConnectionId connection, IncomingStream& incoming) {
    std::optional<IncomingStream::Progress> progress = incoming.take_progress();
    if (!progress && incoming.has_begun_record())
        progress = incoming.take_sign_of_life(clock_.now_ns());
    if (!progress) return;
    wire::FrameHeader header = wire::header_of(Kind::kApplied);
    header.first = progress->applied;
    if (progress->accepted > progress->applied) header.request = progress->accepted;
    header.status = incoming.refusal();
    host_.send_to_shard(connection, header);
}

// Connections between shards.

/// What is wrong with a stream that this primary wants to send; empty: nothing.
std::string_view Replication::judge_follow(const FollowMessage& message, uint32_t primary) const {
    const auto pass = passes_.find(primary);
    if (pass == passes_.end() || pass->second != message.pass)
        return "a stream in the name of a shard that it is not";
    bool names_us = false;
    for (size_t i = 0; i < view_.segments().size() && !names_us; ++i)
        names_us = is_named_for(primary, view_.range(i));
    // The view may have come early, for something that it takes from this shard: a backup follows the
    // old primary until the new one takes over.
    const bool goes_on = message.stream != 0 && view_.shard(primary) != nullptr;
    if (message.epoch <= view_.epoch() && !names_us && !goes_on)
        return "a stream, though the view does not name it for that";
    if (incoming_.size() > view_.shards().size()) return "one stream more than there are shards";
    const auto older = std::ranges::find_if(incoming_, [&](const auto& entry) {
        return entry.second->primary() == primary && entry.second->number() >= message.number;
    });
    return older == incoming_.end() ? "" : "a stream that is older than the one that there is";
}

bool Replication::follow(ConnectionId connection, const wire::Frame& frame) {
    const auto refuse = [&](std::string_view why) {
        host_.refuse(connection, why);
        return false;
    };
    const auto message = FollowMessage::decode(frame.values);
    if (!message || frame.header.first >= kNoShard)
        return refuse("a malformed beginning of a stream");
    const auto primary = static_cast<uint32_t>(frame.header.first);
    if (!passes_.contains(primary) && message->epoch > view_.epoch()) {
        host_.close(connection);  // its pass is on the way, and it comes again
        return false;
    }
    if (const std::string_view wrong = judge_follow(*message, primary); !wrong.empty())
        return refuse(wrong);
    for (const auto& [older, incoming] : incoming_) {
        if (incoming->primary() != primary) continue;
        host_.close(ConnectionId{older});
        break;
    }
    std::unique_ptr<IncomingStream> incoming;
    if (auto detached = detached_.extract(primary); !detached.empty())
        incoming = std::move(detached.mapped());
    if (incoming != nullptr && (message->stream == 0 || incoming->stream() != message->stream ||
                                !incoming->go_on_behind(message->behind, message->number))) {
        incoming.reset();
    }
    if (incoming == nullptr && message->behind != 0)
        return refuse("a stream that goes on behind what never came here");
    if (incoming == nullptr) {
        incoming = std::make_unique<IncomingStream>(
            IncomingStream::Ends{primary, number_, message->number, message->stream}, view_,
            holdings_, tables_, options_.change_bytes_max);
    }
    incoming_.emplace(connection, std::move(incoming));
    return true;
}

void Replication::receive(ConnectionId connection, const wire::Frame& frame) {
    std::string_view wrong;
    if (const auto found = incoming_.find(connection); found != incoming_.end()) {
        IncomingStream& incoming = *found->second;
        wrong = frame.header.kind == Kind::kRecord
                    ? incoming.receive(frame, {endpoint_, connection})
                    : "a frame that a stream does not have";
        if (incoming.has_received_push()) quiet_polls_ = 0;
        receives_chunks_ = !incoming.has_received_push();
    } else {
        wrong = streams_.receive(connection, frame.header);  // nothing, if it was closed
    }
    if (!wrong.empty()) host_.refuse(connection, wrong);
}

bool Replication::closed(ConnectionId connection, bool memory_in_doubt) {
    auto incoming = incoming_.extract(connection);
    const bool was_theirs = !incoming.empty();
    if (was_theirs && incoming.mapped()->stream() != 0) {
        incoming.mapped()->finish_change();
        const uint32_t primary = incoming.mapped()->primary();
        // No more than there may be honest ones: each keeps what waits.
        if (detached_.contains(primary) || detached_.size() <= view_.shards().size())
            detached_[primary] = std::move(incoming.mapped());
    }
    return streams_.closed(connection, memory_in_doubt) || was_theirs;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/member_links.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "lib/base/log.h"
#include "lib/node/lease_line.h"
#include "lib/node/manager_link.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::Completion;
using transport::Event;
using transport::Post;
using transport::RemoteSpan;
using wire::Kind;

namespace {

/// Ids of links have it, those of connections do not.
constexpr uint64_t kLinkBit = uint64_t{1} << 63;
/// How long after the end of a process its connections may still bring what it had sent.
constexpr uint64_t kLastWordsNs = 100 * kMillisecond;

Completion completion_of(Event event, transport::ConnectionId connection) {
    Completion completion;
    completion.event = event;
    completion.connection = connection;
    return completion;
}

}  // namespace

uint64_t MemberLinks::silent_since_ns(ConnectionId connection) const {
    const auto link = links_.find(connection);
    if (link == links_.end()) return 0;
    const auto line = lines_.find(link->second.process);
    if (line == lines_.end()) return 0;
    if (line->second.connection == 0) return line->second.broken_ns;
    if (link->second.connection != 0) return 0;
    const uint64_t given_up_ns = link->second.broken_ns + ManagerLink::kGiveUpNs;
    return clock_.now_ns() > given_up_ns ? given_up_ns : 0;
}

bool MemberLinks::is_connected(ConnectionId connection) const {
    const auto link = links_.find(connection);
    return link == links_.end() || link->second.connection != 0;
}

uint64_t MemberLinks::process_of(ConnectionId connection) const {
    const auto link = links_.find(connection);
    return link == links_.end() ? 0 : link->second.process;
}

uint64_t MemberLinks::heard_ns(uint64_t process) const {
    const auto line = lines_.find(process);
    return line == lines_.end() ? ~uint64_t{0} : line->second.heard_ns;
}

uint64_t MemberLinks::lease_end_ns(uint64_t process) const {
    const auto line = lines_.find(process);
    return line == lines_.end() ? 0 : line->second.lease_end_ns;
}

void MemberLinks::refuse_leases(uint64_t process) {
    if (const auto line = lines_.find(process); line != lines_.end())
        line->second.is_refused = true;
}

size_t MemberLinks::poll(std::span<Completion> completions) {
    if (!ending_.empty()) end_late_ones();
    size_t count = 0;
    for (; count < completions.size() && !own_.empty(); ++count) {
        completions[count] = own_.front();
        own_.pop_front();
    }
    const std::span<Completion> rest = completions.subspan(count);
    const size_t found = inner_->poll(rest);
    for (size_t i = 0; i < found; ++i) {
        Completion completion = rest[i];
        if (translate(completion)) completions[count++] = completion;
    }
    for (const ConnectionId id : std::exchange(unposted_, {})) {
        if (const auto link = links_.find(id); link != links_.end()) post(id, link->second);
    }
    return count;
}

int MemberLinks::arm() {
    return own_.empty() && unposted_.empty() && ending_.empty() ? inner_->arm() : -1;
}

bool MemberLinks::translate(Completion& completion) {
    switch (completion.event) {
        case Event::kReceived: return receive(completion);
        case Event::kClosed: return closed(completion);
        default: return true;
    }
}

bool MemberLinks::receive(Completion& completion) {
    if (const auto found = by_connection_.find(completion.connection);
        found != by_connection_.end())
        return receive(found->second, links_.at(found->second), completion);
    wire::Frame frame;
    if (wire::decode(completion.message, frame) != Errc::kOk) return true;
    if (frame.header.kind == Kind::kLink) return begin(frame, completion);
    if (frame.header.kind == Kind::kLifeLine) return begin_line(frame, completion.connection);
    if (frame.header.kind == Kind::kLease) return give_lease(frame, completion.connection);
    return true;
}

/// A frame of a link. What is wrong with it, its reader says.
bool MemberLinks::receive(ConnectionId id, MemberLink& link, Completion& completion) {
    wire::Frame frame;
    const bool is_whole = wire::decode(completion.message, frame) == Errc::kOk;
    const Kind kind = is_whole ? frame.header.kind : Kind::kReply;
    completion.connection = id;
    if (kind == Kind::kTaken && link.link.note_taken(frame.header.first)) return false;
    if (kind == Kind::kLink && frame.header.status != Errc::kOk) {
        inner_->close(link.connection);
        end(id);
        return false;
    }
    link.link.take(completion.message.size());
    if (link.link.owes_count()) link.link.post_count(*inner_, link.connection);
    return true;
}

/// A link begins, or goes on over this connection.
bool MemberLinks::begin(const wire::Frame& frame, Completion& completion) {
    const auto message = LinkMessage::decode(frame.values);
    const ConnectionId connection = completion.connection;
    if (!message || lines_by_connection_.contains(connection)) return true;
    if (const auto known = by_identity_.find(message->link); known != by_identity_.end())
        return resume(known->second, frame, connection);
    if (frame.header.status != Errc::kOk || message->is_known || frame.header.first != 0 ||
        links_.size() >= kLinksMax) {
        refuse(connection);
        return false;
    }
    const ConnectionId id = kLinkBit | ++last_id_;
    MemberLink& link = links_[id];
    link.identity = message->link;
    link.process = message->process;
    link.connection = connection;
    link.number = frame.header.request;
    by_identity_[message->link] = id;
    by_connection_[connection] = id;
    answer(connection, link);
    own_.push_back(completion_of(Event::kClosed, connection));  // from now on it is the link's
    completion = completion_of(Event::kAccepted, id);
    return true;
}

bool MemberLinks::resume(ConnectionId id, const wire::Frame& frame, ConnectionId connection) {
    MemberLink& link = links_.at(id);
    if (frame.header.status == Errc::kOk && frame.header.request <= link.number) {
        inner_->close(connection);  // an older one, which comes late
        return false;
    }
    if (frame.header.status != Errc::kOk || !link.link.resume(frame.header.first)) {
        refuse(connection);
        if (link.connection != 0) inner_->close(link.connection);
        end(id);
        return false;
    }
    if (link.connection != 0) {
        by_connection_.erase(link.connection);
        inner_->close(link.connection);
    }
    link.number = frame.header.request;
    link.connection = connection;
    by_connection_[connection] = id;
    own_.push_back(completion_of(Event::kClosed, connection));  // from now on it is the link's
    answer(connection, link);
    post(id, link);
    log(LogLevel::kInfo, "manager: the connection to {} is whole again",
        inner_->peer_name(connection));
    return false;
}

/// Before anything else on this connection.
void MemberLinks::answer(ConnectionId connection, const MemberLink& link) {
    wire::FrameHeader header = wire::header_of(Kind::kLink);
    header.first = link.link.taken();
    const std::array parts{wire::bytes_of(header)};
    if (inner_->send(connection, parts) == Post::kNotNow) inner_->close(connection);
}

/// Of a link that was closed, or that cannot go on.
void MemberLinks::refuse(ConnectionId connection) {
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = Errc::kRefused;
    const std::vector<std::byte> body =
        encode_text("the job goes on without this process, which was out of reach for too long");
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    (void)inner_->send(connection, parts);
    inner_->close(connection);
}

bool MemberLinks::begin_line(const wire::Frame& frame, ConnectionId connection) {
    const uint64_t process = frame.header.first;
    const bool is_new = !lines_.contains(process);
    const bool is_second = lines_by_connection_.contains(connection);
    if (process == 0 || is_second || (is_new && lines_.size() >= kLinksMax)) return true;
    Line& line = lines_[process];
    if (frame.header.request <= line.number) {
        inner_->close(connection);  // an older one, which comes late
        return false;
    }
    if (line.connection != 0) {
        lines_by_connection_.erase(line.connection);
        inner_->close(line.connection);
    }
    line.connection = connection;
    line.number = frame.header.request;
    line.broken_ns = 0;
    line.heard_ns = clock_.now_ns();
    lines_by_connection_[connection] = process;
    const wire::FrameHeader header = wire::header_of(Kind::kLifeLine);
    const std::array parts{wire::bytes_of(header)};
    if (inner_->send(connection, parts) == Post::kNotNow) inner_->close(connection);
    return false;
}

/// A process asks for the lease of its servers. One without a life line could not be told dead.
bool MemberLinks::give_lease(const wire::Frame& frame, ConnectionId connection) {
    const auto line = lines_.find(frame.header.first);
    if (line == lines_.end()) return true;
    if (line->second.is_refused) return false;
    wire::FrameHeader header = wire::header_of(Kind::kLease);
    header.request = frame.header.request;
    header.first = lease_of_server_ns(lease_ns_);
    const std::array parts{wire::bytes_of(header)};
    line->second.heard_ns = clock_.now_ns();  // before the answer leaves
    line->second.lease_end_ns = line->second.heard_ns + lease_of_manager_ns(lease_ns_);
    if (inner_->send(connection, parts) == Post::kNotNow) inner_->close(connection);
    return false;
}

bool MemberLinks::closed(Completion& completion) {
    const ConnectionId connection = completion.connection;
    if (const auto line = lines_by_connection_.find(connection);
        line != lines_by_connection_.end()) {
        const uint64_t process = line->second;
        lines_by_connection_.erase(line);
        lines_[process].connection = 0;
        lines_[process].broken_ns = clock_.now_ns();
        if (completion.peer_ended) process_ended(process);
        return true;
    }
    const auto found = by_connection_.find(connection);
    if (found == by_connection_.end()) return true;
    const ConnectionId id = found->second;
    MemberLink& link = links_.at(id);
    by_connection_.erase(found);
    link.connection = 0;
    link.broken_ns = clock_.now_ns();
    unposted_.erase(id);
    if (link.end_ns != 0 || !lines_.contains(link.process)) end(id);
    return false;
}

/// Proved. Its connections may still bring what it had sent.
void MemberLinks::process_ended(uint64_t process) {
    lines_.erase(process);
    std::vector<ConnectionId> broken;
    for (auto& [id, link] : links_) {
        if (link.process != process) continue;
        if (link.connection == 0) {
            broken.push_back(id);
        } else {
            link.end_ns = clock_.now_ns() + kLastWordsNs;
            ending_.insert(id);
        }
    }
    std::ranges::sort(broken);
    for (const ConnectionId id : broken)
        end(id);
}

void MemberLinks::end_late_ones() {
    const uint64_t now_ns = clock_.now_ns();
    std::vector<ConnectionId> late;
    for (const ConnectionId id : ending_) {
        if (links_.at(id).end_ns <= now_ns) late.push_back(id);
    }
    for (const ConnectionId id : late) {
        inner_->close(links_.at(id).connection);
        end(id);
    }
}

/// The link is over: the caller sees it closed.
void MemberLinks::end(ConnectionId id) {
    const auto found = links_.find(id);
    by_identity_.erase(found->second.identity);
    if (found->second.connection != 0) by_connection_.erase(found->second.connection);
    links_.erase(found);
    unposted_.erase(id);
    ending_.erase(id);
    own_.push_back(completion_of(Event::kClosed, id));
}

void MemberLinks::post(ConnectionId id, MemberLink& link) {
    if (link.connection == 0) return;
    (void)link.link.post(*inner_, link.connection);
    if (link.link.has_unposted()) unposted_.insert(id);
}

Post MemberLinks::send(ConnectionId connection, std::span<const std::span<const std::byte>> parts) {
    if ((connection & kLinkBit) == 0) return inner_->send(connection, parts);
    const auto found = links_.find(connection);
    if (found == links_.end()) return Post::kClosed;
    const size_t kept_before = found->second.link.kept_bytes();
    found->second.link.add(parts);
    const size_t added_bytes = found->second.link.kept_bytes() - kept_before;
    post(connection, found->second);
    if (takes_too_little(found->second, added_bytes)) {
        log(LogLevel::kWarning,
            "manager: {} does not take what it is sent: more than {} MiB wait; it is closed",
            peer_name(connection), Link::kKeptBytesMax >> 20);
        close(connection);
    }
    return Post::kPosted;
}

/// Whether more is kept for the member than an honest one lets pile up. What is added while its link
/// is broken does not count: it cannot take that, and asks for nothing, so that there is only what
/// happens in the job (views, tables, workers that end). A server that is waited for must not be
/// ended for that.
bool MemberLinks::takes_too_little(MemberLink& link, size_t added_bytes) {
    if (link.connection == 0) {
        link.added_bytes += added_bytes;
        return false;
    }
    if (link.link.kept_bytes() <= Link::kKeptBytesMax) link.added_bytes = 0;
    return link.link.kept_bytes() > Link::kKeptBytesMax + link.added_bytes;
}

void MemberLinks::close(ConnectionId connection) {
    if ((connection & kLinkBit) == 0) return inner_->close(connection);
    const auto found = links_.find(connection);
    if (found == links_.end()) return;
    if (found->second.connection != 0) inner_->close(found->second.connection);
    end(connection);
}

std::string MemberLinks::peer_name(ConnectionId connection) const {
    const auto found = links_.find(connection);
    if (found == links_.end()) return inner_->peer_name(connection);
    return found->second.connection == 0 ? "a process that is out of reach"
                                         : inner_->peer_name(found->second.connection);
}

// A manager moves no memory.

Result<RemoteSpan> MemberLinks::expose(ConnectionId connection, std::span<const std::byte> memory) {
    return inner_->expose(connection, memory);
}

Post MemberLinks::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                       uint64_t context) {
    return inner_->read(connection, into, from, context);
}

Post MemberLinks::write(ConnectionId connection, std::span<const std::byte> from,
                        const RemoteSpan& to, uint64_t context) {
    return inner_->write(connection, from, to, context);
}

Post MemberLinks::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                  const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    return inner_->write_immediate(connection, from, to, immediate, context);
}

std::byte* MemberLinks::map(ConnectionId connection, const RemoteSpan& span,
                            transport::Access wanted) {
    return inner_->map(connection, span, wanted);
}

}  // namespace weir

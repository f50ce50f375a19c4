// SPDX-License-Identifier: Apache-2.0
#include "transport/multi/multi_endpoint.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "transport/address_parts.h"

namespace weir::transport {

namespace {

constexpr uint32_t kIndexBits = std::bit_width(kMultiChildrenMax - 1);

ConnectionId joined(ConnectionId inner, size_t index) {
    WEIR_CHECK(inner >> (64 - kIndexBits) == 0);
    return inner << kIndexBits | index;
}

/// Whether another transport may succeed where one has failed for this reason. A peer that says
/// no would say it again.
bool may_try_another(Errc reason) {
    return reason == Errc::kPeerLost || reason == Errc::kDeadline || reason == Errc::kUnavailable ||
           reason == Errc::kIo;
}

}  // namespace

Result<std::unique_ptr<MultiEndpoint>> MultiEndpoint::make(std::vector<Child> children) {
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) {
        return Error(Errc::kIo, "no descriptor to sleep on; raise the limit of open files", errno);
    }
    return std::unique_ptr<MultiEndpoint>(new MultiEndpoint(std::move(children), std::move(epoll)));
}

MultiEndpoint::Inner MultiEndpoint::inner_of(ConnectionId id) const {
    if (!current_.empty()) {
        if (const auto found = current_.find(id); found != current_.end()) id = found->second;
    }
    const size_t index = id & (kMultiChildrenMax - 1);
    if (index >= children_.size()) return {};
    return {children_[index].endpoint.get(), id >> kIndexBits};
}

std::string MultiEndpoint::address() const {
    std::string all;
    for (const Child& child : children_) {
        const std::string one = child.endpoint->address();
        WEIR_CHECK(one.find(';') == std::string::npos);
        all += (all.empty() ? "" : ";") + one;
    }
    return all;
}

Capabilities MultiEndpoint::capabilities() const {
    Capabilities all = children_.front().endpoint->capabilities();
    for (const Child& child : children_) {
        const Capabilities one = child.endpoint->capabilities();
        all.maps_memory = all.maps_memory && one.maps_memory;
        all.reaches_other_hosts = all.reaches_other_hosts || one.reaches_other_hosts;
        all.message_bytes_max = std::min(all.message_bytes_max, one.message_bytes_max);
        all.operations_max = std::min(all.operations_max, one.operations_max);
        all.flush_is_a_call = all.flush_is_a_call || one.flush_is_a_call;
        all.copied_bytes_max = std::min(all.copied_bytes_max, one.copied_bytes_max);
    }
    return all;
}

Capabilities MultiEndpoint::capabilities_of(ConnectionId connection) const {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? capabilities() : inner.child->capabilities_of(inner.connection);
}

/// The ways to a peer, the best one last.
std::vector<MultiEndpoint::Way> MultiEndpoint::ways_to(std::string_view address) const {
    std::vector<Way> ways;
    for (size_t i = 0; i < children_.size(); ++i) {
        const std::string_view name = children_[i].name;
        for (std::string_view rest = address; !rest.empty();) {
            const std::string_view part = take_part(rest);
            if (!part.starts_with(name) || !part.substr(name.size()).starts_with(':')) continue;
            ways.push_back({i, std::string(part)});
        }
    }
    std::reverse(ways.begin(), ways.end());
    return ways;
}

Result<ConnectionId> MultiEndpoint::connect(std::string_view address) {
    Errc code = Errc::kUnavailable;
    std::vector<std::string> reasons(children_.size(), "the peer does not offer it");
    for (std::vector<Way> ways = ways_to(address); !ways.empty();) {
        const Way way = std::move(ways.back());
        ways.pop_back();
        const auto begun = children_[way.child].endpoint->connect(way.address);
        if (begun) {
            const ConnectionId id = joined(*begun, way.child);
            if (!ways.empty()) attempts_[id] = {id, std::move(ways)};
            return id;
        }
        // An error other than kUnavailable ("not my address") tells more.
        if (code == Errc::kUnavailable) code = begun.code();
        reasons[way.child] = begun.error().message();
    }
    std::string text = "no transport reaches \"" + std::string(address.substr(0, 200)) + "\"";
    for (size_t i = 0; i < children_.size(); ++i) {
        text += (i == 0 ? ": " : "; ") + std::string(children_[i].name) + ": " + reasons[i];
    }
    return Error(code, text);
}

bool MultiEndpoint::translate(Completion& completion, size_t child) {
    const ConnectionId current = joined(completion.connection, child);
    completion.connection = current;
    const bool is_closed = completion.event == Event::kClosed;
    if (!attempts_.empty() && (is_closed || completion.event == Event::kConnected)) {
        if (auto found = attempts_.extract(current)) {
            // What has ended no other transport reaches; it would only log that it does not.
            if (is_closed && !completion.peer_ended && may_try_another(completion.status) &&
                try_another(std::move(found.mapped()))) {
                first_ids_.erase(current);
                return false;
            }
        }
    }
    if (first_ids_.empty()) return true;
    if (const auto found = first_ids_.find(current); found != first_ids_.end()) {
        completion.connection = found->second;
        if (is_closed) {
            current_.erase(found->second);
            first_ids_.erase(found);
        }
    }
    return true;
}

bool MultiEndpoint::try_another(Attempt attempt) {
    while (!attempt.ways.empty()) {
        const Way way = std::move(attempt.ways.back());
        attempt.ways.pop_back();
        const auto begun = children_[way.child].endpoint->connect(way.address);
        if (!begun) continue;
        const ConnectionId current = joined(*begun, way.child);
        current_[attempt.id] = current;
        first_ids_[current] = attempt.id;
        attempts_[current] = std::move(attempt);
        return true;
    }
    return false;
}

/// A child may have found that its way fails, and say so only after the caller has closed.
void MultiEndpoint::forget_other_ways(ConnectionId connection) {
    if (attempts_.empty()) return;
    const auto current = current_.find(connection);
    attempts_.erase(current == current_.end() ? connection : current->second);
}

void MultiEndpoint::close(ConnectionId connection) {
    const Inner inner = inner_of(connection);
    if (inner.child == nullptr) return;
    forget_other_ways(connection);
    inner.child->close(inner.connection);
}

void MultiEndpoint::cut_off(ConnectionId connection) {
    const Inner inner = inner_of(connection);
    if (inner.child == nullptr) return;
    forget_other_ways(connection);
    inner.child->cut_off(inner.connection);
}

Post MultiEndpoint::send(ConnectionId connection,
                         std::span<const std::span<const std::byte>> parts) {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? Post::kClosed : inner.child->send(inner.connection, parts);
}

Result<RemoteSpan> MultiEndpoint::expose(ConnectionId connection,
                                         std::span<const std::byte> memory) {
    const Inner inner = inner_of(connection);
    if (inner.child == nullptr) return Error(Errc::kPeerLost, "the connection is closed");
    return inner.child->expose(inner.connection, memory);
}

Post MultiEndpoint::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                         uint64_t context) {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? Post::kClosed
                                  : inner.child->read(inner.connection, into, from, context);
}

Post MultiEndpoint::write(ConnectionId connection, std::span<const std::byte> from,
                          const RemoteSpan& to, uint64_t context) {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? Post::kClosed
                                  : inner.child->write(inner.connection, from, to, context);
}

Post MultiEndpoint::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                    const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    const Inner inner = inner_of(connection);
    if (inner.child == nullptr) return Post::kClosed;
    return inner.child->write_immediate(inner.connection, from, to, immediate, context);
}

std::byte* MultiEndpoint::map(ConnectionId connection, const RemoteSpan& span, Access wanted) {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? nullptr : inner.child->map(inner.connection, span, wanted);
}

void MultiEndpoint::flush() {
    for (const Child& child : children_)
        child.endpoint->flush();
}

size_t MultiEndpoint::poll(std::span<Completion> completions) {
    // Each poll begins with another child, so that one child that always fills the span cannot
    // starve the others. Every child is polled, even with an empty span: that flushes, and frees
    // delivered messages.
    size_t count = 0;
    size_t index = first_;
    for (size_t turn = 0; turn < children_.size(); ++turn) {
        const size_t found = children_[index].endpoint->poll(completions.subspan(count));
        const std::span<Completion> from_child = completions.subspan(count, found);
        for (size_t i = 0; i < found; ++i) {
            Completion completion = from_child[i];
            if (translate(completion, index)) completions[count++] = completion;
        }
        if (++index == children_.size()) index = 0;
    }
    if (++first_ == children_.size()) first_ = 0;
    return count;
}

int MultiEndpoint::arm() {
    for (size_t i = 0; i < children_.size(); ++i) {
        const int fd = children_[i].endpoint->arm();
        if (fd < 0) return -1;
        if (watched_[i] == fd) continue;
        epoll_event event{};
        event.events = EPOLLIN;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return -1;
        watched_[i] = fd;
    }
    return epoll_.get();
}

std::string MultiEndpoint::peer_name(ConnectionId connection) const {
    const Inner inner = inner_of(connection);
    return inner.child == nullptr ? "a closed connection"
                                  : inner.child->peer_name(inner.connection);
}

const EndpointCounters& MultiEndpoint::counters() const noexcept {
    counters_ = {};
    for (const Child& child : children_) {
        const EndpointCounters& one = child.endpoint->counters();
        counters_.messages_sent += one.messages_sent;
        counters_.messages_received += one.messages_received;
        counters_.bytes_sent += one.bytes_sent;
        counters_.bytes_received += one.bytes_received;
        counters_.reads += one.reads;
        counters_.writes += one.writes;
        counters_.bytes_staged += one.bytes_staged;
        counters_.doorbells += one.doorbells;
        counters_.refused += one.refused;
    }
    return counters_;
}

}  // namespace weir::transport

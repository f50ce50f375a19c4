// SPDX-License-Identifier: Apache-2.0
#include "transport/multi/multi_endpoint.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/check.h"

namespace weir::transport {

namespace {

constexpr uint32_t kIndexBits = std::bit_width(kMultiChildrenMax - 1);

ConnectionId joined(ConnectionId inner, size_t index) {
    WEIR_CHECK(inner >> (64 - kIndexBits) == 0);
    return inner << kIndexBits | index;
}

ConnectionId inner(ConnectionId connection) {
    return connection >> kIndexBits;
}

size_t index_of(ConnectionId connection) {
    return connection & (kMultiChildrenMax - 1);
}

/// Removes the part before the next ';' from the front of `text` and returns it.
std::string_view take_part(std::string_view& text) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
}

}  // namespace

Result<std::unique_ptr<MultiEndpoint>> MultiEndpoint::make(std::vector<Child> children) {
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) {
        return Error(Errc::kIo, "no descriptor to sleep on; raise the limit of open files", errno);
    }
    return std::unique_ptr<MultiEndpoint>(new MultiEndpoint(std::move(children), std::move(epoll)));
}

Endpoint* MultiEndpoint::child_of(ConnectionId connection) const {
    const size_t index = index_of(connection);
    return index < children_.size() ? children_[index].endpoint.get() : nullptr;
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
    }
    return all;
}

Capabilities MultiEndpoint::capabilities_of(ConnectionId connection) const {
    const Endpoint* const child = child_of(connection);
    return child == nullptr ? capabilities() : child->capabilities_of(inner(connection));
}

Result<ConnectionId> MultiEndpoint::connect(std::string_view address) {
    Errc code = Errc::kUnavailable;
    std::string reasons;
    for (size_t i = 0; i < children_.size(); ++i) {
        const std::string_view name = children_[i].name;
        std::string reason;
        for (std::string_view rest = address; !rest.empty();) {
            const std::string_view part = take_part(rest);
            if (!part.starts_with(name) || !part.substr(name.size()).starts_with(':')) continue;
            const auto begun = children_[i].endpoint->connect(part);
            if (begun) return joined(*begun, i);
            // An error other than kUnavailable ("not my address") tells more.
            if (code == Errc::kUnavailable) code = begun.code();
            reason = begun.error().message();
        }
        if (reason.empty()) reason = "the peer does not offer it";
        reasons += std::string(i == 0 ? "" : "; ") + std::string(name) + ": " + reason;
    }
    return Error(
        code, "no transport reaches \"" + std::string(address.substr(0, 200)) + "\": " + reasons);
}

void MultiEndpoint::close(ConnectionId connection) {
    if (Endpoint* const child = child_of(connection)) child->close(inner(connection));
}

Post MultiEndpoint::send(ConnectionId connection,
                         std::span<const std::span<const std::byte>> parts) {
    Endpoint* const child = child_of(connection);
    return child == nullptr ? Post::kClosed : child->send(inner(connection), parts);
}

Result<RemoteSpan> MultiEndpoint::expose(ConnectionId connection,
                                         std::span<const std::byte> memory) {
    Endpoint* const child = child_of(connection);
    if (child == nullptr) return Error(Errc::kPeerLost, "the connection is closed");
    return child->expose(inner(connection), memory);
}

Post MultiEndpoint::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                         uint64_t context) {
    Endpoint* const child = child_of(connection);
    return child == nullptr ? Post::kClosed : child->read(inner(connection), into, from, context);
}

Post MultiEndpoint::write(ConnectionId connection, std::span<const std::byte> from,
                          const RemoteSpan& to, uint64_t context) {
    Endpoint* const child = child_of(connection);
    return child == nullptr ? Post::kClosed : child->write(inner(connection), from, to, context);
}

Post MultiEndpoint::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                    const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    Endpoint* const child = child_of(connection);
    return child == nullptr
               ? Post::kClosed
               : child->write_immediate(inner(connection), from, to, immediate, context);
}

std::byte* MultiEndpoint::map(ConnectionId connection, const RemoteSpan& span, Access wanted) {
    Endpoint* const child = child_of(connection);
    return child == nullptr ? nullptr : child->map(inner(connection), span, wanted);
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
        for (Completion& completion : completions.subspan(count, found)) {
            completion.connection = joined(completion.connection, index);
        }
        count += found;
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
    const Endpoint* const child = child_of(connection);
    return child == nullptr ? "a closed connection" : child->peer_name(inner(connection));
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

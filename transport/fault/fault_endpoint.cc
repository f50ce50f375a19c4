// SPDX-License-Identifier: Apache-2.0
#include "transport/fault/fault_endpoint.h"

#include <algorithm>

namespace weir::transport {

bool FaultEndpoint::is_broken(ConnectionId connection) const {
    const auto found = connections_.find(connection);
    return found != connections_.end() && found->second == Health::kBroken;
}

Result<ConnectionId> FaultEndpoint::connect(std::string_view address) {
    Result<ConnectionId> connection = inner_->connect(address);
    if (connection && address == faults_->spared_address) spared_.insert(*connection);
    return connection;
}

Post FaultEndpoint::interfere(ConnectionId connection) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return Post::kPosted;  // the inner endpoint answers
    if (found->second == Health::kBroken) return Post::kClosed;
    if (spared_.contains(connection)) return Post::kPosted;
    Faults& faults = *faults_;
    if (faults.broken > 0 && faults.random.uniform() < faults.broken) {
        ++faults.broken_count;
        found->second = Health::kBroken;
        inner_->close(connection);
        return Post::kClosed;
    }
    if (faults.not_now > 0 && faults.random.uniform() < faults.not_now) {
        ++faults.not_now_count;
        return Post::kNotNow;
    }
    return Post::kPosted;
}

Post FaultEndpoint::send(ConnectionId connection,
                         std::span<const std::span<const std::byte>> parts) {
    const Post instead = interfere(connection);
    return instead == Post::kPosted ? inner_->send(connection, parts) : instead;
}

Result<RemoteSpan> FaultEndpoint::expose(ConnectionId connection,
                                         std::span<const std::byte> memory) {
    if (is_broken(connection)) return Error(Errc::kPeerLost, "broken by fault injection");
    return inner_->expose(connection, memory);
}

Post FaultEndpoint::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                         uint64_t context) {
    const Post instead = interfere(connection);
    return instead == Post::kPosted ? inner_->read(connection, into, from, context) : instead;
}

Post FaultEndpoint::write(ConnectionId connection, std::span<const std::byte> from,
                          const RemoteSpan& to, uint64_t context) {
    const Post instead = interfere(connection);
    return instead == Post::kPosted ? inner_->write(connection, from, to, context) : instead;
}

Post FaultEndpoint::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                    const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    const Post instead = interfere(connection);
    return instead == Post::kPosted
               ? inner_->write_immediate(connection, from, to, immediate, context)
               : instead;
}

std::byte* FaultEndpoint::map(ConnectionId connection, const RemoteSpan& span, Access wanted) {
    return is_broken(connection) ? nullptr : inner_->map(connection, span, wanted);
}

size_t FaultEndpoint::poll(std::span<Completion> completions) {
    ++polls_;
    lent_.clear();
    take_in();
    size_t count = 0;
    while (count < completions.size() && !held_.empty() && held_.front().at_poll <= polls_) {
        lent_.push_back(std::move(held_.front()));
        held_.pop_front();
        completions[count] = lent_.back().completion;
        completions[count].message = lent_.back().message;
        ++count;
    }
    return count;
}

void FaultEndpoint::take_in() {
    const size_t count = inner_->poll(fresh_);
    for (size_t i = 0; i < count; ++i)
        take_in(fresh_[i]);
}

void FaultEndpoint::take_in(const Completion& completion) {
    Held held;
    held.completion = completion;
    held.message.assign(completion.message.begin(), completion.message.end());
    const bool broken = is_broken(completion.connection);
    switch (completion.event) {
        case Event::kConnected:
        case Event::kAccepted: connections_[completion.connection] = Health::kWell; break;
        case Event::kReceived:
        case Event::kImmediate:
            if (broken) return;
            break;
        case Event::kRead:
        case Event::kWritten:
            if (broken) held.completion.status = Errc::kPeerLost;
            break;
        case Event::kClosed:
            if (broken) held.completion.status = Errc::kPeerLost;
            connections_.erase(completion.connection);
            spared_.erase(completion.connection);
            break;
    }
    Faults& faults = *faults_;
    if (!held.message.empty() && faults.corrupted > 0 &&
        faults.random.uniform() < faults.corrupted) {
        ++faults.corrupted_count;
        const uint64_t bit = faults.random.below(held.message.size() * 8);
        held.message[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
    // Completions keep their order: each is held at least as long as the one before.
    const uint64_t delay = faults.random.below(uint64_t{faults.delay_polls_max} + 1);
    held.at_poll = std::max(polls_ + delay, held_.empty() ? 0 : held_.back().at_poll);
    held_.push_back(std::move(held));
}

int FaultEndpoint::arm() {
    return held_.empty() ? inner_->arm() : -1;
}

}  // namespace weir::transport

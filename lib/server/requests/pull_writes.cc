// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/pull_writes.h"

#include <utility>

#include "lib/base/check.h"
#include "lib/base/log.h"

namespace weir {

using transport::Post;

void PullWrites::add(const PullWrite& write) {
    const uint64_t id = next_id_++;
    writes_.emplace(id, write);
    if (waiting_.empty() && post(id)) return;
    waiting_.push_back(id);
}

bool PullWrites::post(uint64_t id) {
    PullWrite& write = writes_.at(id);
    const bool from_rows = write.buffer.empty();
    std::span<const std::byte> from = write.buffer;
    if (from_rows) {
        if (write.table->pins.has_waiting()) return false;
        const auto values = write.table->rows->values(write.keys);
        WEIR_CHECK(values.has_value());
        from = *values;
        write.shown = write.table->iterations.state().last_closed();
    }
    switch (post_values(id, from)) {
        case Post::kPosted:
            if (from_rows) write.table->pins.pin(id, write.keys);
            return true;
        case Post::kNotNow: return false;
        case Post::kInvalid:
            log(LogLevel::kError,
                "the transport refuses to write {} bytes of a pull to {}; this is a bug of weir",
                from.size(), endpoint_.peer_name(write.connection));
            end(id, Errc::kInvalidArgument);
            return true;
        case Post::kClosed: break;
    }
    end(id, Errc::kPeerLost);
    return true;
}

Post PullWrites::post_values(uint64_t id, std::span<const std::byte> from) {
    const PullWrite& write = writes_.at(id);
    if (write.is_replied) return endpoint_.write(write.connection, from, write.to, id);
    return endpoint_.write_immediate(write.connection, from, write.to,
                                     static_cast<uint32_t>(write.request), id);
}

size_t PullWrites::post_waiting() {
    size_t posted = 0;
    // A write that has to wait must not hold up the others.
    for (size_t i = waiting_.size(); i > 0; --i) {
        const uint64_t id = waiting_.front();
        waiting_.pop_front();
        if (post(id)) {
            ++posted;
        } else {
            waiting_.push_back(id);
        }
    }
    return posted;
}

void PullWrites::want_replies() noexcept {
    for (const uint64_t id : waiting_)
        writes_.at(id).is_replied = true;
}

void PullWrites::forget(transport::ConnectionId connection) {
    for (const uint64_t id : std::exchange(waiting_, {})) {
        if (writes_.at(id).connection == connection) {
            end(id, Errc::kPeerLost);
        } else {
            waiting_.push_back(id);
        }
    }
}

void PullWrites::forget(const PositionSet& positions) {
    for (const uint64_t id : std::exchange(waiting_, {})) {
        const PullWrite& write = writes_.at(id);
        const PositionMap& map = write.table->positions;
        const bool is_of_rows = write.buffer.empty() && !write.keys.empty();
        const PositionRange range = is_of_rows ? PositionRange{map.position(write.keys.begin),
                                                               map.position(write.keys.end - 1)}
                                               : PositionRange{};
        if (is_of_rows && positions.intersects(PositionSet(std::span(&range, 1)))) {
            end(id, Errc::kStaleEpoch);
        } else {
            waiting_.push_back(id);
        }
    }
}

void PullWrites::forget(const ShardTable& table) {
    for (const uint64_t id : std::exchange(waiting_, {})) {
        if (writes_.at(id).table == &table) {
            end(id, Errc::kNotFound);
        } else {
            waiting_.push_back(id);
        }
    }
}

bool PullWrites::uses(const ShardTable& table) const noexcept {
    return std::ranges::any_of(writes_,
                               [&](const auto& entry) { return entry.second.table == &table; });
}

void PullWrites::end(uint64_t id, Errc status) {
    const auto found = writes_.find(id);
    if (found == writes_.end()) return;
    const PullWrite write = found->second;
    writes_.erase(found);
    ended_.push_back({write, status, write.table->pins.unpin(id)});
}

std::optional<PullWrites::Ended> PullWrites::next_ended() {
    if (ended_.empty()) return std::nullopt;
    const Ended ended = ended_.front();
    ended_.pop_front();
    return ended;
}

}  // namespace weir

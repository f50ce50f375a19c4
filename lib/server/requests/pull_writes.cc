// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/pull_writes.h"

#include <utility>

#include "lib/base/check.h"
#include "lib/base/log.h"

namespace weir {

using transport::Post;

void PullWrites::add(KeptRequest& pull) {
    if (waiting_.empty() && post(pull)) return;
    waiting_.push_back(pull.slot);
}

bool PullWrites::post(KeptRequest& pull) {
    ShardTable& table = *pull.writing.table;
    const bool from_rows = pull.room.empty();
    std::span<const std::byte> from = pull.room;
    if (from_rows) {
        if (table.pins.has_waiting()) return false;
        const auto values = table.rows->values(range_of(pull));
        WEIR_CHECK(values.has_value());
        from = *values;
        pull.writing.shown = table.iterations.state().last_closed();
    }
    switch (post_values(pull, from)) {
        case Post::kPosted:
            if (from_rows) table.pins.pin(pull.slot, range_of(pull));
            return true;
        case Post::kNotNow: return false;
        case Post::kInvalid:
            log(LogLevel::kError,
                "the transport refuses to write {} bytes of a pull to {}; this is a bug of weir",
                from.size(), endpoint_.peer_name(pull.connection));
            end(pull, Errc::kInvalidArgument);
            return true;
        case Post::kClosed: break;
    }
    end(pull, Errc::kPeerLost);
    return true;
}

Post PullWrites::post_values(const KeptRequest& pull, std::span<const std::byte> from) {
    const wire::MemoryHandle& at = pull.values_at;
    const transport::RemoteSpan to{at.address, at.length_bytes, at.key};
    if (pull.writing.is_replied) return endpoint_.write(pull.connection, from, to, pull.slot);
    return endpoint_.write_immediate(pull.connection, from, to,
                                     static_cast<uint32_t>(pull.header.request), pull.slot);
}

size_t PullWrites::post_waiting() {
    size_t posted = 0;
    // A write that has to wait must not hold up the others.
    for (size_t i = waiting_.size(); i > 0; --i) {
        const uint32_t slot = waiting_.front();
        waiting_.pop_front();
        if (post(requests_[slot])) {
            ++posted;
        } else {
            waiting_.push_back(slot);
        }
    }
    return posted;
}

void PullWrites::want_replies() noexcept {
    for (const uint32_t slot : waiting_)
        requests_[slot].writing.is_replied = true;
}

template <class IsOver>
void PullWrites::end_queued(IsOver&& is_over, Errc status) {
    std::erase_if(waiting_, [&](uint32_t slot) {
        KeptRequest& pull = requests_[slot];
        if (!is_over(pull)) return false;
        end(pull, status);
        return true;
    });
}

void PullWrites::forget(transport::ConnectionId connection) {
    end_queued([&](const KeptRequest& pull) { return pull.connection == connection; },
               Errc::kPeerLost);
}

void PullWrites::forget(const PositionSet& positions) {
    const auto has_some = [&](const KeptRequest& pull) {
        if (!pull.room.empty()) return false;
        const PositionMap& map = pull.writing.table->positions;
        const KeyRange keys = range_of(pull);
        const PositionRange range{map.position(keys.begin), map.position(keys.end - 1)};
        return positions.intersects(PositionSet(std::span(&range, 1)));
    };
    end_queued(has_some, Errc::kStaleEpoch);
}

void PullWrites::forget(const ShardTable& table) {
    end_queued([&](const KeptRequest& pull) { return pull.writing.table == &table; },
               Errc::kNotFound);
}

void PullWrites::end(uint64_t context, Errc status) {
    KeptRequest* const pull = requests_.find(context, Wait::kWrite);
    if (pull != nullptr) end(*pull, status);
}

void PullWrites::end(KeptRequest& pull, Errc status) {
    ended_.push_back({&pull, status, pull.writing.table->pins.unpin(pull.slot)});
}

std::optional<PullWrites::Ended> PullWrites::next_ended() {
    if (ended_.empty()) return std::nullopt;
    const Ended ended = ended_.front();
    ended_.pop_front();
    return ended;
}

}  // namespace weir

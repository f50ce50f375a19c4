// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/fetcher.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kShares = 4;  ///< a connection gets at most 1 / kShares of the memory

size_t aligned(size_t bytes) noexcept {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

bool reads_values(const wire::FrameHeader& header) noexcept {
    return header.kind == wire::Kind::kPush && (header.flags & wire::kValuesRemote) != 0;
}

bool reads_keys(const wire::FrameHeader& header) noexcept {
    return (header.flags & wire::kKeysRemote) != 0;
}

}  // namespace

size_t Fetcher::free_slot() {
    if (free_slots_.empty()) {
        slots_.emplace_back();
        return slots_.size() - 1;
    }
    const size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
}

void Fetcher::add(transport::ConnectionId connection, const wire::Frame& frame) {
    const size_t slot = free_slot();
    Fetch& fetch = slots_[slot];
    fetch.connection = connection;
    fetch.header = frame.header;
    fetch.keys_at = frame.keys_at;
    fetch.values_at = frame.values_at;
    fetch.ends = frame.ends;
    fetch.number = frame.number;
    fetch.carried.assign(frame.keys.begin(), frame.keys.end());
    fetch.carried.insert(fetch.carried.end(), frame.values.begin(), frame.values.end());
    fetch.carried_keys_bytes = frame.keys.size();
    fetch.values_offset = reads_keys(frame.header) ? aligned(frame.keys_at.length_bytes) : 0;
    fetch.memory_bytes = fetch.values_offset + frame.values_at.length_bytes;
    Line& line = lines_[connection];
    if (line.waiting.empty()) turns_.push_back(connection);
    line.waiting.push_back(slot);
}

size_t Fetcher::start() {
    size_t started = 0;
    for (size_t idle = 0; idle < turns_.size();) {
        const transport::ConnectionId connection = turns_.front();
        Line& line = lines_.at(connection);
        const Outcome outcome = start_first(line);
        if (outcome == Outcome::kNoMemory) return started + post_with_memory();
        turns_.pop_front();
        ++idle;
        if (outcome == Outcome::kDone) {
            ++started;
            idle = 0;
        }
        if (!line.waiting.empty()) turns_.push_back(connection);
    }
    return started;
}

/// The first connection keeps its turn until there is memory for it. Those that have some already
/// go on: they give it back in the end.
size_t Fetcher::post_with_memory() {
    size_t started = 0;
    std::erase_if(turns_, [&](transport::ConnectionId connection) {
        Line& line = lines_.at(connection);
        if (!slots_[line.waiting.front()].memory || start_first(line) != Outcome::kDone)
            return false;
        ++started;
        return line.waiting.empty();
    });
    return started;
}

Fetcher::Outcome Fetcher::start_first(Line& line) {
    const size_t slot = line.waiting.front();
    const Outcome outcome = start(slot, line);
    if (outcome != Outcome::kDone) return outcome;
    slots_[slot].posted = true;
    if (slots_[slot].reads_open == 0) ready_.push_back(slot);
    line.waiting.pop_front();
    return outcome;
}

Fetcher::Outcome Fetcher::start(size_t slot, Line& line) {
    Fetch& fetch = slots_[slot];
    if (fetch.status != Errc::kOk) return Outcome::kDone;  // an earlier read failed
    if (!fetch.memory && fetch.memory_bytes > 0) {
        const Outcome outcome = get_memory(fetch, line);
        if (outcome != Outcome::kDone || !fetch.memory) return outcome;
    }
    return post(slot);
}

Fetcher::Outcome Fetcher::get_memory(Fetch& fetch, Line& line) {
    const size_t bytes = fetch.memory_bytes;
    // A connection's only request is served however large it is: the wire format limits it.
    if (line.used_bytes > 0 && line.used_bytes + bytes > limit_bytes_ / kShares) {
        return Outcome::kNotNow;
    }
    if (used_bytes_ > 0 && used_bytes_ + bytes > limit_bytes_) return Outcome::kNoMemory;
    fetch.memory = spares_.take(bytes, limit_bytes_ - std::min(limit_bytes_, used_bytes_ + bytes));
    if (!fetch.memory) {
        if (used_bytes_ > 0) return Outcome::kNoMemory;
        fetch.status = Errc::kNoMemory;  // no other request will give memory back
        return Outcome::kDone;
    }
    used_bytes_ += fetch.memory.bytes();
    line.used_bytes += fetch.memory.bytes();
    return Outcome::kDone;
}

Fetcher::Outcome Fetcher::post(size_t slot) {
    Fetch& fetch = slots_[slot];
    if (!fetch.keys_posted && reads_keys(fetch.header)) {
        const Outcome outcome = read(slot, 0, fetch.keys_at);
        if (outcome != Outcome::kDone || fetch.status != Errc::kOk) return outcome;
        fetch.keys_posted = true;
    }
    return reads_values(fetch.header) ? read(slot, fetch.values_offset, fetch.values_at)
                                      : Outcome::kDone;
}

Fetcher::Outcome Fetcher::read(size_t slot, size_t offset, const wire::MemoryHandle& from) {
    if (from.length_bytes == 0) return Outcome::kDone;
    Fetch& fetch = slots_[slot];
    const std::span<std::byte> into(fetch.memory.data() + offset, from.length_bytes);
    switch (
        endpoint_.read(fetch.connection, into, {from.address, from.length_bytes, from.key}, slot)) {
        case transport::Post::kPosted: ++fetch.reads_open; return Outcome::kDone;
        case transport::Post::kNotNow: return Outcome::kNotNow;
        case transport::Post::kClosed:
        case transport::Post::kInvalid: break;
    }
    fetch.status = Errc::kPeerLost;
    return Outcome::kDone;
}

void Fetcher::ended(uint64_t context, Errc status) {
    if (context >= slots_.size() || slots_[context].reads_open == 0) return;
    Fetch& fetch = slots_[context];
    --fetch.reads_open;
    if (status != Errc::kOk) fetch.status = status;
    // If not all reads are posted yet, start() sees that one of them has failed.
    if (fetch.reads_open == 0 && fetch.posted) ready_.push_back(context);
}

std::optional<Fetched> Fetcher::next() {
    if (ready_.empty()) return std::nullopt;
    WEIR_CHECK(!returned_);
    returned_ = ready_.front();
    ready_.pop_front();
    const Fetch& fetch = slots_[*returned_];
    Fetched fetched;
    fetched.connection = fetch.connection;
    fetched.header = fetch.header;
    fetched.values_at = fetch.values_at;
    fetched.ends = fetch.ends;
    fetched.number = fetch.number;
    fetched.status = fetch.status;
    const std::span carried(fetch.carried);
    fetched.carried_bytes = carried.size();
    fetched.keys = carried.first(fetch.carried_keys_bytes);
    fetched.values = carried.subspan(fetch.carried_keys_bytes);
    if (!fetch.memory) return fetched;
    if (reads_keys(fetch.header)) fetched.keys = {fetch.memory.data(), fetch.keys_at.length_bytes};
    const std::span values(fetch.memory.data() + fetch.values_offset, fetch.values_at.length_bytes);
    if (reads_values(fetch.header)) {
        fetched.values = values;
    } else if (fetch.header.kind == wire::Kind::kPull) {
        fetched.room = values;
    }
    return fetched;
}

void Fetcher::done() {
    if (!returned_) return;
    release(*returned_);
    returned_.reset();
}

Fetcher::Ticket Fetcher::keep() {
    WEIR_CHECK(returned_.has_value());
    return *std::exchange(returned_, std::nullopt);
}

void Fetcher::release(Ticket ticket) {
    Fetch& fetch = slots_[ticket];
    const size_t bytes = fetch.memory.bytes();
    used_bytes_ -= bytes;
    const auto line = lines_.find(fetch.connection);
    if (line != lines_.end()) line->second.used_bytes -= bytes;
    if (bytes > 0 && used_bytes_ + spares_.bytes() + bytes <= limit_bytes_) {
        spares_.put(std::move(fetch.memory));
    }
    fetch = Fetch();
    free_slots_.push_back(ticket);
}

void Fetcher::forget(transport::ConnectionId connection) {
    const auto found = lines_.find(connection);
    if (found == lines_.end()) return;
    if (!found->second.waiting.empty()) std::erase(turns_, connection);
    for (const size_t slot : found->second.waiting) {
        slots_[slot].status = Errc::kPeerLost;
        slots_[slot].posted = true;
        if (slots_[slot].reads_open == 0) release(slot);
    }
    lines_.erase(found);
}

}  // namespace weir

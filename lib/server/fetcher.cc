// SPDX-License-Identifier: Apache-2.0
#include "lib/server/fetcher.h"

#include <algorithm>
#include <cstring>

namespace weir {
namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) noexcept {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Fetcher::~Fetcher() {
    for (Fetch& fetch : slots_)
        memory_.deallocate(fetch.memory, fetch.memory_bytes, kAlign);
}

void Fetcher::add(transport::ConnectionId connection, const wire::Frame& frame) {
    Fetch fetch;
    fetch.connection = connection;
    fetch.header = frame.header;
    fetch.keys_at = frame.keys_at;
    fetch.values_at = frame.values_at;
    fetch.ends = frame.ends;
    fetch.inline_keys.assign(frame.keys.begin(), frame.keys.end());
    const size_t key_bytes = (frame.header.flags & wire::kKeysRemote) != 0
                                 ? frame.keys_at.length_bytes
                                 : frame.keys.size();
    fetch.values_offset = aligned(key_bytes);
    const bool is_push = frame.header.kind == wire::Kind::kPush;
    fetch.memory_bytes = fetch.values_offset + (is_push ? frame.values_at.length_bytes : 0);
    std::deque<Fetch>& queue = waiting_[connection];
    if (queue.empty()) turns_.push_back(connection);
    queue.push_back(std::move(fetch));
    ++waiting_count_;
}

size_t Fetcher::start() {
    while (!partly_posted_.empty()) {
        const size_t slot = partly_posted_.back();
        if (post(slot) == Outcome::kNotNow) return 0;
        partly_posted_.pop_back();
        if (slots_[slot].reads_open == 0) drop(slot);
    }
    size_t started = 0;
    while (!turns_.empty() && partly_posted_.empty() && start_one())
        ++started;
    return started;
}

bool Fetcher::start_one() {
    const transport::ConnectionId connection = turns_.front();
    std::deque<Fetch>& queue = waiting_[connection];
    Fetch& next = queue.front();
    // One request always fits, however large it is: the wire format limits it.
    if (used_bytes_ > 0 && used_bytes_ + next.memory_bytes > limit_bytes_) return false;
    if (next.memory == nullptr) {
        next.memory = memory_.allocate(std::max<size_t>(next.memory_bytes, 1), kAlign);
        if (next.memory == nullptr) return false;  // until another one gives its memory back
    }
    size_t slot = slots_.size();
    if (free_slots_.empty()) {
        slots_.emplace_back();
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
    }
    slots_[slot] = std::move(next);
    used_bytes_ += slots_[slot].memory_bytes;
    const Outcome outcome = post(slot);
    if (outcome == Outcome::kNotNow && slots_[slot].reads_open == 0) {
        next = std::move(slots_[slot]);  // nothing was posted: it keeps its turn and its memory
        used_bytes_ -= next.memory_bytes;
        slots_[slot] = Fetch();
        free_slots_.push_back(slot);
        return false;
    }
    if (outcome == Outcome::kNotNow) partly_posted_.push_back(slot);
    if (outcome == Outcome::kFailed && slots_[slot].reads_open == 0) drop(slot);
    queue.pop_front();
    --waiting_count_;
    turns_.pop_front();
    if (queue.empty()) {
        waiting_.erase(connection);
    } else {
        turns_.push_back(connection);
    }
    return true;
}

void Fetcher::drop(size_t slot) {
    memory_.deallocate(slots_[slot].memory, slots_[slot].memory_bytes, kAlign);
    used_bytes_ -= slots_[slot].memory_bytes;
    slots_[slot] = Fetch();
    free_slots_.push_back(slot);
}

Fetcher::Outcome Fetcher::read(size_t slot, size_t offset, const wire::MemoryHandle& from) {
    Fetch& fetch = slots_[slot];
    const std::span<std::byte> into(fetch.memory + offset, from.length_bytes);
    switch (
        endpoint_.read(fetch.connection, into, {from.address, from.length_bytes, from.key}, slot)) {
        case transport::Post::kPosted: ++fetch.reads_open; return Outcome::kStarted;
        case transport::Post::kNotNow: return Outcome::kNotNow;
        case transport::Post::kClosed:
        case transport::Post::kInvalid: break;
    }
    fetch.status = Errc::kPeerLost;
    return Outcome::kFailed;
}

Fetcher::Outcome Fetcher::post(size_t slot) {
    Fetch& fetch = slots_[slot];
    if (!fetch.inline_keys.empty()) {
        std::memcpy(fetch.memory, fetch.inline_keys.data(), fetch.inline_keys.size());
    }
    if (!fetch.keys_posted && (fetch.header.flags & wire::kKeysRemote) != 0) {
        const Outcome outcome = read(slot, 0, fetch.keys_at);
        if (outcome != Outcome::kStarted) return outcome;
    }
    fetch.keys_posted = true;
    if (!fetch.values_posted && fetch.header.kind == wire::Kind::kPush &&
        (fetch.header.flags & wire::kValuesRemote) != 0) {
        const Outcome outcome = read(slot, fetch.values_offset, fetch.values_at);
        if (outcome != Outcome::kStarted) return outcome;
    }
    fetch.values_posted = true;
    return Outcome::kStarted;
}

Fetched Fetcher::result(const Fetch& fetch) const {
    const size_t key_bytes = (fetch.header.flags & wire::kKeysRemote) != 0
                                 ? fetch.keys_at.length_bytes
                                 : fetch.inline_keys.size();
    return {fetch.connection,
            fetch.header,
            {fetch.memory, key_bytes},
            {fetch.memory + fetch.values_offset, fetch.memory_bytes - fetch.values_offset},
            fetch.values_at,
            fetch.ends,
            fetch.status};
}

std::optional<Fetched> Fetcher::ended(uint64_t context, Errc status) {
    if (context >= slots_.size() || slots_[context].reads_open == 0) return std::nullopt;
    Fetch& fetch = slots_[context];
    --fetch.reads_open;
    if (status != Errc::kOk) fetch.status = status;
    if (fetch.reads_open > 0) return std::nullopt;
    if (fetch.status == Errc::kOk && !fetch.values_posted) return std::nullopt;  // start() posts it
    std::erase(partly_posted_, context);
    returned_ = context;
    return result(fetch);
}

void Fetcher::done() {
    if (!returned_) return;
    drop(*returned_);
    returned_.reset();
}

void Fetcher::forget(transport::ConnectionId connection) {
    const auto found = waiting_.find(connection);
    if (found == waiting_.end()) return;
    for (Fetch& fetch : found->second)
        memory_.deallocate(fetch.memory, fetch.memory_bytes, kAlign);
    waiting_count_ -= found->second.size();
    waiting_.erase(found);
    std::erase(turns_, connection);
}

}  // namespace weir

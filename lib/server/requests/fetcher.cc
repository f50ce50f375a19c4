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

bool reads_values(const Request& request) noexcept {
    return request.header.kind == wire::Kind::kPush && request.has(wire::kValuesRemote);
}

}  // namespace

void Fetcher::add(KeptRequest& request) {
    KeptRequest::Reading& reading = request.reading;
    reading.values_offset =
        request.has(wire::kKeysRemote) ? aligned(request.keys_at.length_bytes) : 0;
    reading.memory_bytes = reading.values_offset + request.values_at.length_bytes;
    Line& line = lines_[request.connection];
    if (line.waiting.empty()) turns_.push_back(request.connection);
    line.waiting.push_back(request.slot);
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
        if (!requests_[line.waiting.front()].reading.memory || start_first(line) != Outcome::kDone)
            return false;
        ++started;
        return line.waiting.empty();
    });
    return started;
}

Fetcher::Outcome Fetcher::start_first(Line& line) {
    KeptRequest& request = requests_[line.waiting.front()];
    const Outcome outcome = start(request, line);
    if (outcome != Outcome::kDone) return outcome;
    request.reading.posted = true;
    if (request.reading.reads_open == 0) ready_.push_back(request.slot);
    line.waiting.pop_front();
    return outcome;
}

Fetcher::Outcome Fetcher::start(KeptRequest& request, Line& line) {
    if (request.status != Errc::kOk) return Outcome::kDone;  // an earlier read failed
    if (!request.reading.memory && request.reading.memory_bytes > 0) {
        const Outcome outcome = get_memory(request, line);
        if (outcome != Outcome::kDone || !request.reading.memory) return outcome;
    }
    return post(request);
}

Fetcher::Outcome Fetcher::get_memory(KeptRequest& request, Line& line) {
    Block& memory = request.reading.memory;
    const size_t bytes = request.reading.memory_bytes;
    // A connection's only request is served however large it is: the wire format limits it.
    if (line.used_bytes > 0 && line.used_bytes + bytes > limit_bytes_ / kShares) {
        return Outcome::kNotNow;
    }
    if (used_bytes_ > 0 && used_bytes_ + bytes > limit_bytes_) return Outcome::kNoMemory;
    memory = spares_.take(bytes, limit_bytes_ - std::min(limit_bytes_, used_bytes_ + bytes));
    if (!memory) {
        if (used_bytes_ > 0) return Outcome::kNoMemory;
        request.status = Errc::kNoMemory;  // no other request will give memory back
        return Outcome::kDone;
    }
    used_bytes_ += memory.bytes();
    line.used_bytes += memory.bytes();
    return Outcome::kDone;
}

Fetcher::Outcome Fetcher::post(KeptRequest& request) {
    if (!request.reading.keys_posted && request.has(wire::kKeysRemote)) {
        const Outcome outcome = read(request, 0, request.keys_at);
        if (outcome != Outcome::kDone || request.status != Errc::kOk) return outcome;
        request.reading.keys_posted = true;
    }
    return reads_values(request) ? read(request, request.reading.values_offset, request.values_at)
                                 : Outcome::kDone;
}

Fetcher::Outcome Fetcher::read(KeptRequest& request, size_t offset,
                               const wire::MemoryHandle& from) {
    if (from.length_bytes == 0) return Outcome::kDone;
    const std::span<std::byte> into(request.reading.memory.data() + offset, from.length_bytes);
    switch (endpoint_.read(request.connection, into, {from.address, from.length_bytes, from.key},
                           request.slot)) {
        case transport::Post::kPosted: ++request.reading.reads_open; return Outcome::kDone;
        case transport::Post::kNotNow: return Outcome::kNotNow;
        case transport::Post::kClosed:
        case transport::Post::kInvalid: break;
    }
    request.status = Errc::kPeerLost;
    return Outcome::kDone;
}

void Fetcher::ended(uint64_t context, Errc status) {
    KeptRequest* const request = requests_.find(context, Wait::kBytes);
    if (request == nullptr || request->reading.reads_open == 0) return;
    --request->reading.reads_open;
    if (status != Errc::kOk) request->status = status;
    // If not all reads are posted yet, start() sees that one of them has failed.
    if (request->reading.reads_open == 0 && request->reading.posted)
        ready_.push_back(request->slot);
}

KeptRequest* Fetcher::next() {
    if (ready_.empty()) return nullptr;
    KeptRequest& request = requests_[ready_.front()];
    ready_.pop_front();
    WEIR_CHECK(request.wait == Wait::kBytes && request.reading.posted &&
               request.reading.reads_open == 0);
    request.has_been_read = request.status == Errc::kOk;
    if (!request.has_been_read || !request.reading.memory) return &request;
    std::byte* const memory = request.reading.memory.data();
    if (request.has(wire::kKeysRemote)) request.keys = {memory, request.keys_at.length_bytes};
    const std::span values(memory + request.reading.values_offset, request.values_at.length_bytes);
    if (reads_values(request)) {
        request.values = values;
    } else if (request.header.kind == wire::Kind::kPull) {
        request.room = values;
    }
    return &request;
}

void Fetcher::release(KeptRequest& request) {
    Block& memory = request.reading.memory;
    if (!memory) return;
    const size_t bytes = memory.bytes();
    WEIR_CHECK(used_bytes_ >= bytes && request.reading.reads_open == 0);
    used_bytes_ -= bytes;
    const auto line = lines_.find(request.connection);
    if (line != lines_.end()) line->second.used_bytes -= bytes;
    if (used_bytes_ + spares_.bytes() + bytes <= limit_bytes_) {
        spares_.put(std::move(memory));
    } else {
        memory = Block();
    }
}

void Fetcher::forget(transport::ConnectionId connection) {
    const auto found = lines_.find(connection);
    if (found == lines_.end()) return;
    if (!found->second.waiting.empty()) std::erase(turns_, connection);
    for (const uint32_t slot : found->second.waiting) {
        requests_[slot].status = Errc::kPeerLost;
        requests_[slot].reading.posted = true;
        if (requests_[slot].reading.reads_open == 0) ready_.push_back(slot);
    }
    lines_.erase(found);
}

}  // namespace weir

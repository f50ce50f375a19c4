// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a pull does. Values go
///  - into the reply, if the worker asks for that or there are none;
///  - straight into the worker's memory, where that is mapped;
///  - to the worker's memory by a network write otherwise: those of a range from the table
///    itself, those of a list from a buffer.
/// A write from the table pins its rows until it ends. New pins wait while pushes wait for pins.

#include <cstring>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/server/shard.h"

namespace weir {

using transport::Post;

void Shard::pull(TableState& state, const Request& request) {
    const wire::FrameHeader& h = request.header;
    const size_t bytes = h.count * state.table->pulled_row_bytes();
    if ((h.flags & wire::kValuesInline) != 0 || bytes == 0) {
        reply_buffer_.resize(bytes);
        const Errc status = read_rows(state, request, reply_buffer_);
        if (status != Errc::kOk) reply_buffer_.clear();
        counters_.bytes_copied += 2 * reply_buffer_.size();  // into the buffer, then the message
        return reply(request.connection, h.request, status, 0, reply_buffer_);
    }
    if (request.out != nullptr) {
        return reply(request.connection, h.request,
                     read_rows(state, request, {request.out, bytes}));
    }
    pull_by_write(state, request, bytes);
}

Errc Shard::read_rows(TableState& state, const Request& request, std::span<std::byte> out) {
    const wire::FrameHeader& h = request.header;
    if (h.count == 0) return Errc::kOk;
    if ((h.flags & wire::kKeysRange) != 0) {
        const auto values = state.table->values({h.first, h.first + h.count});
        if (!values) return values.code();
        std::memcpy(out.data(), values->data(), out.size());
        return Errc::kOk;
    }
    const Result<RowList> rows = rows_of(state, request);
    return rows ? state.table->pull(*rows, out).code() : rows.code();
}

void Shard::pull_by_write(TableState& state, const Request& request, size_t bytes) {
    const wire::FrameHeader& h = request.header;
    Session* const session = session_of(request.connection);
    if (session == nullptr) return;
    const uint64_t id = next_write_++;
    const wire::MemoryHandle& at = request.values_at;
    Write write;
    write.connection = request.connection;
    write.table = h.table;
    write.to = {at.address, at.length_bytes, at.key};
    write.request = h.request;
    if ((h.flags & wire::kKeysRange) != 0) {
        write.keys = {h.first, h.first + h.count};
        const auto values = state.table->values(write.keys);
        if (!values) return reply(request.connection, h.request, values.code());
        if (!add_waiting(*session, 0)) return reply(request.connection, h.request, Errc::kBusy);
    } else {
        WEIR_CHECK(request.room.size() == bytes);  // start() had the Fetcher reserve it
        const Errc status = read_rows(state, request, request.room);
        if (status != Errc::kOk) return reply(request.connection, h.request, status);
        counters_.bytes_copied += bytes;
        write.buffer = request.room;
        session->waiting_bytes += kWaitingBytes;
        write.ticket = fetcher_.keep();
    }
    writes_.emplace(id, write);
    if (writes_waiting_.empty() && post_write(id)) return;
    writes_waiting_.push_back(id);
}

/// False: the write has to wait.
bool Shard::post_write(uint64_t id) {
    const Write& write = writes_.at(id);
    TableState& state = *tables_[write.table];
    std::span<const std::byte> from = write.buffer;
    if (from.empty()) {
        if (waits_for_pins(state)) return false;
        const auto values = state.table->values(write.keys);
        WEIR_CHECK(values.has_value());  // as in pull_by_write(): rows never move
        from = *values;
    }
    switch (endpoint_->write_immediate(write.connection, from, write.to,
                                       static_cast<uint32_t>(write.request), id)) {
        case Post::kPosted:
            if (write.buffer.empty()) state.pins.push_back({id, write.keys});
            return true;
        case Post::kNotNow: return false;
        case Post::kInvalid:
            log(LogLevel::kError, "{}: a pull of {} bytes of table {} cannot be written: a bug",
                name(), from.size(), write.table);
            written(id, Errc::kInvalidArgument);
            return true;
        case Post::kClosed: break;
    }
    written(id, Errc::kPeerLost);
    return true;
}

size_t Shard::post_writes() {
    size_t posted = 0;
    // A write that has to wait must not hold up the others.
    for (size_t i = writes_waiting_.size(); i > 0; --i) {
        const uint64_t id = writes_waiting_.front();
        writes_waiting_.pop_front();
        if (post_write(id)) {
            ++posted;
        } else {
            writes_waiting_.push_back(id);
        }
    }
    return posted;
}

/// A write has ended. The worker learns of success by the immediate, of failure by a reply.
void Shard::written(uint64_t context, Errc status) {
    const auto found = writes_.find(context);
    if (found == writes_.end()) return;
    const Write& write = found->second;
    TableState& state = *tables_[write.table];
    if (!write.buffer.empty()) fetcher_.release(write.ticket);
    if (Session* const session = session_of(write.connection)) {
        session->waiting_bytes -= kWaitingBytes;
        if (status != Errc::kOk) reply(write.connection, write.request, status);
    }
    writes_.erase(found);
    if (std::erase_if(state.pins, [&](const Pin& p) { return p.context == context; }) == 0) return;
    if (!state.pins.empty()) return;
    if (state.apply_waiting) finish_iteration(state);
    retry_ |= waits_for_pins(state);
}

}  // namespace weir

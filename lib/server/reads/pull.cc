// SPDX-License-Identifier: Apache-2.0
/// \file
/// Pulls, and the network writes that bring their values.

#include <cstring>

#include "lib/base/check.h"
#include "lib/server/reads/table_reads.h"

namespace weir {

void TableReads::apply(ShardTable& table, const Request& request) {
    if (standing_.judge(request.header.epoch) != ShardStanding::OfEpoch::kServed)
        return waiting_.refuse(request, Errc::kStaleEpoch, view_.epoch());
    ++counters_.pulls;
    const wire::FrameHeader& h = request.header;
    const size_t bytes = h.count * row_bytes_of(request, table.rows->row_layout());
    const uint64_t shown = table.iterations.state().last_closed();
    if (request.is_encoded()) [[unlikely]]
        return pull_encoded(table, request, bytes, shown);
    if ((h.flags & wire::kValuesInline) != 0 || bytes == 0) {
        if (bytes > 0 && replies_.is_busy(request.connection))
            return waiting_.refuse(request, Errc::kBusy);
        const Result<std::span<const std::byte>> found = values_of(table, request, bytes);
        const std::span<const std::byte> values = found ? *found : std::span<const std::byte>();
        counters_.bytes_copied += values.size();  // into the message
        return end_pull(request, found.code(), shown, values);
    }
    if (request.out != nullptr) {
        const Errc status = read_rows(table, request, {request.out, bytes});
        return end_pull(request, status, shown);
    }
    pull_by_write(table, request, bytes);
}

void TableReads::end_pull(const Request& request, Errc status, uint64_t shown,
                          std::span<const std::byte> values) {
    const uint64_t number = request.header.request;
    if (!request.shows_changes())
        return replies_.reply(request.connection, number, status, shown, values);
    if (request.was_push && status != Errc::kOk) return waiting_.refuse(request, status);
    replies_.reply_when_replicated(request.connection, number, status, shown, values);
}

/// The values of a pull: where they lie, if they are a range's and lie side by side; else in the
/// buffer for replies.
Result<std::span<const std::byte>> TableReads::values_of(ShardTable& table, const Request& request,
                                                         size_t bytes) {
    const wire::FrameHeader& h = request.header;
    const KeyRange keys = range_of(request);
    const bool is_range = (h.flags & wire::kKeysRange) != 0 && !request.has_whole_rows();
    if (is_range && !standing_.is_moving() && bytes > 0 && table.rows->is_in_extent(keys))
        return table.rows->values(keys);
    reply_buffer_.resize(bytes);
    const Errc status = read_rows(table, request, reply_buffer_);
    if (status != Errc::kOk) return Error(status, "the rows cannot be read");
    counters_.bytes_copied += bytes;
    return std::span<const std::byte>(reply_buffer_);
}

Errc TableReads::read_rows(ShardTable& table, const Request& request, std::span<std::byte> out) {
    const wire::FrameHeader& h = request.header;
    if (h.count == 0) return Errc::kOk;
    if (standing_.is_moving() && !serves(table, request)) return Errc::kOutOfRange;
    const Result<Entries> entries = resolve(table, request);
    if (!entries) return entries.code();
    if (h.encoding == 0) [[likely]]
        return table.rows->pull(*entries, out).code();
    if (request.has_whole_rows()) return table.rows->pull_rows(*entries, out).code();
    if (request.asks_written()) return table.rows->are_written(*entries, out).code();
    return table.rows->pull(*entries, out).code();
}

/// The worker takes codecs. Its values go the way that those of any pull go, and the reply says what they are.
void TableReads::pull_encoded(ShardTable& table, const Request& request, size_t bytes,
                              uint64_t shown) {
    const bool is_inline = request.has(wire::kValuesInline) || bytes == 0;
    if (is_inline && replies_.is_busy(request.connection))
        return waiting_.refuse(request, Errc::kBusy);
    const Result<std::span<const std::byte>> raw = values_of(table, request, bytes);
    if (!raw) return end_pull(request, raw.code(), shown);
    const BodyForm form = table.rows->pulled_form(request.header.count);
    const Codecs used = encoder_.encode({.form = form, .rows = *raw}, request.codecs);
    if (used != 0)
        counters_.filters.note_pull(encoder_.sizes());
    else
        counters_.filters.note_plain_pull(raw->size());
    const std::span<const std::byte> values = used != 0 ? encoder_.body() : *raw;
    const wire::EncodedValues said{used, static_cast<uint32_t>(values.size())};
    const std::span<const std::byte> head = std::as_bytes(std::span(&said, 1));
    counters_.bytes_copied += values.size();
    if (is_inline) {
        encoded_reply_.assign(head.begin(), head.end());
        encoded_reply_.insert(encoded_reply_.end(), values.begin(), values.end());
        return end_pull(request, Errc::kOk, shown, encoded_reply_);
    }
    if (request.out != nullptr) {
        std::memcpy(request.out, values.data(), values.size());
        counters_.bytes_sent += values.size();  // as the endpoint counts what it writes
        return end_pull(request, Errc::kOk, shown, head);
    }
    Session* const session = sessions_.find(request.connection);
    if (session == nullptr) return;
    Block block;  // if the Fetcher had no room to reserve
    if (request.room.empty()) {
        block = waiting_.fetcher().spares().take(values.size(), options_.fetch_bytes_max);
        if (!block) return waiting_.refuse(request, Errc::kNoMemory);
    }
    const std::span<std::byte> room(block ? block.data() : request.room.data(), values.size());
    std::memcpy(room.data(), values.data(), values.size());
    KeptRequest* const kept = waiting_.keep(*session, request, Wait::kWrite);
    if (kept == nullptr) return;
    kept->room = room;
    kept->values_at.length_bytes = room.size();
    kept->writing = {.table = &table,
                     .is_replied = true,
                     .shown = shown,
                     .scanned = std::move(block),
                     .reply = {head.begin(), head.end()}};
    writes_.add(*kept);
    end_writes();
}

void TableReads::pull_by_write(ShardTable& table, const Request& request, size_t bytes) {
    Session* const session = sessions_.find(request.connection);
    if (session == nullptr) return;
    const uint64_t shown = table.iterations.state().last_closed();
    Errc status = Errc::kOk;
    if (!request.room.empty()) {
        WEIR_CHECK(request.room.size() == bytes);  // find_or_fetch() had the Fetcher reserve it
        status = read_rows(table, request, request.room);
        if (status == Errc::kOk) counters_.bytes_copied += bytes;
    } else if (standing_.is_moving() && !serves(table, request)) {
        status = Errc::kOutOfRange;
    } else {
        status = table.rows->values(range_of(request)).code();
    }
    if (status != Errc::kOk) return waiting_.refuse(request, status);
    KeptRequest* const kept = waiting_.keep(*session, request, Wait::kWrite);
    if (kept == nullptr) return;
    const bool is_replied = request.shows_changes() || shown > 0 || replies_.needs_lease();
    kept->writing = {&table, is_replied, shown};
    writes_.add(*kept);
    end_writes();
}

size_t TableReads::post_waiting() {
    const size_t posted = writes_.post_waiting();
    end_writes();
    return posted;
}

void TableReads::written(uint64_t context, Errc status) {
    writes_.end(context, status);
    end_writes();
}

void TableReads::drop(std::unique_ptr<ShardTable> table) {
    dropped_.push_back(std::move(table));
    forget(*dropped_.back());
}

/// Writes that have ended: the worker learns of success by the immediate or, if there are iterations
/// or answers need a lease, by a reply; of failure by a reply.
/// Changes that waited for the rows of a write go on.
void TableReads::end_writes() {
    while (const std::optional<PullWrites::Ended> ended = writes_.next_ended()) {
        KeptRequest& pull = *ended->pull;
        ShardTable& table = *pull.writing.table;
        if (sessions_.find(pull.connection) != nullptr) {
            const uint64_t shown = pull.writing.shown;
            // Of a connection that is about to close, the worker sends the pull again.
            const bool is_closing =
                ended->status == Errc::kPeerLost || ended->status == Errc::kCancelled;
            if (ended->status != Errc::kOk) {
                if (!is_closing) waiting_.refuse(pull, ended->status);
            } else if (pull.writing.is_replied) {
                end_pull(pull, Errc::kOk, shown, pull.writing.reply);
            }
        }
        if (pull.writing.scanned) waiting_.fetcher().spares().put(std::move(pull.writing.scanned));
        waiting_.end(pull);
        if (!ended->unpinned) continue;
        if (table.pins.take_iteration()) parts_.finish(table);
        if (table.pins.has_waiting()) waiting_.retry();
    }
    std::erase_if(dropped_,
                  [&](const auto& table) { return !waiting_.requests().writes_of(*table); });
}

}  // namespace weir

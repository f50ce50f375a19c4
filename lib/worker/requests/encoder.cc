// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/encoder.h"

#include <algorithm>
#include <cstring>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/factors.h"
#include "lib/key/key_list.h"
#include "lib/wire/scan_message.h"
#include "lib/worker/filters/table_filters.h"

namespace weir {

using wire::MemoryHandle;

namespace {

/// Copies rows of `row_bytes` from `from` to `to`, to[i] = from[order[i]].
void copy_in_order(std::span<const uint32_t> order, const std::byte* from, std::byte* to,
                   size_t row_bytes) {
    if (row_bytes == sizeof(uint32_t)) {
        for (const uint32_t i : order) {
            std::memcpy(to, from + size_t{i} * sizeof(uint32_t), sizeof(uint32_t));
            to += sizeof(uint32_t);
        }
        return;
    }
    for (const uint32_t i : order) {
        std::memcpy(to, from + i * row_bytes, row_bytes);
        to += row_bytes;
    }
}

void begin_header(uint64_t id, const Content& content, wire::FrameHeader& header) {
    header.kind = content.kind;
    header.request = id;
    header.first = content.first;
    header.epoch = content.epoch;
}

/// All of a push's or pull's that does not depend on how keys and values travel.
void begin_piece_header(uint64_t id, const Content& content, wire::FrameHeader& header) {
    begin_header(id, content, header);
    header.value_type = content.value_type;
    if (content.extras != nullptr && !content.extras->arguments.empty())
        header.encoding |= wire::kHasArguments;
    if (content.calls()) header.encoding |= wire::kCalls;
    if (content.is_push() && content.has_out()) header.encoding |= wire::kWantsValues;
    if (content.asks_written) header.encoding |= wire::kAsksWritten;
    if (content.has_whole_rows) header.encoding |= wire::kWholeRows;
    if (content.erases) header.encoding |= wire::kErases;
    if (content.stamp != 0) header.encoding |= wire::kHasStamp;
    header.table = content.table;
    header.time = static_cast<uint32_t>(content.place.time);
    header.count = content.count;
    header.iteration = content.iteration;
    header.parts = content.parts;
    header.part_status = content.part_status;
}

}  // namespace

void Encoder::encode_control(uint64_t id, const Content& content, EncodedFrame& frame) {
    WEIR_CHECK(!content.is_piece());
    begin_header(id, content, frame.header);
    frame.add(content.values);
}

bool Encoder::encode_scan(uint64_t id, ClientRequest& request, const Peer& peer,
                          EncodedFrame& frame) {
    const Content& content = request.content();
    Attempt& attempt = request.attempt;
    WEIR_CHECK(content.is_scan() && attempt.out_copy && peer.is_open());
    begin_header(id, content, frame.header);
    const std::span<const std::byte> memory{attempt.out_copy.data(), content.out_row_bytes};
    if (!expose(peer, memory, frame.values_at_)) return false;
    attempt.form = wire::kValuesRemote;
    attempt.has_out_remote = true;
    frame.add(std::as_bytes(std::span(&frame.values_at_, 1)));
    frame.add(content.values.subspan(ScanMessage::kMemoryBytes));
    return true;
}

Encoder::Outcome Encoder::encode(uint64_t id, ClientRequest& request, const Peer& peer,
                                 EncodedFrame& frame) {
    const Content& content = request.content();
    WEIR_CHECK(content.is_piece() && peer.is_open());
    begin_piece_header(id, content, frame.header);
    Attempt& attempt = request.attempt;
    attempt.form = 0;
    attempt.has_values_remote = attempt.has_out_remote = false;
    if (content.is_pull()) attempt.codecs = 0;
    const bool wants_values = content.is_push() && content.has_out();
    if (content.is_part) attempt.form |= wire::kAggregate;
    if (content.iteration != 0) attempt.form |= wire::kIteration;
    if (content.is_range) attempt.form |= wire::kKeysRange;
    Work work{content,
              attempt,
              peer,
              message_bytes_max_ - sizeof frame.header -
                  (wants_values ? 3 : 2) * sizeof(MemoryHandle) - sizeof(wire::ListEnds),
              {},
              {}};
    if (content.stamp != 0) [[unlikely]] {
        frame.stamp_ = content.stamp;
        frame.add(std::as_bytes(std::span(&frame.stamp_, 1)));
        work.room -= sizeof frame.stamp_;
    }
    if ((frame.header.encoding & wire::kHasArguments) != 0) {
        frame.add(content.extras->arguments);
        work.room -= content.extras->arguments.size();
    }
    if ((content.filters != nullptr || content.rank() != 0) && is_to_be_encoded(work))
        [[unlikely]] {
        if (content.is_pull()) {
            choose_pulled_codecs(work);
        } else {
            const Outcome encoded = encode_body(work);
            if (encoded != Outcome::kDone) return encoded;
        }
        work.room -= sizeof frame.codecs_;
    }
    if (!content.is_range) {
        const Outcome placed = place_keys(work, frame.keys_at_);
        if (placed != Outcome::kDone) return placed;
    }
    if (content.is_push()) {
        const Outcome placed = place_values(work, frame.values_at_);
        if (placed != Outcome::kDone) return placed;
        attempt.form |= attempt.has_values_remote ? wire::kValuesRemote : wire::kValuesInline;
    }
    if (content.has_out()) {
        const Outcome placed = place_out(work, frame.out_at_);
        if (placed != Outcome::kDone) return placed;
        if (wants_values) {
            if (attempt.has_out_remote) frame.header.encoding |= wire::kOutRemote;
        } else {
            attempt.form |= attempt.has_out_remote ? wire::kValuesRemote : wire::kValuesInline;
        }
    }
    add_parts(work, frame);
    return Outcome::kDone;
}

/// All that is placed, in the order of the wire.
void Encoder::add_parts(const Work& work, EncodedFrame& frame) {
    const Content& content = work.content;
    const Attempt& attempt = work.attempt;
    const uint8_t form = attempt.form;
    if (attempt.codecs != 0) [[unlikely]] {
        frame.header.encoding |= wire::kEncoded;
        frame.codecs_ = attempt.codecs;
        frame.add(std::as_bytes(std::span(&frame.codecs_, 1)));
    }
    if ((form & wire::kKeysRemote) != 0) frame.add(std::as_bytes(std::span(&frame.keys_at_, 1)));
    if (attempt.has_values_remote) frame.add(std::as_bytes(std::span(&frame.values_at_, 1)));
    if (attempt.has_out_remote) frame.add(std::as_bytes(std::span(&frame.out_at_, 1)));
    if ((form & wire::kKeysKnown) != 0 || attempt.has_keys_in_body()) {
        frame.ends_ = {content.list().front(), content.list().back()};
        frame.add(std::as_bytes(std::span(&frame.ends_, 1)));
    }
    if (!work.keys.empty()) frame.add(work.keys);
    if (!work.values.empty()) frame.add(work.values);
    frame.header.flags = form;
}

void Encoder::choose_pulled_codecs(Work& work) {
    TableFilters& filters = *work.content.filters;
    const Codecs taken = filters.is_automatic() ? filters.pulls.choose(work.peer.link.ns_per_byte())
                                                : filters.codecs();
    work.attempt.codecs = taken & wire::kPulledCodecs;
}

/// Up to so many bytes go to the shard in the message. A shard that has to READ them takes more
/// time than to copy them.
size_t Encoder::eager_bytes(const Peer& peer) const noexcept {
    return peer.maps_memory ? peer.copied_bytes_max : std::max(peer.copied_bytes_max, eager_bytes_);
}

bool Encoder::expose(const Peer& peer, std::span<const std::byte> memory, MemoryHandle& handle) {
    const Result<transport::RemoteSpan> remote = endpoint_.expose(peer.connection, memory);
    if (!remote) return false;
    handle = {remote->address, remote->length_bytes, remote->key};
    return true;
}

Encoder::Outcome Encoder::place_keys(Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    if (attempt.has_keys_in_body()) [[unlikely]] {
        attempt.form |= wire::kKeysInline;
        return Outcome::kDone;
    }
    const bool is_remembered = content.piece != nullptr && content.piece->known;
    const std::span<const std::byte> bytes = std::as_bytes(content.list());
    if (is_remembered && content.count >= kRememberedKeysMin) {
        attempt.form |= wire::kKeysKnown;
        counters_.filters.key_cache.add(bytes.size(), sizeof(wire::ListEnds));
        return Outcome::kDone;
    }
    counters_.filters.key_cache.add(bytes.size(), bytes.size());
    const auto put_in_message = [&] {
        attempt.form |= wire::kKeysInline;
        work.keys = bytes;
        work.room -= bytes.size();
        return Outcome::kDone;
    };
    const bool fits = bytes.size() <= work.room;
    if (fits && bytes.size() <= eager_bytes(work.peer)) return put_in_message();
    const bool is_copied = static_cast<bool>(attempt.keys_copy);
    if (!is_copied && expose(work.peer, bytes, handle)) {
        attempt.form |= wire::kKeysRemote;
        return Outcome::kDone;
    }
    if (fits) return put_in_message();
    if (!is_copied) {
        attempt.keys_copy = Block(memory_, bytes.size());
        if (!attempt.keys_copy) return Outcome::kNoMemory;
        std::memcpy(attempt.keys_copy.data(), bytes.data(), bytes.size());
        counters_.bytes_copied += bytes.size();
    }
    attempt.form |= wire::kKeysRemote;
    return expose(work.peer, {attempt.keys_copy.data(), bytes.size()}, handle) ? Outcome::kDone
                                                                               : Outcome::kBroken;
}

/// Puts the values together in a copy. A repeated send uses it as it is.
bool Encoder::copy_values(const Content& content, Attempt& attempt) {
    if (attempt.values_copy) return true;
    attempt.values_copy = Block(memory_, content.pushed_bytes());
    if (!attempt.values_copy) return false;
    std::byte* const copy = attempt.values_copy.data();
    if (content.order.empty()) {
        std::memcpy(copy, content.values.data(), content.pushed_bytes());
    } else {
        copy_in_order(content.order, content.values.data(), copy, content.row_bytes);
    }
    counters_.bytes_copied += content.pushed_bytes();
    return true;
}

/// Values go in the message if they are few; by address if their memory is registered (`handle`
/// is then set); in the message if they fit; and else through a registered copy. Values that are
/// scattered in the caller's array (because its list was regrouped by shard) have no single
/// address: they are copied.
Encoder::ValuesWay Encoder::choose_values_way(const Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    const size_t bytes = content.pushed_bytes();
    const bool fits = bytes <= work.room;
    if (content.erases || content.calls()) return ValuesWay::kInMessage;  // there are none
    const bool is_few = fits && bytes <= eager_bytes(work.peer);
    if (!content.order.empty() || work.attempt.values_copy)
        return is_few ? ValuesWay::kCopiedInMessage : ValuesWay::kCopiedByAddress;
    if (is_few) return ValuesWay::kInMessage;
    if (expose(work.peer, content.values, handle)) return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

bool Encoder::is_to_be_encoded(const Work& work) const noexcept {
    const Content& content = work.content;
    if (content.count == 0) return false;
    if (content.is_push() && work.attempt.codecs != 0) return true;
    // A shard may still read what was sent as it is, so that stays where it is.
    const bool was_plain = work.attempt.is_plain || work.attempt.values_copy;
    if (content.is_push() && was_plain) return false;
    if (content.has_left_out() || content.rank() != 0) return true;
    const TableFilters& filters = *content.filters;
    if (filters.codecs() == 0) return false;
    if (filters.is_automatic() && work.peer.maps_memory) return false;
    if (content.is_push()) return content.pushed_bytes() >= encoded_bytes_min_;
    return content.out_bytes() >= encoded_bytes_min_ &&
           (filters.codecs() & wire::kPulledCodecs) != 0;
}

/// The rows of a push that are kept, side by side. `kept_` has their bits.
std::span<const std::byte> Encoder::kept_rows(const Content& content, size_t kept_count) {
    const size_t row_bytes = content.row_bytes;
    if (kept_count == content.count && content.order.empty())
        return content.values.first(content.pushed_bytes());
    const std::span<std::byte> rows = rows_.take(kept_count * row_bytes);
    if (kept_count == content.count) {
        copy_in_order(content.order, content.values.data(), rows.data(), row_bytes);
        return rows;
    }
    std::byte* to = rows.data();
    for_each_bit(kept_, [&](size_t i) {
        const size_t row = content.order.empty() ? i : content.order[i];
        std::memcpy(to, content.values.data() + row * row_bytes, row_bytes);
        to += row_bytes;
    });
    return rows;
}

/// Both matrices, as they travel.
std::span<const std::byte> Encoder::factors(const Content& content) {
    const size_t left_bytes = content.pushed_bytes();
    const std::span<const std::byte> right = content.extras->right;
    const std::span<std::byte> both = rows_.take(left_bytes + right.size());
    if (content.order.empty())
        std::memcpy(both.data(), content.values.data(), left_bytes);
    else
        copy_in_order(content.order, content.values.data(), both.data(), content.row_bytes);
    std::memcpy(both.data() + left_bytes, right.data(), right.size());
    return both;
}

/// Makes `kept_` of the bits of a piece.
void Encoder::list_kept(const Content& content) {
    reset_bits(kept_, content.count);
    const std::span<const std::byte> of_call = content.extras->selected->kept;
    const size_t first = content.first_selected();
    if (content.order.empty() && first % 8 == 0) {
        std::memcpy(kept_.data(), of_call.data() + first / 8, kept_.size());
        if (content.count % 8 != 0)
            kept_.back() &= static_cast<std::byte>((1U << content.count % 8) - 1);
        return;
    }
    for (size_t i = 0; i < content.count; ++i) {
        if (has_bit(of_call, first + (content.order.empty() ? i : content.order[i])))
            set_bit(kept_, i);
    }
}

/// Makes the body of a push, once: whatever becomes of this attempt, the next ones send the same bytes.
Encoder::Outcome Encoder::encode_body(Work& work) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    if (attempt.codecs != 0) return Outcome::kDone;
    size_t kept_count = content.count;
    if (content.has_left_out()) {
        list_kept(content);
        kept_count = count_bits(kept_);
    }
    const auto value_type = computed_type(static_cast<ValueType>(content.value_type));
    const auto width = static_cast<uint32_t>(content.server_row_bytes() / size_of(value_type));
    const bool sends_keys =
        !content.is_range && (content.piece == nullptr || !content.piece->known);
    const bool is_automatic = content.filters != nullptr && content.filters->is_automatic();
    const Codecs chosen = content.filters == nullptr ? Codecs{0}
                          : !is_automatic            ? content.filters->codecs()
                          : work.peer.maps_memory
                              ? Codecs{0}
                              : content.filters->pushes.choose(work.peer.link.ns_per_byte());
    Codecs wanted = chosen;
    if (!sends_keys || content.has_out()) wanted &= static_cast<Codecs>(~kKeyDifferences);
    if (kept_count < content.count) wanted |= kKept;
    const ValueCodec* const own = content.filters == nullptr ? nullptr : content.filters->own();
    BodyEncoder::Source source{
        .form = {value_type, width, content.count, own}, .rows = {}, .keys = content.list()};
    if (content.rank() == 0) {
        source.rows = kept_rows(content, kept_count);
    } else if (may_have_factors(source.form, content.rank())) {
        wanted |= kFactors;
        source.rank = content.rank();
        source.rows = factors(content);
    } else {  // the rows are no longer
        wanted |= kKept;
        reset_bits(kept_, content.count, true);
        const std::span<std::byte> rows = products_.take(source.form.rows_bytes());
        const Status multiplied =
            decode_factors({value_type, content.count, width}, factors(content), rows);
        WEIR_CHECK(multiplied);
        source.rows = rows;
    }
    if ((wanted & kKept) != 0) source.kept = kept_;
    const uint64_t begun_ns = is_automatic ? clock_.now_ns() : 0;
    const Codecs used = bodies_.encode(source, wanted);
    const std::span<const std::byte> body = bodies_.body();
    if (is_automatic && chosen != 0) {
        // To expand it takes about half as long as to make it.
        const double both_ns = 1.5 * static_cast<double>(clock_.now_ns() - begun_ns);
        // Keys travel, too: in the body, or as they are.
        const size_t key_bytes = sends_keys ? content.list().size_bytes() : 0;
        const size_t bytes = (used == 0 ? source.rows.size() : body.size()) +
                             ((used & kKeyDifferences) != 0 ? 0 : key_bytes);
        content.filters->pushes.note(chosen, source.rows.size() + key_bytes, bytes, both_ns);
    }
    if (used == 0 || body.size() > wire::kRequestBytesMax) {
        WEIR_CHECK((wanted & (kKept | kFactors)) == 0);
        attempt.is_plain = true;
        if (chosen != 0) counters_.filters.note_plain_push(source.rows.size());
        return Outcome::kDone;
    }
    count_body(content);
    attempt.values_copy = Block(memory_, body.size());
    if (!attempt.values_copy) return Outcome::kNoMemory;
    std::memcpy(attempt.values_copy.data(), body.data(), body.size());
    counters_.bytes_copied += body.size();
    attempt.codecs = used;
    return Outcome::kDone;
}

void Encoder::count_body(const Content& content) {
    FilterTraffic& traffic = counters_.filters;
    const BodySizes& sizes = bodies_.sizes();
    const bool has_keys = sizes.keys != 0;
    if (content.rank() != 0)
        traffic.factors.add(content.count * content.server_row_bytes(), sizes.rows);
    traffic.note_push(sizes, has_keys ? content.list().size_bytes() : 0);
}

/// An encoded body goes as values do that were copied.
Encoder::Outcome Encoder::place_body(Work& work, MemoryHandle& handle) {
    Attempt& attempt = work.attempt;
    const std::span<const std::byte> body(attempt.values_copy.data(), attempt.values_copy.bytes());
    if (body.size() <= work.room && body.size() <= eager_bytes(work.peer)) {
        work.values = body;
        return Outcome::kDone;
    }
    attempt.has_values_remote = true;
    return expose(work.peer, body, handle) ? Outcome::kDone : Outcome::kBroken;
}

Encoder::Outcome Encoder::place_values(Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    Attempt& attempt = work.attempt;
    if (attempt.codecs != 0) [[unlikely]]
        return place_body(work, handle);
    const size_t bytes = content.pushed_bytes();
    switch (choose_values_way(work, handle)) {
        case ValuesWay::kInMessage:
            work.values = {content.values.data(), bytes};
            return Outcome::kDone;
        case ValuesWay::kByAddress: attempt.has_values_remote = true; return Outcome::kDone;
        case ValuesWay::kCopiedInMessage:
            if (!copy_values(content, attempt)) return Outcome::kNoMemory;
            work.values = {attempt.values_copy.data(), bytes};
            return Outcome::kDone;
        case ValuesWay::kCopiedByAddress: break;
    }
    if (!copy_values(content, attempt)) return Outcome::kNoMemory;
    attempt.has_values_remote = true;
    return expose(work.peer, {attempt.values_copy.data(), bytes}, handle) ? Outcome::kDone
                                                                          : Outcome::kBroken;
}

/// The same of what is pulled: in the reply, by address, or through a copy.
Encoder::ValuesWay Encoder::choose_out_way(const Work& work, MemoryHandle& handle) {
    const Content& content = work.content;
    const size_t bytes = content.out_bytes();
    const bool fits = bytes <= message_bytes_max_ - sizeof(wire::FrameHeader);
    if (fits && bytes <= work.peer.copied_bytes_max) return ValuesWay::kInMessage;
    if (content.is_pull() && work.attempt.codecs != 0) return ValuesWay::kCopiedByAddress;
    const bool has_address = content.order.empty() && !content.widens() && !work.attempt.out_copy;
    if (has_address && expose(work.peer, content.out, handle)) return ValuesWay::kByAddress;
    return fits ? ValuesWay::kInMessage : ValuesWay::kCopiedByAddress;
}

Encoder::Outcome Encoder::place_out(Work& work, MemoryHandle& handle) {
    Attempt& attempt = work.attempt;
    const size_t bytes = work.content.out_bytes();
    const ValuesWay way = choose_out_way(work, handle);
    if (way == ValuesWay::kInMessage) return Outcome::kDone;
    attempt.has_out_remote = true;
    if (way == ValuesWay::kByAddress) return Outcome::kDone;
    if (!attempt.out_copy) attempt.out_copy = Block(memory_, bytes);
    if (!attempt.out_copy) return Outcome::kNoMemory;
    return expose(work.peer, {attempt.out_copy.data(), bytes}, handle) ? Outcome::kDone
                                                                       : Outcome::kBroken;
}

}  // namespace weir

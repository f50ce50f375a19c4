// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/record_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"

namespace weir {
namespace {

constexpr uint8_t kHasTail = 1;
constexpr uint8_t kIsRange = 2;
constexpr uint8_t kHasMore = 4;
constexpr uint8_t kIsShared = 8;
constexpr uint8_t kIsKnown = 16;
constexpr uint8_t kIsLent = 32;
constexpr uint8_t kRecordFlags = 63;

struct Head {
    uint8_t kind = 0;
    uint8_t flags = 0;
    uint16_t reserved = 0;
    uint32_t table = 0;
    uint64_t row_count = 0;
    uint64_t first_key = 0;
    uint64_t value_bytes = 0;
    uint64_t state_bytes = 0;
    uint64_t common = 0;
};

static_assert(sizeof(Head) == RecordMessage::kHeadBytes);

PositionRange read_range(ByteReader& reader) {
    PositionRange range;
    range.first = reader.number<uint64_t>();
    range.last = reader.number<uint64_t>();
    return range;
}

/// Reads a list; false if it is malformed. It grows as bytes are read.
template <class Entry, class Read>
bool read_list(ByteReader& reader, std::vector<Entry>& list, Read&& read) {
    for (auto count = reader.number<uint32_t>(); reader.ok() && count > 0; --count) {
        Entry entry;
        if (!read(entry)) return false;
        list.push_back(std::move(entry));
    }
    return reader.ok();
}

}  // namespace

std::vector<std::byte> FollowMessage::encode() const {
    ByteWriter writer;
    writer.number(epoch).number(number).number(stream).number(behind).number(pass);
    return std::move(writer).take();
}

std::optional<FollowMessage> FollowMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    FollowMessage message;
    message.epoch = reader.number<uint64_t>();
    message.number = reader.number<uint64_t>();
    message.stream = reader.number<uint64_t>();
    message.behind = reader.number<uint64_t>();
    message.pass = reader.number<uint64_t>();
    if (!reader.done() || (message.stream == 0 && message.behind != 0)) return std::nullopt;
    return message;
}

uint64_t RecordMessage::rows_to_cut() const noexcept {
    // The same whether its list is known or not.
    const size_t key_bytes = is_range ? 0 : row_count * sizeof(uint64_t);
    const size_t bytes = key_bytes + values.size() + state.size();
    if (bytes <= kCutBytes) return std::max<uint64_t>(1, row_count);
    return std::max<uint64_t>(1, kCutBytes / (bytes / row_count));
}

RecordMessage RecordMessage::rows_from(uint64_t row, uint64_t count) const {
    WEIR_CHECK(count > 0 && row <= row_count && count <= row_count - row);
    const auto part = [&](std::span<const std::byte> bytes) {
        const size_t row_bytes = bytes.size() / row_count;
        return bytes.subspan(row * row_bytes, count * row_bytes);
    };
    RecordMessage rows;
    rows.is_range = is_range;
    rows.table = table;
    rows.row_count = count;
    rows.first_key = is_range ? first_key + row : 0;
    rows.is_known = is_known;
    if (list != 0) rows.list = list + row / rows_to_cut();
    rows.keys = part(keys);
    rows.values = part(values);
    rows.state = part(state);
    return rows;
}

std::array<std::byte, RecordMessage::kHeadBytes> RecordMessage::encode_head() const noexcept {
    Head head;
    head.kind = static_cast<uint8_t>(kind);
    head.flags = static_cast<uint8_t>((has_tail() ? kHasTail : 0) | (is_range ? kIsRange : 0) |
                                      (has_more ? kHasMore : 0) | (is_shared ? kIsShared : 0) |
                                      (is_known ? kIsKnown : 0));
    head.table = table;
    head.row_count = row_count;
    head.first_key = is_range ? first_key : list;
    head.value_bytes = values.size();
    head.state_bytes = state.size();
    head.common = common;
    std::array<std::byte, kHeadBytes> bytes;
    std::memcpy(bytes.data(), &head, sizeof head);
    return bytes;
}

std::vector<std::byte> RecordMessage::encode(std::vector<std::byte> memory) const {
    constexpr size_t kTailBytes = 64;  // of a push into one segment
    ByteWriter writer(std::move(memory));
    writer.reserve(kHeadBytes + rows_bytes() + kTailBytes);
    writer.raw(encode_head());
    for (const std::span<const std::byte> part : {keys, values, state}) {
        if (!part.empty()) writer.raw(part);
    }
    if (has_tail()) encode_tail(writer);
    return std::move(writer).take();
}

std::vector<std::byte> RecordMessage::encode_lent(std::span<std::byte> rows,
                                                  std::vector<std::byte> memory) const {
    WEIR_CHECK(rows.size() >= rows_bytes());
    size_t at = 0;
    for (const std::span<const std::byte> part : {keys, values, state}) {
        std::ranges::copy(part, rows.begin() + static_cast<ptrdiff_t>(at));
        at += part.size();
    }
    auto head = encode_head();
    head[offsetof(Head, flags)] |= std::byte{kIsLent};
    const wire::MemoryHandle nowhere;
    ByteWriter writer(std::move(memory));
    writer.raw(head).raw(std::as_bytes(std::span(&nowhere, 1)));
    if (has_tail()) encode_tail(writer);
    return std::move(writer).take();
}

void RecordMessage::set_lent_at(std::span<std::byte> bytes, const wire::MemoryHandle& at) noexcept {
    std::memcpy(bytes.subspan(kHeadBytes).data(), &at, sizeof at);
}

std::optional<wire::MemoryHandle> RecordMessage::lent_at(
    std::span<const std::byte> bytes) noexcept {
    wire::MemoryHandle at;
    if (bytes.size() < kHeadBytes + sizeof at) return std::nullopt;
    if ((bytes[offsetof(Head, flags)] & std::byte{kIsLent}) == std::byte{0}) return std::nullopt;
    std::memcpy(&at, bytes.subspan(kHeadBytes).data(), sizeof at);
    return at;
}

void RecordMessage::encode_tail(ByteWriter& writer) const {
    const auto time_count = static_cast<uint32_t>(times.size());
    if (segments.empty() && time_count == 1 && clocks.empty() && iterations.empty()) {
        const RecordedTime& time = times.front();  // of a push into one segment: at once
        writer.numbers(uint32_t{0}, time_count, time.worker, time.range.first, time.range.last,
                       time.time, uint32_t{0}, uint32_t{0});
        return;
    }
    writer.number(static_cast<uint32_t>(segments.size()));
    for (const LearnedSegment& segment : segments)
        writer.numbers(segment.range.first, segment.range.last, segment.named);
    writer.number(time_count);
    for (const RecordedTime& time : times)
        writer.numbers(time.worker, time.range.first, time.range.last, time.time);
    if (clocks.empty() && iterations.empty()) {
        writer.numbers(uint32_t{0}, uint32_t{0});
        return;
    }
    writer.number(static_cast<uint32_t>(clocks.size()));
    for (const ClockTimes& clock : clocks)
        clock.encode(writer);
    writer.number(static_cast<uint32_t>(iterations.size()));
    for (const RecordedIterations& one : iterations) {
        writer.number(one.range.first).number(one.range.last).number(one.last_closed);
        writer.number(static_cast<uint32_t>(one.failed.size()));
        for (const RecordedIterations::Failed& failed : one.failed)
            writer.number(failed.iteration)
                .number(failed.status)
                .number(failed.worker)
                .number(failed.other);
    }
}

std::optional<RecordMessage> RecordMessage::decode(std::span<const std::byte> bytes,
                                                   std::span<const std::byte> lent) {
    RecordMessage message;
    if (!message.become(bytes, lent)) return std::nullopt;
    return message;
}

void RecordMessage::clear() noexcept {
    kind = Kind::kRows;
    has_more = is_shared = is_range = is_known = false;
    table = 0;
    row_count = first_key = list = common = 0;
    keys = values = state = {};
    segments.clear();
    times.clear();
    clocks.clear();
    iterations.clear();
}

bool RecordMessage::become(std::span<const std::byte> bytes, std::span<const std::byte> lent) {
    clear();
    Head head;
    if (bytes.size() < sizeof head || bytes.size() + lent.size() > kBytesMax) return false;
    std::memcpy(&head, bytes.data(), sizeof head);
    kind = static_cast<Kind>(head.kind);
    is_range = (head.flags & kIsRange) != 0;
    has_more = (head.flags & kHasMore) != 0;
    is_shared = (head.flags & kIsShared) != 0;
    is_known = (head.flags & kIsKnown) != 0;
    common = head.common;
    table = head.table;
    row_count = head.row_count;
    (is_range ? first_key : list) = head.first_key;
    const bool is_sound = head.kind >= static_cast<uint8_t>(Kind::kBegin) &&
                          head.kind <= static_cast<uint8_t>(Kind::kForgetLists) &&
                          (head.flags & ~kRecordFlags) == 0 && (is_shared || head.common == 0) &&
                          head.reserved == 0 && head.row_count <= kRowsMax &&
                          head.value_bytes <= kBytesMax && head.state_bytes <= kBytesMax;
    if (!is_sound) return false;
    if (is_range && head.first_key + head.row_count < head.first_key) return false;
    if (list != 0 ? head.row_count == 0 : is_known) return false;
    const bool has_keys = !is_range && !is_known;
    const uint64_t key_bytes = has_keys ? head.row_count * sizeof(uint64_t) : 0;
    const uint64_t rows_bytes = key_bytes + head.value_bytes + head.state_bytes;
    const bool is_lent = (head.flags & kIsLent) != 0;
    std::span<const std::byte> rest = bytes.subspan(sizeof head);
    const uint64_t bytes_here = is_lent ? sizeof(wire::MemoryHandle) : rows_bytes;
    if (rest.size() < bytes_here || (is_lent ? lent.size() != rows_bytes : !lent.empty()))
        return false;
    const std::span<const std::byte> rows = is_lent ? lent : rest.first(rows_bytes);
    keys = rows.first(key_bytes);
    values = rows.subspan(key_bytes, head.value_bytes);
    state = rows.subspan(key_bytes + head.value_bytes);
    rest = rest.subspan(bytes_here);
    const bool has_tail = (head.flags & kHasTail) != 0;
    if (has_tail ? !decode_tail(rest) : !rest.empty()) return false;
    const bool has_rows = head.row_count != 0 || !values.empty() || !state.empty();
    const bool is_about_rows = has_rows || is_range || head.table != 0 || !times.empty() ||
                               !clocks.empty() || !iterations.empty();
    const bool is_about_segments = kind != Kind::kRows && kind != Kind::kForgetLists;
    if (is_about_segments == segments.empty()) return false;
    if (kind != Kind::kRows && (is_about_rows || has_more)) return false;
    return true;
}

bool RecordMessage::decode_tail(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const bool is_sound =
        read_list(reader, segments,
                  [&](LearnedSegment& segment) {
                      segment.range = read_range(reader);
                      segment.named = reader.number<uint64_t>();
                      return segment.range.first <= segment.range.last &&
                             segments.size() < kSegmentsMax;
                  }) &&
        read_list(reader, times,
                  [&](RecordedTime& time) {
                      time.worker = reader.number<uint32_t>();
                      time.range = read_range(reader);
                      time.time = reader.number<uint64_t>();
                      return time.range.first <= time.range.last && times.size() < kSegmentsMax;
                  }) &&
        read_list(reader, clocks,
                  [&](ClockTimes& clock) {
                      auto decoded = ClockTimes::decode(reader);
                      if (!decoded || clocks.size() >= kSegmentsMax) return false;
                      clock = std::move(*decoded);
                      return true;
                  }) &&
        read_list(reader, iterations, [&](RecordedIterations& one) {
            one.range = read_range(reader);
            one.last_closed = reader.number<uint64_t>();
            const auto read_failed = [&](RecordedIterations::Failed& failed) {
                failed.iteration = reader.number<uint64_t>();
                failed.status = reader.number<Errc>();
                failed.worker = reader.number<uint32_t>();
                failed.other = reader.number<uint32_t>();
                return one.failed.size() < kFailedMax;
            };
            return read_list(reader, one.failed, read_failed) &&
                   one.range.first <= one.range.last && iterations.size() < kSegmentsMax;
        });
    return is_sound && reader.done() && has_tail();
}

}  // namespace weir

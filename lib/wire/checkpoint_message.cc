// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/checkpoint_message.h"

#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/wire/messages.h"

namespace weir {
namespace {

constexpr size_t kChunkNameBytesMax = 256;

void write_tables(ByteWriter& to, const std::vector<TableIteration>& tables) {
    to.number(static_cast<uint32_t>(tables.size()));
    for (const TableIteration& one : tables)
        to.number(one.table).number(one.iteration);
}

bool read_tables(ByteReader& from, std::vector<TableIteration>& tables) {
    const auto count = from.number<uint32_t>();
    if (count > CheckpointOrder::kTablesMax) return false;
    for (uint32_t i = 0; i < count; ++i) {
        TableIteration& one = tables.emplace_back();
        one.table = from.number<uint32_t>();
        one.iteration = from.number<uint64_t>();
    }
    return from.ok();
}

}  // namespace

std::vector<std::byte> CheckpointOrder::encode() const {
    ByteWriter to;
    to.number(step).number(static_cast<uint8_t>(has_more)).number(number).number(base).text(folder);
    write_tables(to, tables);
    return std::move(to).take();
}

std::optional<CheckpointOrder> CheckpointOrder::decode(std::span<const std::byte> body) {
    ByteReader from(body);
    CheckpointOrder order;
    order.step = from.number<Step>();
    if (order.step < Step::kFreeze || order.step > Step::kWatch) return std::nullopt;
    if (!from.flag(order.has_more)) return std::nullopt;
    order.number = from.number<uint64_t>();
    order.base = from.number<uint64_t>();
    order.folder = from.text(kFolderBytesMax);
    if (!read_tables(from, order.tables) || !from.done()) return std::nullopt;
    return order;
}

std::vector<std::byte> ResumedMessage::encode(size_t bytes_max) const {
    ByteWriter to;
    to.number(checkpoint);
    for (const SavedTable& table : tables) {
        const size_t bytes = sizeof(uint32_t) + table.name.size() + sizeof(table.closed);
        if (to.bytes().size() + bytes > bytes_max) break;
        to.text(table.name).number(table.closed);
    }
    return std::move(to).take();
}

std::optional<ResumedMessage> ResumedMessage::decode(std::span<const std::byte> body) {
    ByteReader from(body);
    ResumedMessage message;
    message.checkpoint = from.number<uint64_t>();
    while (from.ok() && !from.done()) {
        SavedTable& table = message.tables.emplace_back();
        table.name = from.text(TableMessage::kNameBytesMax);
        table.closed = from.number<uint64_t>();
    }
    if (!from.done()) return std::nullopt;
    return message;
}

std::vector<std::byte> WrittenMessage::encode(size_t bytes_max) const {
    ByteWriter to;
    to.number(ended_count);
    for (const Written& one : checkpoints) {
        const std::string_view failure = std::string_view(one.failure).substr(0, kFailureBytesMax);
        const size_t bytes =
            sizeof(one.number) + sizeof(one.age_ns) + sizeof(uint32_t) + failure.size();
        if (to.bytes().size() + bytes > bytes_max) break;
        to.number(one.number).number(one.age_ns).text(failure);
    }
    return std::move(to).take();
}

std::optional<WrittenMessage> WrittenMessage::decode(std::span<const std::byte> body) {
    ByteReader from(body);
    WrittenMessage message;
    message.ended_count = from.number<uint64_t>();
    while (from.ok() && !from.done()) {
        if (message.checkpoints.size() == kCheckpointsMax) return std::nullopt;
        Written& one = message.checkpoints.emplace_back();
        one.number = from.number<uint64_t>();
        one.age_ns = from.number<uint64_t>();
        one.failure = from.text(kFailureBytesMax);
    }
    if (!from.done() || message.checkpoints.size() > message.ended_count) return std::nullopt;
    return message;
}

std::vector<std::byte> CheckpointReport::encode() const {
    ByteWriter to;
    to.number(step).number(static_cast<uint8_t>(has_more)).number(number);
    write_tables(to, tables);
    to.number(chunk.table).number(chunk.range.first).number(chunk.range.last);
    to.number(chunk.row_count).number(chunk.size_bytes).number(chunk.checksum).text(chunk.name);
    to.number(status).text(why.substr(0, kWhyBytesMax));
    return std::move(to).take();
}

std::optional<CheckpointReport> CheckpointReport::decode(std::span<const std::byte> body) {
    ByteReader from(body);
    CheckpointReport report;
    report.step = from.number<Step>();
    if (report.step < Step::kFrozen || report.step > Step::kDue) return std::nullopt;
    if (!from.flag(report.has_more)) return std::nullopt;
    report.number = from.number<uint64_t>();
    if (!read_tables(from, report.tables)) return std::nullopt;
    report.chunk.table = from.number<uint32_t>();
    report.chunk.range.first = from.number<uint64_t>();
    report.chunk.range.last = from.number<uint64_t>();
    report.chunk.row_count = from.number<uint64_t>();
    report.chunk.size_bytes = from.number<uint64_t>();
    report.chunk.checksum = from.number<uint64_t>();
    report.chunk.name = from.text(kChunkNameBytesMax);
    report.status = from.number<Errc>();
    report.why = from.text(kWhyBytesMax);
    const bool is_failure = report.step == CheckpointReport::Step::kFailed;
    const bool is_sound = report.status <= kErrcLast && (!is_failure || report.status != Errc::kOk);
    if (!from.done() || !is_sound) return std::nullopt;
    return report;
}

}  // namespace weir

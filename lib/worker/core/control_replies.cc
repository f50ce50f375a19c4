// SPDX-License-Identifier: Apache-2.0
/// \file
/// What calls to the manager, and about a shard, have brought.

#include <optional>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/store/schema_codec.h"
#include "lib/worker/core/control.h"

namespace weir {

Result<std::vector<std::byte>> Control::take_body(CallId id) {
    Call* const call = calls_.find(id);
    std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(calls_.take(id));
    return body;
}

Result<Control::Scanned> Control::take_scan(CallId id) {
    Call* const call = calls_.find(id);
    Scanned scanned;
    if (call != nullptr) scanned = {std::move(call->body), std::move(call->memory)};
    WEIR_TRY(calls_.take(id));
    return scanned;
}

template <class Message>
Result<Message> Control::take_message(CallId id, const char* malformed) {
    WEIR_ASSIGN(const std::vector<std::byte> body, take_body(id));
    std::optional<Message> message = Message::decode(body);
    if (!message) return Error(Errc::kProtocol, malformed);
    return *std::move(message);
}

Result<TableInfo> Control::take_table(CallId id) {
    WEIR_ASSIGN(const std::vector<std::byte> body, take_body(id));
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema) return Error(Errc::kProtocol, "the manager sent a malformed table schema");
    schema->id = message->table;
    tables_.add(*schema, message->closed);
    WEIR_ASSIGN(TableInfo info, make_table_info(std::move(*schema), rules_));
    info.checkpoint = message->checkpoint;
    return info;
}

std::string Control::rule_of_table(CallId id) {
    const Call* const call = calls_.find(id);
    const auto message = call == nullptr ? std::nullopt : TableMessage::decode(call->body);
    const auto schema = message ? decode_schema(message->schema) : std::nullopt;
    return schema ? schema->rule : std::string();
}

Result<TableListMessage> Control::take_list(CallId id) {
    return take_message<TableListMessage>(id, "the manager sent a malformed list of tables");
}

Result<WorkShare> Control::take_share(CallId id) {
    return take_message<WorkShare>(id, "the manager sent a malformed share of the work");
}

Result<LostWorkersMessage> Control::take_lost_workers(CallId id) {
    return take_message<LostWorkersMessage>(id, "the manager sent a malformed list of workers");
}

Result<ResumedMessage> Control::take_resumed(CallId id) {
    return take_message<ResumedMessage>(
        id, "the manager sent a malformed list of a checkpoint's tables");
}

Result<WrittenMessage> Control::take_written(CallId id) {
    return take_message<WrittenMessage>(id, "the manager sent a malformed list of checkpoints");
}

Result<StatsMessage> Control::take_stats(CallId id) {
    return take_message<StatsMessage>(id, "a shard sent malformed counters");
}

Result<uint64_t> Control::take_checkpoint(CallId id) {
    WEIR_ASSIGN(const std::vector<std::byte> body, take_body(id));
    ByteReader reader(body);
    const auto number = reader.number<uint64_t>();
    if (!reader.done())
        return Error(Errc::kProtocol, "the manager sent a malformed number of a checkpoint");
    return number;
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes that a peer sends as a frame are refused or decoded. Nothing is read
/// outside of the message, and the sizes of the parts add up. The body of a decoded control frame
/// has the same content when it is encoded again (views: view_fuzz.cc). Input: one message, header and body.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/check.h"
#include "lib/store/plugins/plugin_list.h"
#include "lib/store/rules/rule_codec.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/schema_codec.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/frame.h"
#include "lib/wire/job_status.h"
#include "lib/wire/messages.h"
#include "lib/wire/record_message.h"
#include "lib/wire/scan_message.h"
#include "lib/wire/table_list_message.h"
#include "lib/wire/work_message.h"
#include "lib/wire/work_share.h"

namespace {

using namespace weir;
using namespace weir::wire;
using Bytes = std::span<const std::byte>;

bool same(Bytes a, Bytes b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// `part` lies within `whole`, or is empty.
bool within(Bytes part, Bytes whole) {
    return part.empty() || (part.data() >= whole.data() &&
                            part.data() + part.size() <= whole.data() + whole.size());
}

/// Reads every byte that a receiver may read, so that the sanitizer checks the access.
unsigned touch(Bytes bytes) {
    unsigned sum = 0;
    for (const std::byte byte : bytes)
        sum += std::to_integer<unsigned>(byte);
    return sum;
}

template <class Message>
void check_body(Bytes body) {
    const std::optional<Message> message = Message::decode(body);
    if (message) WEIR_CHECK(same(message->encode(), body));
}

void check_schema_bytes(std::string_view bytes) {
    const std::optional<TableSchema> schema = decode_schema(bytes);
    if (!schema) return;
    WEIR_CHECK(encode_schema(*schema) == bytes);
    static const RuleRegistry rules = RuleRegistry::with_builtin_rules();
    (void)check_schema(*schema, rules);
}

/// Its rows are lent: the decoder takes any of that length for them.
void check_lent_record(Bytes body, const wire::MemoryHandle& at) {
    static const std::vector<std::byte> memory(size_t{1} << 20);
    if (at.length_bytes > memory.size()) return;
    const Bytes rows = Bytes(memory).first(at.length_bytes);
    const std::optional<RecordMessage> record = RecordMessage::decode(body, rows);
    if (!record) return;
    WEIR_CHECK(within(record->keys, rows) && within(record->values, rows));
    WEIR_CHECK(within(record->state, rows) && record->rows_bytes() == rows.size());
    WEIR_CHECK(RecordMessage::decode(record->encode()).has_value());
}

/// Of a rule that a worker does not have itself.
void check_rule_bytes(std::string_view bytes) {
    const std::optional<RuleEntry> rule = decode_rule(bytes);
    if (!rule) return;
    WEIR_CHECK(encode_rule(*rule) == bytes);
    RuleRegistry rules;
    WEIR_CHECK(rules.add(*rule));
}

void check_plugin_bytes(std::string_view bytes) {
    const std::optional<PluginList> list = PluginList::decode(bytes);
    WEIR_CHECK(!list || list->encode() == bytes);
}

void check_record(Bytes body) {
    if (const auto at = RecordMessage::lent_at(body)) return check_lent_record(body, *at);
    const std::optional<RecordMessage> record = RecordMessage::decode(body);
    if (!record) return;
    WEIR_CHECK(within(record->keys, body) && within(record->values, body));
    WEIR_CHECK(within(record->state, body));
    WEIR_CHECK(same(record->encode(), body));
}

/// Decodes the body as that of its kind, and as that of every other kind.
void check_control(Bytes body) {
    check_body<AdmitMessage>(body);
    check_body<AskFirstIterationMessage>(body);
    check_body<CheckpointOrder>(body);
    check_body<CheckpointReport>(body);
    check_body<CompleteMessage>(body);
    check_body<FarTimeMessage>(body);
    check_body<FirstIterationMessage>(body);
    check_body<HelloMessage>(body);
    check_body<JobStatus>(body);
    check_body<JoinMessage>(body);
    check_body<LeaveMessage>(body);
    check_body<LinkMessage>(body);
    check_body<PassesMessage>(body);
    check_body<ScanMessage>(body);
    check_body<ScanReply>(body);
    check_body<FollowMessage>(body);
    check_record(body);
    check_body<StatsMessage>(body);
    check_body<TableListMessage>(body);
    check_body<TableMessage>(body);
    check_body<WorkMessage>(body);
    check_body<LostWorkersMessage>(body);
    check_body<WorkShare>(body);
    if (const auto resumed = ResumedMessage::decode(body))
        WEIR_CHECK(same(resumed->encode(body.size()), body));
    if (const auto written = WrittenMessage::decode(body))
        WEIR_CHECK(same(written->encode(body.size()), body));
    if (const auto table = TableMessage::decode(body)) check_schema_bytes(table->schema);
    if (const auto join = JoinMessage::decode(body)) check_plugin_bytes(join->plugins);
    if (const auto text = decode_text(body)) WEIR_CHECK(same(encode_text(*text), body));
    const std::string_view bytes(reinterpret_cast<const char*>(body.data()), body.size());
    check_schema_bytes(bytes);
    check_rule_bytes(bytes);
    check_plugin_bytes(bytes);
}

void check_request(const Frame& frame, Bytes body) {
    const FrameHeader& header = frame.header;
    const bool inline_keys = (header.flags & kKeysInline) != 0;
    WEIR_CHECK(within(frame.keys, body) && within(frame.values, body));
    WEIR_CHECK(frame.keys.size() == (inline_keys ? header.count * sizeof(uint64_t) : 0));
    WEIR_CHECK(frame.keys.size() + frame.values.size() <= body.size());
    WEIR_CHECK(frame.values_at.length_bytes <= kRequestBytesMax);
    WEIR_CHECK(frame.out_at.length_bytes <= kRequestBytesMax);
    if ((header.flags & kKeysRemote) != 0) {
        WEIR_CHECK(frame.keys_at.length_bytes == header.count * sizeof(uint64_t));
    }
    volatile unsigned seen = touch(frame.keys) + touch(frame.values);
    (void)seen;
}

/// The frames of a message lie in it, one behind the other, each aligned.
void check_several(Bytes message) {
    Frame frame;
    for (Bytes rest = message; !rest.empty();) {
        WEIR_CHECK((message.size() - rest.size()) % kFrameAlign == 0);
        const size_t before = rest.size();
        if (decode_next(rest, frame) != Errc::kOk) return;
        WEIR_CHECK(within(rest, message));
        const size_t bytes = header_bytes(frame.header) + frame.header.body_bytes;
        WEIR_CHECK(before - rest.size() == (rest.empty() ? bytes : aligned(bytes)));
        if (is_request(frame.header.kind)) check_request(frame, message);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const Bytes message(reinterpret_cast<const std::byte*>(data), size);
    Frame frame;
    const Errc decoded = decode(message, frame);
    WEIR_CHECK(decoded == Errc::kOk || decoded == Errc::kProtocol);
    FrameHeader glanced;
    const bool is_request = glance(message, glanced);
    if (decoded == Errc::kOk) {
        const Bytes body = message.subspan(header_bytes(frame.header));
        WEIR_CHECK(frame.header.body_bytes == body.size());
        if (frame.header.kind == Kind::kPush || frame.header.kind == Kind::kPull) {
            check_request(frame, body);
            WEIR_CHECK(is_request && glanced.first == frame.header.first);
            WEIR_CHECK(glanced.predecessor() == frame.header.predecessor());
        } else {
            WEIR_CHECK(same(frame.values, body));
        }
    }
    check_several(message);
    // The decoders of bodies do not depend on a valid header, so they run on the plain input, too.
    check_control(message.subspan(std::min(size, kHeaderBytesMin)));
    return 0;
}

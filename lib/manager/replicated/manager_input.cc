// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/replicated/manager_input.h"

#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/consensus/log_state.h"

namespace weir {
namespace {

using transport::Event;

constexpr size_t kWhyBytesMax = 4096;

void put(ByteWriter& to, const ManagerEvent& event) {
    to.number(static_cast<uint8_t>(event.event)).number(event.connection);
    to.number(static_cast<uint8_t>(event.peer_ended));
    to.number(static_cast<uint32_t>(event.message.size())).raw(event.message);
}

bool take(ByteReader& from, ManagerEvent& event) {
    event.event = from.number<Event>();
    event.connection = from.number<uint64_t>();
    (void)from.flag(event.peer_ended);
    const std::string message = from.text(consensus::kEntryBytesMax);
    const auto bytes = std::as_bytes(std::span(message));
    event.message.assign(bytes.begin(), bytes.end());
    const bool is_known = event.event == Event::kAccepted || event.event == Event::kReceived ||
                          event.event == Event::kClosed;
    return from.ok() && is_known && (event.message.empty() || event.event == Event::kReceived);
}

}  // namespace

std::vector<std::byte> ManagerInput::encode() const {
    ByteWriter to;
    to.number(kind).number(now_ns);
    switch (kind) {
        case Kind::kEvents:
            to.number(static_cast<uint8_t>(is_all)).number(static_cast<uint8_t>(is_being_stopped));
            to.number(static_cast<uint8_t>(wants_checkpoint));
            to.number(static_cast<uint32_t>(events.size()));
            for (const ManagerEvent& event : events)
                put(to, event);
            break;
        case Kind::kLead: to.number(message_bytes_max); break;
        case Kind::kDisk:
            to.number(work).number(answer.status).number(answer.number);
            to.text(std::string_view(answer.why).substr(0, kWhyBytesMax));
            break;
        case Kind::kEnded: to.number(process); break;
    }
    return std::move(to).take();
}

std::optional<ManagerInput> ManagerInput::decode(std::span<const std::byte> bytes) {
    ByteReader from(bytes);
    ManagerInput input;
    input.kind = from.number<Kind>();
    input.now_ns = from.number<uint64_t>();
    switch (input.kind) {
        case Kind::kEvents: {
            (void)from.flag(input.is_all);
            (void)from.flag(input.is_being_stopped);
            (void)from.flag(input.wants_checkpoint);
            const auto count = from.number<uint32_t>();
            if (!from.ok() || count > kEventsMax) return std::nullopt;
            for (uint32_t i = 0; i < count; ++i) {
                if (!take(from, input.events.emplace_back())) return std::nullopt;
            }
            break;
        }
        case Kind::kLead: input.message_bytes_max = from.number<uint32_t>(); break;
        case Kind::kDisk:
            input.work = from.number<uint64_t>();
            input.answer.status = from.number<Errc>();
            input.answer.number = from.number<uint64_t>();
            input.answer.why = from.text(kWhyBytesMax);
            if (input.answer.status > kErrcLast) return std::nullopt;
            break;
        case Kind::kEnded: input.process = from.number<uint64_t>(); break;
        default: return std::nullopt;
    }
    if (!from.done()) return std::nullopt;
    return input;
}

}  // namespace weir

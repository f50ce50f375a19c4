// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/core/incoming_replies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/key/narrow_values.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/wire/messages.h"
#include "lib/worker/filters/table_filters.h"
#include "lib/worker/requests/transient.h"

namespace weir {

using wire::Kind;

bool IncomingReplies::receive(transport::ConnectionId connection, const wire::Frame& frame) {
    ClientRequest* const request = requests_.find(frame.header.request);
    if (request == nullptr) return true;
    if (peers_[request->peer].connection != connection) {
        return peers_.find(connection) == nullptr;  // else a reply that was on its way
    }
    if (request->awaits_reply()) receive(frame.header.request, *request, frame);
    return true;  // else a second reply
}

bool IncomingReplies::receive_immediate(transport::ConnectionId connection, uint32_t immediate) {
    uint64_t id = 0;
    ClientRequest* const request = requests_.find_low(immediate, id);
    if (request == nullptr) return true;
    const Content& content = request->content();
    const bool is_awaited = content.is_pull() && request->state() == ClientRequest::State::kSent &&
                            request->attempt.has_out_remote && request->attempt.codecs == 0;
    if (peers_[request->peer].connection != connection || !is_awaited || content.iteration > 0)
        return false;
    request->resolve_doubt();
    note_shown(*request, 0);
    deliver_copy(*request);
    if (content.piece != nullptr) content.piece->succeeded(request->attempt.has_keys_known());
    requests_.end(id, *request);
    return true;
}

void IncomingReplies::receive(uint64_t id, ClientRequest& request, const wire::Frame& frame) {
    WEIR_CHECK(request.awaits_reply());
    const Errc status = frame.header.status;
    request.resolve_doubt();  // the hello of this connection has ended all older ones
    if (request.attempt.timing != nullptr) [[unlikely]]
        measure(request, frame);
    const bool was_pushed = is_pushed(request, frame.header);
    sender_.push_ended(request, status == Errc::kOk || was_pushed);
    if (was_pushed) requests_.become_pull(request);
    switch (status == Errc::kOk ? Fate::kEnds : fate_of(request, status)) {
        case Fate::kSentAgain:
            if (status == Errc::kUnknownList) request.content().piece->was_unknown();
            return sender_.send_again(id, request, false);
        case Fate::kPaused: return sender_.send_again(id, request, true);
        case Fate::kStale: return request.enter(ClientRequest::State::kStale);
        case Fate::kHeld:
            request.enter(ClientRequest::State::kHeld);
            return held_failures_.hold(id, errors_.error_of(request, frame), clock_.now_ns());
        case Fate::kEnds: break;
    }
    if (status == Errc::kOk) {
        succeeded(request, frame);
    } else if (Call* const call = calls_.find(request.call)) {
        call->note_error(errors_.error_of(request, frame));
    }
    requests_.end(id, request);
}

/// How fast the link was.
void IncomingReplies::measure(ClientRequest& request, const wire::Frame& frame) {
    Attempt& attempt = request.attempt;
    const auto timing = std::exchange(attempt.timing, nullptr);
    size_t received = frame.values.size();
    if (attempt.has_out_remote && frame.header.status == Errc::kOk) {
        received = request.content().out_bytes();
        if (wire::EncodedValues said; attempt.codecs != 0 && frame.values.size() == sizeof said) {
            std::memcpy(&said, frame.values.data(), sizeof said);
            received = std::min<size_t>(said.bytes, received);
        }
    }
    peers_[request.peer].link.replied(timing->sent_bytes, received, timing->ahead_bytes,
                                      clock_.now_ns() - timing->sent_ns);
}

/// Whether the reply says that a push was executed, but its values could not be sent.
bool IncomingReplies::is_pushed(const ClientRequest& request, const wire::FrameHeader& reply) {
    const Content& content = request.content();
    return content.is_ordered() && content.has_out() && reply.status != Errc::kOk &&
           (reply.flags & wire::kPushed) != 0;
}

IncomingReplies::Fate IncomingReplies::fate_of(const ClientRequest& request, Errc status) const {
    const Content& content = request.content();
    const bool may_be_sent_again = content.is_piece() || content.kind == Kind::kScan;
    const std::optional<Transient> why = may_be_sent_again ? transient(status) : std::nullopt;
    if (why) {
        switch (*why) {
            case Transient::kAgain: return Fate::kSentAgain;
            // Without a piece, it came with its keys.
            case Transient::kUnknownList:
                return content.piece != nullptr ? Fate::kSentAgain : Fate::kEnds;
            case Transient::kBusy: return Fate::kPaused;
            case Transient::kStaleEpoch: return Fate::kStale;
        }
    }
    const bool is_about_table =
        content.kind == Kind::kCreateTable || content.kind == Kind::kOpenTable;
    const bool is_held = status == Errc::kPeerLost && !standing_.gave_up() && !is_about_table;
    return is_held ? Fate::kHeld : Fate::kEnds;
}

void IncomingReplies::succeeded(ClientRequest& request, const wire::Frame& frame) {
    const Content& content = request.content();
    if (content.piece != nullptr) content.piece->succeeded(request.attempt.has_keys_known());
    switch (content.kind) {
        case Kind::kPush:
        case Kind::kPull: return content.has_out() ? pulled(request, frame) : void();
        case Kind::kDropTable: return note_dropped(frame);
        default: break;
    }
    if (Call* const call = calls_.find(request.call)) {
        call->body.assign(frame.values.begin(), frame.values.end());
        if (content.is_scan()) call->memory = std::move(request.attempt.out_copy);
    }
    const bool has_left = content.kind == Kind::kLeave && request.peer == Peers::kManager;
    if (!has_left || !standing_.is_ready()) return;
    standing_.leave();
    tasks_.cancel_waiting(standing_.failure().error());
}

/// The reply to what wants values: these, or that they were written.
void IncomingReplies::pulled(ClientRequest& request, const wire::Frame& frame) {
    const Content& content = request.content();
    note_shown(request, frame.header.first);
    if (content.is_pull() && request.attempt.codecs != 0) return pulled_encoded(request, frame);
    if (request.attempt.has_out_remote) return deliver_copy(request);
    if (frame.values.size() == content.out_bytes()) return deliver(request, frame.values);
    if (Call* const call = calls_.find(request.call)) {
        call->note_error(
            Error(Errc::kProtocol,
                  fmt::format("{} sent {} bytes of values, not {}", peers_[request.peer].name,
                              frame.values.size(), content.out_bytes())));
    }
}

/// What the code of a table's codec throws ends this pull, and not the worker.
Result<Body> IncomingReplies::decode(const BodyForm& form, Codecs codecs,
                                     std::span<const std::byte> values) {
    try {
        return decoder_.decode(form, codecs, values);
    } catch (const RuleThrew& why) {
        return Error(Errc::kException, why.what());
    }
}

/// The reply to a pull that takes codecs begins with what its values are.
void IncomingReplies::pulled_encoded(ClientRequest& request, const wire::Frame& frame) {
    const Content& content = request.content();
    const auto wrong = [&](std::string_view what) {
        Call* const call = calls_.find(request.call);
        if (call == nullptr) return;
        call->note_error(
            Error(Errc::kProtocol, fmt::format("{} sent {}", peers_[request.peer].name, what)));
    };
    wire::EncodedValues said;
    if (frame.values.size() < sizeof said) return wrong("no values");
    std::memcpy(&said, frame.values.data(), sizeof said);
    std::span<const std::byte> values = frame.values.subspan(sizeof said);
    if (request.attempt.has_out_remote) {
        if (!values.empty() || said.bytes > content.out_bytes())
            return wrong("more bytes of values than there are");
        values = {request.attempt.out_copy.data(), said.bytes};
    }
    if (values.size() != said.bytes || (said.codecs & ~uint32_t{request.attempt.codecs}) != 0)
        return wrong("values in codecs that this worker does not take");
    if (said.codecs == 0) {
        if (values.size() != content.out_bytes()) return wrong("another number of values");
        counters_.filters.note_plain_pull(values.size());
        if (content.filters->is_automatic())
            content.filters->pulls.note(CodecChoice::as_level(request.attempt.codecs),
                                        values.size(), values.size(), 0);
        return deliver(request, values);
    }
    const auto type = static_cast<ValueType>(content.value_type);
    const auto width = static_cast<uint32_t>(content.out_row_bytes / size_of(type));
    const bool is_automatic = content.filters->is_automatic();
    const uint64_t begun_ns = is_automatic ? clock_.now_ns() : 0;
    const BodyForm form{type, width, content.count, content.filters->own()};
    const Result<Body> body = decode(form, static_cast<Codecs>(said.codecs), values);
    if (body.code() == Errc::kException) {  // of the program, not of the server
        if (Call* const call = calls_.find(request.call)) call->note_error(body.error());
        return;
    }
    if (!body) return wrong(body.error().text());
    if (is_automatic) {  // to make it takes twice as long
        const double both_ns = 3.0 * static_cast<double>(clock_.now_ns() - begun_ns);
        content.filters->pulls.note(CodecChoice::as_level(request.attempt.codecs),
                                    content.out_bytes(), said.bytes, both_ns);
    }
    counters_.filters.note_pull(decoder_.sizes());
    deliver(request, body->rows);
}

/// `shown`: the iteration that the values of a pull show; 0: none.
void IncomingReplies::note_shown(const ClientRequest& request, uint64_t shown) {
    Call* const call = calls_.find(request.call);
    if (call == nullptr) return;
    const uint64_t asked = request.content().iteration;  // 0: any will do
    call->shown = std::min(call->shown, shown);
    if (shown >= asked) return;
    call->note_error(Error(Errc::kProtocol,
                           fmt::format("{} sent values of iteration {}, not of {} or a later one",
                                       peers_[request.peer].name, shown, asked)));
}

/// They were written: where the caller wants them, or into a copy.
void IncomingReplies::deliver_copy(const ClientRequest& request) {
    if (request.attempt.out_copy)
        deliver(request, {request.attempt.out_copy.data(), request.content().out_bytes()});
}

void IncomingReplies::deliver(const ClientRequest& request, std::span<const std::byte> values) {
    const Content& content = request.content();
    WEIR_CHECK(values.size() == content.out_bytes());
    const Call* const call = calls_.find(request.call);
    if (call == nullptr || call->has_ended()) return;  // too late: the caller has its memory back
    counters_.bytes_copied += values.size();
    const auto put = [&](std::span<const std::byte> from, std::byte* to) {
        if (content.widens()) {
            const auto type = static_cast<ValueType>(content.value_type);
            widen(type, from, reinterpret_cast<float*>(to));
        } else if (!from.empty()) {
            std::memcpy(to, from.data(), from.size());
        }
    };
    if (content.order.empty()) return put(values, content.out.data());
    const size_t row_bytes = content.out_row_bytes;
    for (size_t k = 0; k < content.order.size(); ++k) {
        put(values.subspan(k * row_bytes, row_bytes),
            content.out.data() + size_t{content.order[k]} * content.caller_row_bytes);
    }
}

/// No shard acknowledges a push to it any more. What they have acknowledged before, and has not been
/// read here, is lost with the table.
void IncomingReplies::note_dropped(const wire::Frame& reply) {
    const auto message = TableMessage::decode(reply.values);
    if (!message || !tables_.drop(message->table)) return;
    const TableSchema* const table = tables_.find(message->table);
    if (table == nullptr) return;  // this worker has never had it
    const Status why = tables_.check_dropped(*table);
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        const Content& content = request.content();
        const bool is_of_table = content.is_piece() && content.table == message->table;
        Call* const call = is_of_table ? calls_.find(request.call) : nullptr;
        if (call != nullptr) call->note_error(why);
    });
}

size_t IncomingReplies::end_held_failures() {
    const std::vector<HeldFailures::Failure> due = held_failures_.take_due(clock_.now_ns());
    for (const auto& [id, error] : due) {
        ClientRequest* const request = requests_.find(id);
        // The requests of a shard that was lost meanwhile have ended.
        if (request == nullptr || request->state() != ClientRequest::State::kHeld) continue;
        if (Call* const call = calls_.find(request->call)) call->note_error(error);
        requests_.end(id, *request);
    }
    return due.size();
}

}  // namespace weir

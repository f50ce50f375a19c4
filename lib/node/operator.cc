// SPDX-License-Identifier: Apache-2.0
#include "lib/node/operator.h"

#include <utility>

#include <fmt/core.h>
#include <poll.h>

#include "lib/base/byte_codec.h"
#include "lib/node/messages.h"
#include "lib/wire/fault.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

Result<JobStatus> Operator::status() {
    WEIR_ASSIGN(const std::vector<std::byte> body, ask(Kind::kStats, 0));
    std::optional<JobStatus> status = JobStatus::decode(body);
    if (!status) return Error(Errc::kProtocol, "the manager sent a malformed status");
    return std::move(*status);
}

Status Operator::leave(uint32_t server) {
    const auto answered = ask(Kind::kLeave, server);
    if (!answered) return answered.error();
    return {};
}

Status Operator::leave_by_itself(uint32_t server, uint64_t joiner) {
    ByteWriter writer;
    writer.number(joiner);
    const auto answered = ask(Kind::kLeave, server, writer.bytes());
    if (!answered) return answered.error();
    return {};
}

Status Operator::connect() {
    WEIR_ASSIGN(connection_, endpoint_->connect(manager_address_));
    const uint64_t until_ns = clock_.now_ns() + timeout_ns_;
    while (!is_connected_) {
        WEIR_TRY(poll());
        if (clock_.now_ns() > until_ns) {
            return Error(Errc::kDeadline,
                         fmt::format("the manager of the job does not answer at {}; is it still "
                                     "running?",
                                     manager_address_));
        }
    }
    JoinMessage join;
    join.role = JoinMessage::Role::kOperator;
    send(Kind::kJoin, 0, 0, join.encode());
    return {};
}

Result<std::vector<std::byte>> Operator::ask(Kind kind, uint64_t first,
                                             std::span<const std::byte> body) {
    if (!is_connected_) WEIR_TRY(connect());
    answer_ = {};
    send(kind, ++last_request_, first, body);
    const uint64_t until_ns = clock_.now_ns() + timeout_ns_;
    while (!answer_.is_whole) {
        WEIR_TRY(poll());
        if (clock_.now_ns() > until_ns)
            return Error(
                Errc::kDeadline,
                fmt::format("the manager of the job (rank 0, at {}) does not answer; if its "
                            "process is stopped, let it go on, else try again",
                            manager_address_));
    }
    if (answer_.status == Errc::kOk) return std::move(answer_.body);
    return Error(answer_.status,
                 decode_text(answer_.body).value_or(std::string(to_string(answer_.status))));
}

/// Takes what has come; if that is nothing, waits a moment.
Status Operator::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (completion.connection != connection_) continue;
        if (completion.event == Event::kConnected) is_connected_ = true;
        if (completion.event == Event::kClosed) {
            is_connected_ = false;
            return Error(Errc::kPeerLost,
                         fmt::format("the connection to the manager at {} broke ({}); is the job "
                                     "still running?",
                                     manager_address_, to_string(completion.status)));
        }
        wire::Frame frame;
        if (completion.event != Event::kReceived) continue;
        if (wire::decode(completion.message, frame) != Errc::kOk)
            return Error(Errc::kProtocol,
                         fmt::format("the manager sent {}", wire::fault_of(completion.message)));
        const wire::FrameHeader& header = frame.header;
        if (header.kind == Kind::kShutdown) {
            return Error(header.status == Errc::kOk ? Errc::kUnavailable : header.status,
                         decode_text(frame.values).value_or("the job is over"));
        }
        if (header.kind != Kind::kReply || header.request != last_request_) continue;
        answer_.status = header.status;
        answer_.body.insert(answer_.body.end(), frame.values.begin(), frame.values.end());
        if (answer_.body.size() > kStatusBytesMax)
            return Error(Errc::kProtocol, "the manager sent an endless answer");
        answer_.is_whole = header.status != Errc::kOk || answer_.body.size() >= header.first;
    }
    endpoint_->flush();
    if (count > 0) return {};
    pollfd wanted{endpoint_->arm(), POLLIN, 0};
    (void)::poll(&wanted, wanted.fd < 0 ? 0 : 1, wanted.fd < 0 ? 1 : 50);
    return {};
}

void Operator::send(Kind kind, uint64_t request, uint64_t first, std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(kind);
    header.request = request;
    header.first = first;
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    (void)endpoint_->send(connection_, parts);  // a connection that is closed says so in poll()
    endpoint_->flush();
}

}  // namespace weir

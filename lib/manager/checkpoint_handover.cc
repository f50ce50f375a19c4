// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/checkpoint_handover.h"

#include <array>
#include <span>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/frame.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::Completion;
using transport::Event;
using transport::Post;
using wire::Kind;

namespace {

constexpr uint64_t kHandoverRequest = 1;
constexpr uint64_t kHandoverPauseNs = 100 * kMillisecond;  // before it is tried again

}  // namespace

size_t CheckpointHandover::ask(const std::string& leader) {
    if (leader != leader_) stop();
    leader_ = leader;
    if (leader.empty() || connection_ != 0 || clock_.now_ns() < due_ns_) return 0;
    due_ns_ = clock_.now_ns() + kHandoverPauseNs;
    if (const auto begun = endpoint_.connect(leader)) connection_ = *begun;
    return 1;
}

bool CheckpointHandover::take_answer() {
    return std::exchange(is_answered_, false);
}

void CheckpointHandover::stop() {
    if (connection_ != 0) endpoint_.close(std::exchange(connection_, 0));
    leader_.clear();
    due_ns_ = 0;
}

void CheckpointHandover::take(const Completion& completion) {
    switch (completion.event) {
        case Event::kConnected: return send_question();
        case Event::kReceived: return take_message(completion.message);
        case Event::kClosed: connection_ = 0; return;
        default: return;
    }
}

void CheckpointHandover::send_question() {
    const auto send = [&](wire::FrameHeader header, std::span<const std::byte> body) {
        header.body_bytes = static_cast<uint32_t>(body.size());
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
        return endpoint_.send(connection_, parts) != Post::kNotNow;
    };
    JoinMessage join;
    join.role = JoinMessage::Role::kOperator;
    wire::FrameHeader question = wire::header_of(Kind::kCheckpoint);
    question.request = kHandoverRequest;
    question.first = static_cast<uint64_t>(CheckpointAsk::kBegin);
    const bool is_sent = send(wire::header_of(Kind::kJoin), join.encode()) && send(question, {});
    if (!is_sent) endpoint_.close(connection_);
}

/// A manager that does not lead, or has no time for another command, closes the connection.
void CheckpointHandover::take_message(std::span<const std::byte> message) {
    wire::Frame frame;
    if (wire::decode(message, frame) != Errc::kOk) return endpoint_.close(connection_);
    const wire::FrameHeader& header = frame.header;
    if (header.kind != Kind::kReply || header.request != kHandoverRequest) return;
    if (header.status != Errc::kOk) {
        log(LogLevel::kWarning, "the checkpoint that this process was asked for is not written: {}",
            decode_text(frame.values).value_or(std::string(to_string(header.status))));
    }
    stop();
    is_answered_ = true;
}

}  // namespace weir

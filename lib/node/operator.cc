// SPDX-License-Identifier: Apache-2.0
#include "lib/node/operator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <poll.h>

#include "lib/base/byte_codec.h"
#include "lib/base/log.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/fault.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

namespace {

/// For one of several managers: to accept a connection, and then to answer. The one that leads may wait for
/// shards before, 2 s for their counters and 4 s for values of keys.
constexpr uint64_t kConnectNs = 2 * kSecond;
constexpr uint64_t kOneNs = 5 * kSecond;
constexpr std::chrono::milliseconds kPauseOfRounds(50);

std::string text_of_ranks(const std::vector<uint32_t>& ranks) {
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < ranks.size(); ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    return text;
}

/// `answers`: which of several managers say that they do not lead. The others say nothing.
Error nobody_leads(const std::vector<ManagerPlace>& managers, const std::vector<bool>& answers) {
    std::vector<uint32_t> heard;
    std::vector<uint32_t> silent;
    for (size_t i = 0; i < answers.size(); ++i)
        (answers[i] ? heard : silent).push_back(managers[i].rank);
    if (heard.empty())
        return {Errc::kDeadline, fmt::format("none of the {} managers of the job ({}) answers; is "
                                             "the job still running?",
                                             answers.size(), text_of_ranks(silent))};
    const std::string advice =
        silent.empty()
            ? "try again in a moment"
            : fmt::format("see whether the others ({}) run and can be reached, or try again",
                          text_of_ranks(silent));
    return {Errc::kDeadline,
            fmt::format("no manager of the job leads: {} of {} answered ({}), and {} must reach "
                        "each other for that; {}",
                        heard.size(), answers.size(), text_of_ranks(heard), answers.size() / 2 + 1,
                        advice)};
}

}  // namespace

Result<JobStatus> Operator::status() {
    WEIR_ASSIGN(const std::vector<std::byte> body, ask(Kind::kStats, 0));
    std::optional<JobStatus> status = JobStatus::decode(body);
    if (!status) return Error(Errc::kProtocol, "the manager sent a malformed status");
    return std::move(*status);
}

Status Operator::stop(Stop how) {
    const auto answered =
        ask(Kind::kShutdown, how == Stop::kInOrder ? wire::kAsksToStop : wire::kStopsNow);
    if (!answered) return answered.error();
    return {};
}

/// The manager answers when it is written; one that is known to lead is waited for.
Result<uint64_t> Operator::checkpoint(uint64_t timeout_ns) {
    WEIR_TRY(status());
    WEIR_ASSIGN(const std::vector<std::byte> body,
                ask(Kind::kCheckpoint, static_cast<uint64_t>(CheckpointAsk::kWrite), {}, timeout_ns,
                    timeout_ns));
    ByteReader reader(body);
    const auto number = reader.number<uint64_t>();
    if (!reader.ok()) return Error(Errc::kProtocol, "the manager sent a malformed answer");
    return number;
}

Result<GetReply> Operator::get(const GetMessage& question) {
    WEIR_ASSIGN(const std::vector<std::byte> body, ask(Kind::kGet, 0, question.encode()));
    std::optional<GetReply> reply = GetReply::decode(body);
    if (!reply || reply->states.size() > question.keys.size())
        return Error(Errc::kProtocol, "the manager sent malformed values");
    return std::move(*reply);
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

Status Operator::end_unserved(uint32_t server, uint64_t joiner) {
    ByteWriter writer;
    writer.number(joiner).number(uint8_t{1});
    const auto answered = ask(Kind::kLeave, server, writer.bytes());
    if (!answered) return answered.error();
    return {};
}

Status Operator::connect(uint64_t until_ns) {
    WEIR_ASSIGN(connection_, endpoint_->connect(address()));
    while (!is_connected_) {
        const bool is_late = clock_.now_ns() > until_ns;
        WEIR_ASSIGN(const size_t came, poll());
        if (is_late && came == 0) {
            return Error(Errc::kDeadline,
                         fmt::format("the manager of the job does not answer at {}; is it still "
                                     "running?",
                                     address()));
        }
    }
    JoinMessage join;
    join.role = JoinMessage::Role::kOperator;
    send(Kind::kJoin, 0, 0, join.encode());
    return {};
}

/// A manager that does not lead, or is gone, is no answer as long as there are others: what the
/// connection to it says is not told, but nobody_leads() names all that are silent.
Result<std::vector<std::byte>> Operator::ask(Kind kind, uint64_t first,
                                             std::span<const std::byte> body) {
    return ask(kind, first, body, timeout_ns_, kOneNs);
}

Result<std::vector<std::byte>> Operator::ask(Kind kind, uint64_t first,
                                             std::span<const std::byte> body, uint64_t timeout_ns,
                                             uint64_t one_ns) {
    const uint64_t until_ns = clock_.now_ns() + timeout_ns;
    const bool has_several = managers_.size() > 1;
    const QuietLog quiet(has_several);
    std::vector<bool> answers(managers_.size());
    for (;;) {
        auto answered = ask_one(kind, first, body, until_ns, one_ns);
        const bool is_answer = answered || (is_connected_ && answered.code() != Errc::kAgain &&
                                            answered.code() != Errc::kDeadline);
        if (is_answer || !has_several) return answered;
        answers[asked_] = answered.code() == Errc::kAgain;
        if (clock_.now_ns() > until_ns) return nobody_leads(managers_, answers);
        if (is_connected_) endpoint_->close(connection_);
        is_connected_ = false;
        asked_ = (asked_ + 1) % managers_.size();
        if (asked_ == 0) std::this_thread::sleep_for(kPauseOfRounds);
    }
}

Result<std::vector<std::byte>> Operator::ask_one(Kind kind, uint64_t first,
                                                 std::span<const std::byte> body, uint64_t until_ns,
                                                 uint64_t one_ns) {
    const auto within = [&](uint64_t for_ns) {
        return managers_.size() > 1 ? std::min(until_ns, clock_.now_ns() + for_ns) : until_ns;
    };
    answer_ = {};
    if (!is_connected_) WEIR_TRY(connect(within(kConnectNs)));
    until_ns = within(one_ns);
    send(kind, ++last_request_, first, body);
    while (!answer_.is_whole) {
        const bool is_late = clock_.now_ns() > until_ns;
        WEIR_ASSIGN(const size_t came, poll());
        if (is_late && came == 0)
            return Error(
                Errc::kDeadline,
                fmt::format("the manager of the job (rank {}, at {}) does not answer; if its "
                            "process is stopped, let it go on, else try again",
                            managers_[asked_].rank, address()));
    }
    if (answer_.status == Errc::kOk) return std::move(answer_.body);
    return Error(answer_.status,
                 decode_text(answer_.body).value_or(std::string(to_string(answer_.status))));
}

/// Takes all that has come, and returns how much; if that is nothing, waits a moment. On a busy machine
/// that may be longer than a deadline: what has come meanwhile counts.
Result<size_t> Operator::poll() {
    const size_t count = endpoint_->poll(completions_);
    Status all;
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (completion.connection != connection_) continue;
        const Status taken = take(completion);
        if (all) all = taken;
    }
    WEIR_TRY(all);
    endpoint_->flush();
    if (count > 0) return count;
    pollfd wanted{endpoint_->arm(), POLLIN, 0};
    (void)::poll(&wanted, wanted.fd < 0 ? 0 : 1, wanted.fd < 0 ? 1 : 50);
    return count;
}

/// That a connection has ended behind a whole answer is for the next request to find.
Status Operator::take(const Completion& completion) {
    if (completion.event == Event::kConnected) is_connected_ = true;
    if (completion.event == Event::kClosed) {
        is_connected_ = false;
        if (answer_.is_whole) return {};
        return Error(Errc::kPeerLost,
                     fmt::format("the connection to the manager at {} broke ({}); is the job "
                                 "still running?",
                                 address(), to_string(completion.status)));
    }
    wire::Frame frame;
    if (completion.event != Event::kReceived) return {};
    if (wire::decode(completion.message, frame) != Errc::kOk)
        return Error(Errc::kProtocol,
                     fmt::format("the manager sent {}", wire::fault_of(completion.message)));
    const wire::FrameHeader& header = frame.header;
    if (header.kind == Kind::kShutdown) {
        return Error(header.status == Errc::kOk ? Errc::kUnavailable : header.status,
                     decode_text(frame.values).value_or("the job is over"));
    }
    if (header.kind != Kind::kReply || header.request != last_request_) return {};
    answer_.status = header.status;
    answer_.body.insert(answer_.body.end(), frame.values.begin(), frame.values.end());
    if (answer_.body.size() > kStatusBytesMax)
        return Error(Errc::kProtocol, "the manager sent an endless answer");
    answer_.is_whole = header.status != Errc::kOk || answer_.body.size() >= header.first;
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

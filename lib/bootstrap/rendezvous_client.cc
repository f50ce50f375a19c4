// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_client.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>
#include <poll.h>

namespace weir::boot {

using transport::Handshake;

namespace {

constexpr uint64_t kRetryEvery = 50 * kMillisecond;
/// How long to wait for rank 0's message after our deadline. Its deadline passes at about the
/// same time, and its error names the missing ranks.
constexpr uint64_t kVerdictGrace = kSecond;

}  // namespace

Status RendezvousClient::put(std::string_view key, std::string_view value) {
    WEIR_TRY(check_entry(key, value));
    entries_.emplace_back(key, value);
    return {};
}

Result<std::string> RendezvousClient::get(uint32_t rank, std::string_view key) {
    const auto found = values_.find({rank, std::string(key)});
    if (found == values_.end()) {
        return Error(Errc::kNotFound, fmt::format("rank {} published no {}", rank, key));
    }
    return found->second;
}

Status RendezvousClient::finish() {
    over_ = true;
    link_.reset();
    return {};
}

Status RendezvousClient::exchange(uint64_t deadline_ns) {
    if (over_) return Error(Errc::kCancelled, "rendezvous: used after finish() or after an error");
    Status status = link_ ? Status() : join(deadline_ns);
    if (status) status = commit_and_wait(deadline_ns);
    if (!status) (void)finish();
    return status;
}

Status RendezvousClient::join(uint64_t deadline_ns) {
    for (;;) {
        Status status = try_join(deadline_ns);
        if (status) return {};
        link_.reset();
        // rank 0 does not listen yet or closed the connection: it may still be starting
        if (status.code() != Errc::kPeerLost && status.code() != Errc::kNotFound &&
            status.code() != Errc::kDeadline) {
            return status;
        }
        const uint64_t now_ns = clock_.now_ns();
        if (now_ns >= deadline_ns) {
            return too_late(status.error().message() +
                            "; is it running there? WEIR_JOIN_TIMEOUT_S sets how long to wait");
        }
        const int slice_ms = poll_slice_ms(clock_, std::min(deadline_ns, now_ns + kRetryEvery));
        (void)::poll(nullptr, 0, slice_ms);
    }
}

Status RendezvousClient::try_join(uint64_t deadline_ns) {
    WEIR_ASSIGN(transport::Socket socket, tcp_connect(options_.at, clock_, deadline_ns));
    link_.emplace(std::move(socket), transport::Side::kConnecting, options_.secret);
    Handshake& handshake = link_->handshake();
    const RendezvousHello hello{.rank = options_.rank,
                                .size = options_.size,
                                .secured = options_.secret.has_value(),
                                .host = options_.host_id};
    while (!handshake.is_open()) {
        WEIR_ASSIGN(const transport::RecordView record, receive(deadline_ns));
        const Result<Handshake::Step> step = handshake.take(record);
        if (!step) return not_let_in(step.error());
        if (*step == Handshake::Step::kSendPayload) handshake.send_payload(hello.encode());
        if (*step == Handshake::Step::kProven) handshake.ready();
    }
    link_->trust();
    return {};
}

Error RendezvousClient::not_let_in(const Error& error) {
    if (link_->handshake().was_refused()) {
        return {error.code(),
                fmt::format("rendezvous: rank 0 at {}: {}", options_.at.text(), error.text())};
    }
    if (error.code() == Errc::kRefused) {
        return {Errc::kRefused, fmt::format("rendezvous: the program that listens on {} does not "
                                            "know this rank's secret: give the "
                                            "same WEIR_SECRET_FILE to all ranks",
                                            options_.at.text())};
    }
    return {error.code(), fmt::format("rendezvous: rank 0 at {} sent what is not expected now: {}; "
                                      "use the same version of Weir on all ranks",
                                      options_.at.text(), error.text())};
}

Status RendezvousClient::commit_and_wait(uint64_t deadline_ns) {
    for (auto& [key, value] : entries_) {
        link_->queue({.kind = RendezvousKind::kEntry,
                      .rank = options_.rank,
                      .key = std::move(key),
                      .text = std::move(value)});
    }
    entries_.clear();
    link_->queue({.kind = RendezvousKind::kCommit, .round = round_});
    std::string waiting = fmt::format("rank 0 at {} sent nothing", options_.at.text());
    const uint64_t verdict_ns = deadline_ns + std::min(kVerdictGrace, ~uint64_t{0} - deadline_ns);
    for (;;) {
        const auto record = receive(verdict_ns);
        if (!record && record.code() == Errc::kDeadline) return too_late(waiting);
        WEIR_TRY(record);
        auto message = decode_message(*record);
        WEIR_TRY(message);
        if (message->kind == RendezvousKind::kEntry && message->rank < options_.size) {
            values_[{message->rank, std::move(message->key)}] = std::move(message->text);
        } else if (message->kind == RendezvousKind::kWaiting) {
            waiting = std::move(message->text);
        } else if (message->kind == RendezvousKind::kFailed) {
            return Error(Errc::kCancelled, fmt::format("rendezvous: rank 0 at {} gave up: {}",
                                                       options_.at.text(), message->text));
        } else if (message->kind == RendezvousKind::kRelease && message->round == round_) {
            local_rank_ = message->local_rank;
            ++round_;
            return {};
        } else {
            return Error(Errc::kProtocol,
                         "rendezvous: rank 0 sent what is not expected now; use the same version "
                         "of Weir on all "
                         "ranks");
        }
    }
}

Result<transport::RecordView> RendezvousClient::receive(uint64_t deadline_ns) {
    for (;;) {
        auto next = link_->next();
        if (!next) {
            return Error(
                Errc::kProtocol,
                fmt::format("rendezvous: {} answered, but not as rank 0 of a Weir job: {}; "
                            "choose another port for --rendezvous",
                            options_.at.text(), next.error().text()));
        }
        if (next->has_value()) return **next;
        const int slice_ms = poll_slice_ms(clock_, deadline_ns);
        if (slice_ms == 0) return Error(Errc::kDeadline, "no answer in time");
        pollfd entry{link_->fd(), static_cast<short>(POLLIN | (link_->has_output() ? POLLOUT : 0)),
                     0};
        const int ready = ::poll(&entry, 1, slice_ms);
        if (ready <= 0) continue;
        Status status;
        if ((entry.revents & POLLOUT) != 0) status = link_->flush();
        if (status && (entry.revents & ~POLLOUT) != 0) status = link_->fill();
        if (!status) {
            return Error(
                Errc::kPeerLost,
                fmt::format("rendezvous: rank 0 at {}: {}; see the output of rank 0 for the reason",
                            options_.at.text(), status.error().text()),
                status.error().os_error());
        }
    }
}

Error RendezvousClient::too_late(const std::string& why) const {
    return {Errc::kDeadline, fmt::format("rendezvous: rank {} gave up waiting for rank 0 at {}: {}",
                                         options_.rank, options_.at.text(), why)};
}

}  // namespace weir::boot

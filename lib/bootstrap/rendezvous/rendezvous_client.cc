// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_client.h"

#include <algorithm>

#include <fmt/core.h>
#include <poll.h>

namespace weir::boot {

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
    call_.close();
    return {};
}

Status RendezvousClient::exchange(uint64_t deadline_ns) {
    if (over_) return Error(Errc::kCancelled, "rendezvous: used after finish() or after an error");
    Status status = call_.is_connected() ? Status() : join(deadline_ns);
    if (status) status = commit_and_wait(deadline_ns);
    if (!status) (void)finish();
    return status;
}

Status RendezvousClient::join(uint64_t deadline_ns) {
    const RendezvousHello hello{.rank = options_.rank, .size = options_.size};
    for (;;) {
        Status status = call_.connect(hello, deadline_ns);
        if (status) {
            met_at_ = call_.own_address();
            return {};
        }
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

Status RendezvousClient::commit_and_wait(uint64_t deadline_ns) {
    for (auto& [key, value] : entries_) {
        call_.queue({.kind = RendezvousKind::kEntry,
                     .rank = options_.rank,
                     .key = std::move(key),
                     .text = std::move(value)});
    }
    entries_.clear();
    call_.queue({.kind = RendezvousKind::kCommit, .round = round_});
    std::string waiting = fmt::format("rank 0 at {} sent nothing", call_.at());
    const uint64_t verdict_ns = deadline_ns + std::min(kVerdictGrace, ~uint64_t{0} - deadline_ns);
    for (;;) {
        const auto record = call_.receive(verdict_ns);
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
                                                       call_.at(), message->text));
        } else if (message->kind == RendezvousKind::kRelease && message->round == round_) {
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

Error RendezvousClient::too_late(const std::string& why) const {
    return {Errc::kDeadline, fmt::format("rendezvous: rank {} gave up waiting for rank 0 at {}: {}",
                                         options_.rank, call_.at(), why)};
}

}  // namespace weir::boot

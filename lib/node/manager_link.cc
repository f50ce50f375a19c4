// SPDX-License-Identifier: Apache-2.0
#include "lib/node/manager_link.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/life_line.h"
#include "lib/node/manager_names.h"
#include "lib/wire/messages.h"

namespace weir {

using wire::Kind;

namespace {

// Between two attempts to connect.
constexpr uint64_t kPauseNsMin = 5 * kMillisecond;
constexpr uint64_t kPauseNsMax = kSecond;
constexpr uint64_t kReachNs = 30 * kSecond;      // for one of several managers to be reached first
constexpr uint64_t kLookNs = 10 * kMillisecond;  // whether the manager has ended

}  // namespace

Status ManagerLink::connect() {
    if (has_several() && !identity_.manager->is_reached) {
        // Without the process's life line, the link would end with the manager that leads.
        state_ = State::kBroken;
        broken_ns_ = clock_.now_ns();
        return {};
    }
    WEIR_ASSIGN(connection_, begin_connection());
    return {};
}

Result<ManagerLink::ConnectionId> ManagerLink::begin_connection() {
    if (!has_several()) return endpoint_.connect(address_);
    follow_leader();
    return endpoint_.connect(identity_.manager->address(made_to_));
}

bool ManagerLink::has_several() const noexcept {
    return identity_.manager != nullptr && !identity_.manager->places.empty();
}

bool ManagerLink::has_moved() const noexcept {
    return has_several() && state_ != State::kOver && made_to_ != identity_.manager->leading.load();
}

/// The same one may lead again, after others tried to.
void ManagerLink::follow_leader() {
    const uint64_t before = ManagerLife::number(made_to_);
    made_to_ = identity_.manager->leading.load();
    const uint64_t now = ManagerLife::number(made_to_);
    if (before != 0 && now != before) new_leader_ = identity_.manager->places[now - 1].rank;
}

/// The connection to the manager that led is of no more use, even if it holds: that may be stopped.
size_t ManagerLink::move() {
    follow_leader();
    pause_ns_ = 0;
    not_before_ns_ = 0;
    if (connection_ != 0) endpoint_.close(connection_);
    return 1;
}

/// What a connection begins with; with a status, the end of the link.
void ManagerLink::greet(Errc status) {
    if (identity_.link == 0) return;
    wire::FrameHeader header = wire::header_of(Kind::kLink);
    header.request = number_;
    header.first = link_.taken();
    header.status = status;
    const std::vector<std::byte> body =
        LinkMessage{identity_.link, identity_.process, is_known_}.encode();
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    if (endpoint_.send(connection_, parts) == transport::Post::kNotNow)
        endpoint_.close(connection_);  // it is new: there is room on any that works
}

bool ManagerLink::connected() {
    const bool is_first = ++number_ == 1;
    greet(Errc::kOk);
    state_ = is_first ? State::kOpen : State::kResuming;
    return is_first;
}

void ManagerLink::send(wire::FrameHeader header, std::span<const std::byte> body) {
    if (state_ == State::kOver) return;
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
    link_.add(parts);
    if (state_ == State::kOpen) (void)poll({});
}

ManagerLink::Taken ManagerLink::take(const wire::Frame& frame) {
    const Kind kind = frame.header.kind;
    if (kind == Kind::kShutdown && frame.header.status == Errc::kAgain) {  // it does not lead
        endpoint_.close(connection_);
        return Taken::kOwn;
    }
    if (state_ == State::kResuming) {
        if (kind == Kind::kShutdown) return Taken::kFrame;  // the job goes on without this member
        if (kind != Kind::kLink || !link_.resume(frame.header.first)) return Taken::kWrong;
        state_ = State::kOpen;
        is_known_ = true;
        pause_ns_ = 0;
        if (std::exchange(has_warned_, false))
            log(LogLevel::kInfo, "the connection to {} is whole again",
                manager_name(identity_.manager.get()));
        return Taken::kOwn;
    }
    if (identity_.link == 0) return Taken::kFrame;
    if (kind == Kind::kLink || kind == Kind::kTaken) {
        is_known_ = true;
        return link_.note_taken(frame.header.first) ? Taken::kOwn : Taken::kWrong;
    }
    link_.take(frame.values.size());
    return Taken::kFrame;
}

bool ManagerLink::closed() {
    connection_ = 0;
    // Of several managers, another one may have been asked.
    const bool was_never_there =
        identity_.manager == nullptr || (!identity_.manager->is_reached && !has_several());
    if (identity_.link == 0 || state_ == State::kOver ||
        (state_ == State::kConnecting && was_never_there)) {
        state_ = State::kOver;
        return false;
    }
    const uint64_t now_ns = clock_.now_ns();
    if (state_ == State::kOpen || state_ == State::kConnecting) broken_ns_ = now_ns;
    state_ = State::kBroken;
    pause_ns_ = std::clamp(2 * pause_ns_, kPauseNsMin, kPauseNsMax);
    not_before_ns_ = now_ns + pause_ns_;
    return true;
}

size_t ManagerLink::poll(std::string_view name) {
    if (has_moved()) return move();
    if (state_ == State::kOpen) {
        const size_t posted = link_.post(endpoint_, connection_);
        if (identity_.link == 0) link_.drop_posted();
        if (link_.owes_count()) link_.post_count(endpoint_, connection_);
        return posted;
    }
    if (state_ != State::kBroken) return 0;
    if (identity_.manager != nullptr && identity_.manager->has_ended.load()) {
        over(
            Error(Errc::kPeerLost,
                  manager_is_gone(identity_.manager.get()) +
                      (has_several() ? ": their processes have ended, or they take no part any more"
                                     : ": its process has ended")));
        return 1;
    }
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < not_before_ns_) return 0;
    if (now_ns - broken_ns_ > kGiveUpNs) {
        over(
            Error(Errc::kPeerLost,
                  fmt::format("{} cannot be reached for {} s; see whether its host and the network "
                              "to it work",
                              manager_name(identity_.manager.get()), kGiveUpNs / kSecond)));
        return 1;
    }
    if (has_several() && !identity_.manager->is_reached) {  // it has not begun
        if (now_ns - broken_ns_ <= kReachNs) return 0;
        over(Error(Errc::kPeerLost, fmt::format("{} cannot be reached; is the job still running?",
                                                manager_name(identity_.manager.get()))));
        return 1;
    }
    const bool is_long = now_ns - broken_ns_ >= kSecond;
    if (is_long && !std::exchange(has_warned_, true)) {
        log(LogLevel::kWarning, "{}: the connection to {} is broken; it is tried again for {} s",
            name, manager_name(identity_.manager.get()), kGiveUpNs / kSecond);
    }
    const Result<ConnectionId> begun = begin_connection();
    if (begun) {
        connection_ = *begun;
        state_ = State::kReconnecting;
    } else {
        pause_ns_ = std::clamp(2 * pause_ns_, kPauseNsMin, kPauseNsMax);
        not_before_ns_ = now_ns + pause_ns_;
    }
    return 1;
}

uint64_t ManagerLink::due_ns() const noexcept {
    if (state_ == State::kBroken) return std::min(not_before_ns_, clock_.now_ns() + kLookNs);
    return state_ == State::kOpen && must_poll() ? 0 : ~uint64_t{0};
}

void ManagerLink::over(Error why) {
    state_ = State::kOver;
    end_ = std::move(why);
}

std::optional<Error> ManagerLink::take_end() {
    return std::exchange(end_, std::nullopt);
}

std::optional<uint32_t> ManagerLink::take_new_leader() {
    return std::exchange(new_leader_, std::nullopt);
}

void ManagerLink::end() {
    if (state_ == State::kOpen || state_ == State::kResuming) greet(Errc::kUnavailable);
    state_ = State::kOver;
}

}  // namespace weir

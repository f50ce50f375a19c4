// SPDX-License-Identifier: Apache-2.0
#include "lib/node/life_line.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lib/wire/frame.h"

namespace weir {

using transport::Completion;
using transport::Event;

namespace {

// Between two attempts to connect.
constexpr uint64_t kLinePauseNsMin = 5 * kMillisecond;
constexpr uint64_t kLinePauseNsMax = 500 * kMillisecond;

bool is_answer(std::span<const std::byte> message) {
    wire::Frame frame;
    return wire::decode(message, frame) == Errc::kOk && frame.header.kind == wire::Kind::kLifeLine;
}

}  // namespace

LifeLine::LifeLine(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock,
                   std::string address, uint64_t process, std::shared_ptr<ManagerLife> manager)
    : endpoint_(std::move(endpoint)),
      clock_(clock),
      address_(std::move(address)),
      process_(process),
      manager_(std::move(manager)),
      watches_(manager_->places.size()) {
    if (!has_several()) connect();
    for (size_t i = 0; i < watches_.size(); ++i)
        connect(i);
}

void LifeLine::connect() {
    made_to_ = manager_->leading.load();
    const std::string& address = has_several() ? manager_->address(made_to_) : address_;
    const Result<transport::ConnectionId> begun = endpoint_->connect(address);
    begun ? void(connection_ = *begun) : try_later();
}

void LifeLine::try_later() {
    if (!has_several()) manager_->is_tried.store(true);
    connection_ = 0;
    is_answered_ = false;
    pause_ns_ = std::clamp(2 * pause_ns_, kLinePauseNsMin, kLinePauseNsMax);
    not_before_ns_ = clock_.now_ns() + pause_ns_;
}

void LifeLine::greet() {
    wire::FrameHeader header = wire::header_of(wire::Kind::kLifeLine);
    header.request = ++number_;
    header.first = process_;
    const std::array parts{wire::bytes_of(header)};
    if (endpoint_->send(connection_, parts) == transport::Post::kNotNow)
        endpoint_->close(connection_);  // it is new: there is room on any that works
}

size_t LifeLine::poll() {
    size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (completion.connection == connection_) {
            handle(completion);
            continue;
        }
        for (size_t i = 0; i < watches_.size(); ++i) {
            if (watches_[i].connection == completion.connection) handle(i, completion);
        }
    }
    const uint64_t now_ns = clock_.now_ns();
    if (!finished()) {
        for (size_t i = 0; i < watches_.size(); ++i) {
            const Watch& watch = watches_[i];
            if (watch.connection == 0 && !watch.has_ended && now_ns >= watch.not_before_ns)
                connect(i);
        }
        if (has_several() && manager_->leading.load() != made_to_) {
            // The line before stays open until its manager closes it, which it does when it leads no more.
            // It may lead again by now, and this process not know it: closed here, the line would prove to
            // it that this process has ended.
            is_answered_ = false;
            pause_ns_ = 0;
            connect();
            ++count;
        } else if (is_due(now_ns)) {
            connect();
        }
    }
    if (count > 0) endpoint_->flush();
    return count;
}

bool LifeLine::is_due(uint64_t now_ns) const {
    const bool is_known = !has_several() || manager_->leading.load() != 0;
    return connection_ == 0 && is_known && now_ns >= not_before_ns_;
}

void LifeLine::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kConnected: return greet();
        case Event::kReceived:
            if (!is_answer(completion.message)) return;  // a refusal: it does not keep the line
            is_answered_ = true;
            pause_ns_ = 0;
            manager_->is_reached.store(true);
            manager_->is_tried.store(true);
            return;
        case Event::kClosed:
            if (is_answered_ && completion.peer_ended && !has_several()) {
                manager_->has_ended.store(true);
            } else {
                try_later();
            }
            return;
        default: return;
    }
}

int LifeLine::arm() {
    return sleep_ns_max() == 0 ? -1 : endpoint_->arm();
}

uint64_t LifeLine::sleep_ns_max() const noexcept {
    const uint64_t now_ns = clock_.now_ns();
    uint64_t due_ns = connection_ == 0 ? not_before_ns_ : ~uint64_t{0};
    if (has_several() && manager_->leading.load() == 0) due_ns = ~uint64_t{0};
    for (const Watch& watch : watches_) {
        if (watch.connection == 0 && !watch.has_ended)
            due_ns = std::min(due_ns, watch.not_before_ns);
    }
    return due_ns > now_ns ? due_ns - now_ns : 0;
}

// Several managers.

void LifeLine::connect(size_t manager) {
    Watch& watch = watches_[manager];
    watch.is_answered = false;
    const Result<transport::ConnectionId> begun =
        endpoint_->connect(manager_->places[manager].address);
    if (begun) {
        watch.connection = *begun;
        return;
    }
    watch.pause_ns = std::clamp(2 * watch.pause_ns, kLinePauseNsMin, kLinePauseNsMax);
    watch.not_before_ns = clock_.now_ns() + watch.pause_ns;
}

void LifeLine::handle(size_t manager, const Completion& completion) {
    Watch& watch = watches_[manager];
    wire::Frame frame;
    switch (completion.event) {
        case Event::kConnected: {
            const wire::FrameHeader header = wire::header_of(wire::Kind::kLeader);
            const std::array parts{wire::bytes_of(header)};
            if (endpoint_->send(watch.connection, parts) == transport::Post::kNotNow)
                endpoint_->close(watch.connection);
            return;
        }
        case Event::kReceived:
            if (wire::decode(completion.message, frame) != Errc::kOk ||
                frame.header.kind != wire::Kind::kLeader)
                return;
            watch.is_answered = true;
            watch.pause_ns = 0;
            watch.is_out = watch.is_out || frame.header.status != Errc::kOk;
            return watch.is_out ? look_for_ends() : learn_leader(frame.header);
        case Event::kClosed:
            watch.connection = 0;
            watch.has_ended = watch.is_answered && completion.peer_ended;
            watch.pause_ns = std::clamp(2 * watch.pause_ns, kLinePauseNsMin, kLinePauseNsMax);
            watch.not_before_ns = clock_.now_ns() + watch.pause_ns;
            if (watch.has_ended) manager_->ended.fetch_or(uint64_t{1} << manager);
            return look_for_ends();
        default: return;
    }
}

void LifeLine::learn_leader(const wire::FrameHeader& header) {
    const uint64_t number = header.first;
    if (number == 0 || number > watches_.size()) return;
    const uint64_t leading = header.request << ManagerLife::kLeaderBits | number;
    if (leading > manager_->leading.load()) manager_->leading.store(leading);
}

/// Those that are left must be a majority, else none of them can lead.
void LifeLine::look_for_ends() {
    const auto ended = std::ranges::count_if(
        watches_, [](const Watch& watch) { return watch.has_ended || watch.is_out; });
    if (2 * static_cast<size_t>(ended) >= watches_.size()) manager_->has_ended.store(true);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "lib/node/lease_line.h"

#include <algorithm>
#include <span>
#include <utility>

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

namespace {

// Between two attempts to connect.
constexpr uint64_t kLeasePauseNsMin = 5 * kMillisecond;
constexpr uint64_t kLeasePauseNsMax = 100 * kMillisecond;
/// No manager says that it holds longer: WEIR_LEASE_MS is not longer.
constexpr uint64_t kLeaseNsMax = 60 * kSecond;
/// A lease is asked for so many times while one holds.
constexpr uint64_t kAsksPerLease = 3;
/// Of a process without a server.
constexpr uint64_t kSignOfLifeNs = kSecond;
/// Of several managers, whether another one leads.
constexpr uint64_t kLookForLeaderNs = 10 * kMillisecond;

}  // namespace

LeaseLine::LeaseLine(std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock,
                     std::string address, uint64_t process, std::shared_ptr<ManagerLife> manager,
                     std::shared_ptr<ServerLease> lease)
    : endpoint_(std::move(endpoint)),
      clock_(clock),
      address_(std::move(address)),
      process_(process),
      manager_(std::move(manager)),
      lease_(std::move(lease)) {
    connect();
}

void LeaseLine::connect() {
    made_to_ = manager_->leading.load();
    const std::string& address = has_several() ? manager_->address(made_to_) : address_;
    const Result<transport::ConnectionId> begun = endpoint_->connect(address);
    begun ? void(connection_ = *begun) : try_later();
}

void LeaseLine::try_later() {
    connection_ = 0;
    is_open_ = false;
    is_asking_ = false;
    pause_ns_ = std::clamp(2 * pause_ns_, kLeasePauseNsMin, kLeasePauseNsMax);
    due_ns_ = clock_.now_ns() + pause_ns_;
}

void LeaseLine::ask() {
    wire::FrameHeader header = wire::header_of(Kind::kLease);
    header.request = ++question_;
    header.first = process_;
    asked_ns_ = clock_.now_ns();  // before it leaves
    is_asking_ = true;
    const std::array parts{wire::bytes_of(header)};
    if (endpoint_->send(connection_, parts) == transport::Post::kNotNow)
        endpoint_->close(connection_);  // one small frame is open at a time: there is room
}

void LeaseLine::answered(const wire::FrameHeader& answer) {
    if (!is_asking_ || answer.request != question_) return;
    is_asking_ = false;
    pause_ns_ = 0;
    const uint64_t holds_ns = std::min(answer.first, kLeaseNsMax);
    due_ns_ = asked_ns_ + (lease_ == nullptr ? kSignOfLifeNs : holds_ns / kAsksPerLease);
    if (lease_ != nullptr) {
        lease_->set_length_ns(holds_ns);
        lease_->extend_until(asked_ns_ + holds_ns);
    }
    manager_->is_silent = false;
}

/// All that has come was read: a process that was stopped itself finds its answer first.
void LeaseLine::look_for_silence() {
    if (is_asking_ && clock_.now_ns() - asked_ns_ >= kSilentNs) manager_->is_silent = true;
}

/// The connection to the manager that led is of no more use, even if it holds.
size_t LeaseLine::follow_leader() {
    if (!has_several() || finished() || manager_->leading.load() == made_to_) return 0;
    if (connection_ != 0) endpoint_->close(connection_);
    is_open_ = false;
    is_asking_ = false;
    pause_ns_ = 0;
    connect();
    return 1;
}

size_t LeaseLine::poll() {
    size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (completion.connection != connection_) continue;
        wire::Frame frame;
        switch (completion.event) {
            case Event::kConnected:
                is_open_ = true;
                due_ns_ = 0;
                break;
            case Event::kReceived:
                if (wire::decode(completion.message, frame) == Errc::kOk &&
                    frame.header.kind == Kind::kLease)
                    answered(frame.header);
                break;
            case Event::kClosed: try_later(); break;
            default: break;
        }
    }
    count += follow_leader();
    const bool is_due = (connection_ == 0 || (is_open_ && !is_asking_)) && !finished() &&
                        clock_.now_ns() >= due_ns_;
    if (is_due) {
        connection_ == 0 ? connect() : ask();
        ++count;
    }
    look_for_silence();
    if (count > 0) endpoint_->flush();
    return count;
}

int LeaseLine::arm() {
    return sleep_ns_max() == 0 ? -1 : endpoint_->arm();
}

uint64_t LeaseLine::sleep_ns_max() const noexcept {
    const uint64_t look_ns = has_several() ? kLookForLeaderNs : ~uint64_t{0};
    if (connection_ != 0 && (!is_open_ || is_asking_)) return std::min(look_ns, kSecond);
    const uint64_t now_ns = clock_.now_ns();
    return std::min(look_ns, due_ns_ > now_ns ? due_ns_ - now_ns : 0);
}

}  // namespace weir

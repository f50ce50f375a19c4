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
      manager_(std::move(manager)) {
    connect();
}

void LifeLine::connect() {
    const Result<transport::ConnectionId> begun = endpoint_->connect(address_);
    begun ? void(connection_ = *begun) : try_later();
}

void LifeLine::try_later() {
    manager_->is_tried.store(true);
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
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (completion.connection != connection_) continue;
        switch (completion.event) {
            case Event::kConnected: greet(); break;
            case Event::kReceived:
                if (!is_answer(completion.message)) break;  // a refusal: it does not keep the line
                is_answered_ = true;
                pause_ns_ = 0;
                manager_->is_reached.store(true);
                manager_->is_tried.store(true);
                break;
            case Event::kClosed:
                if (is_answered_ && completion.peer_ended) {
                    manager_->has_ended.store(true);
                } else {
                    try_later();
                }
                break;
            default: break;
        }
    }
    if (connection_ == 0 && !finished() && clock_.now_ns() >= not_before_ns_) connect();
    if (count > 0) endpoint_->flush();
    return count;
}

int LifeLine::arm() {
    return connection_ == 0 && clock_.now_ns() >= not_before_ns_ ? -1 : endpoint_->arm();
}

}  // namespace weir

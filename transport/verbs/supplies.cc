// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/supplies.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>

#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

namespace {

uint32_t random_packet_number() {
    const auto bytes = random_bytes();
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number & 0xffffff;
}

}  // namespace

Result<Supplies> Supplies::make(const Hardware& hardware, void* owner,
                                const EndpointOptions& options) {
    Supplies made(hardware, owner, options);
    const auto entries_max = static_cast<uint32_t>(hardware.limits.max_cqe);
    const auto places_most = static_cast<uint32_t>(std::min<uint64_t>(
        {kReceivesMost, static_cast<uint64_t>(hardware.limits.max_srq_wr), entries_max / 2}));
    const uint64_t receives_wanted = uint64_t{options.messages_in_flight} * options.connections_max;
    const auto receives = static_cast<uint32_t>(
        std::min<uint64_t>(receives_wanted, ReceiveQueue::windows_of(places_most)));
    const uint32_t places = std::min(receives + ReceiveQueue::kBeyondWindows, places_most);
    const uint64_t sends_wanted = uint64_t{send_depth(options, hardware)} * options.connections_max;
    const auto entries = static_cast<uint32_t>(
        std::min<uint64_t>(places + std::min<uint64_t>(sends_wanted, kSendsMost), entries_max));
    made.capacity_ = Capacity(receives, entries - places);

    made.channel_.reset(ibv_create_comp_channel(hardware.context.get()));
    const int flags = made.channel_ == nullptr ? -1 : ::fcntl(made.channel_->fd, F_GETFL);
    if (flags < 0 || ::fcntl(made.channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return Error(Errc::kIo, "cannot make a completion channel for an endpoint", errno);
    }
    made.completions_.reset(ibv_create_cq(hardware.context.get(), static_cast<int>(entries), owner,
                                          made.channel_.get(), 0));
    if (made.completions_ == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("cannot make a completion queue of {} entries", entries), errno);
    }
    WEIR_ASSIGN(made.receives_,
                ReceiveQueue::make(hardware.pd.get(), owner, places, options.message_bytes_max));
    return made;
}

Status Supplies::equip(VerbsConnection& c, uint32_t slot) {
    const auto grant =
        capacity_.admit({options_.messages_in_flight, send_depth(options_, *hardware_)});
    if (!grant) {
        return Error(Errc::kBusy,
                     fmt::format("the receive queue has no room for another "
                                 "connection ({} messages are promised to {} connections): use "
                                 "more shards, or fewer messages in flight",
                                 granted_, connections_));
    }
    c.grant = *grant;
    granted_ += grant->window;
    ++connections_;
    WEIR_TRY(receives_->serve_windows(granted_));
    WEIR_ASSIGN(c.qp, make_queue_pair(*hardware_, {owner_, completions_.get(), receives_->get(),
                                                   grant->send_depth}));
    c.queue_pair = QueuePairState::kMade;
    RegisteredPages ring;
    if (spare_rings_.empty()) {
        WEIR_ASSIGN(ring, RegisteredPages::make(hardware_->pd.get(), send_ring_bytes(options_)));
    } else {
        ring = std::move(spare_rings_.back());
        spare_rings_.pop_back();
    }
    c.sends.emplace(c.qp.get(), std::move(ring), grant->send_depth, hardware_->inline_bytes_max,
                    slot);
    c.own = describe(*hardware_, *c.qp, random_packet_number());
    c.own.window = grant->window;
    c.own.message_bytes_max = options_.message_bytes_max;
    return {};
}

void Supplies::take_back(VerbsConnection& c) {
    c.qp.reset();
    c.queue_pair = QueuePairState::kNone;
    if (c.sends && spare_rings_.size() < kSpareRingsMost) {
        spare_rings_.push_back(c.sends->take_ring());
    }
    if (c.grant.window > 0) --connections_;
    granted_ -= c.grant.window;
    capacity_.release(std::exchange(c.grant, {}));
}

}  // namespace weir::transport::verbs

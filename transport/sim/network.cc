// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/network.h"

#include "transport/sim/core.h"
#include "transport/sim/device.h"

namespace weir::transport::sim {

Network::Network(uint64_t seed, ManualClock& clock, const Options& options)
    : core_(std::make_unique<Core>(seed, clock, options)) {}

Network::~Network() = default;

std::unique_ptr<Device> Network::make_device(HostId host) {
    return std::make_unique<SimDevice>(*core_, host);
}

std::optional<uint64_t> Network::next_event_ns() const {
    return core_->next_event_ns();
}

bool Network::step() {
    return core_->step();
}

void Network::advance_to(uint64_t now_ns) {
    core_->advance_to(now_ns);
}

void Network::partition(HostId a, HostId b) {
    core_->partition(a, b);
}

void Network::block(HostId from, HostId to) {
    core_->block(from, to);
}

void Network::heal(HostId a, HostId b) {
    core_->heal(a, b);
}

void Network::reset(HostId a, HostId b) {
    core_->reset(a, b);
}

void Network::kill(HostId host) {
    core_->kill(host);
}

void Network::set_slowness(HostId host, double factor) {
    core_->set_slowness(host, factor);
}

uint64_t Network::trace_hash() const {
    return core_->trace_hash();
}

const NetworkCounters& Network::counters() const {
    return core_->counters();
}

}  // namespace weir::transport::sim

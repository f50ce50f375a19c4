// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/device.h"

#include <algorithm>

#include "transport/sim/endpoint.h"

namespace weir::transport::sim {

namespace {

bool contains(std::span<const std::byte> outer, std::span<const std::byte> inner) {
    const auto outer_start = reinterpret_cast<uintptr_t>(outer.data());
    const auto start = reinterpret_cast<uintptr_t>(inner.data());
    if (start < outer_start) return false;
    const uintptr_t offset = start - outer_start;
    return offset <= outer.size() && inner.size() <= outer.size() - offset;
}

}  // namespace

SimDevice::SimDevice(Core& core, HostId host) : core_(core), host_(host) {
    core_.add(*this);
}

SimDevice::~SimDevice() {
    core_.remove(*this);
}

Result<RegionId> SimDevice::register_memory(const MemoryBlock& block, Access access) {
    if (block.bytes.empty()) {
        return Error(Errc::kInvalidArgument, "sim: cannot register an empty block of memory");
    }
    regions_.push_back({++last_region_, block.bytes, access, core_.make_address(block.bytes.size()),
                        core_.make_key()});
    return last_region_;
}

void SimDevice::deregister_memory(RegionId region) {
    std::erase_if(regions_, [&](const SimRegion& one) { return one.id == region; });
}

Result<std::unique_ptr<Endpoint>> SimDevice::make_endpoint(const EndpointOptions& options) {
    if (killed_) {
        return Error(Errc::kUnavailable,
                     "sim: host " + std::to_string(host_) + " was killed; make a new device");
    }
    if (options.message_bytes_max == 0 || options.messages_in_flight == 0) {
        return Error(Errc::kInvalidArgument, "sim: an endpoint must be able to hold a message");
    }
    return std::unique_ptr<Endpoint>(std::make_unique<SimEndpoint>(core_, *this, options));
}

bool SimDevice::registered(std::span<const std::byte> memory) const {
    if (memory.empty()) return true;
    return std::any_of(regions_.begin(), regions_.end(),
                       [&](const SimRegion& one) { return contains(one.bytes, memory); });
}

Result<RemoteSpan> SimDevice::expose(std::span<const std::byte> memory) const {
    bool found = false;
    for (const SimRegion& one : regions_) {
        if (!contains(one.bytes, memory)) continue;
        found = true;
        if (one.access == Access::kLocal) continue;
        const auto offset = static_cast<uint64_t>(memory.data() - one.bytes.data());
        return RemoteSpan{one.address + offset, memory.size(), one.key};
    }
    if (found) return Error(Errc::kRefused, "sim: this memory is registered for local use only");
    return Error(Errc::kInvalidArgument,
                 "sim: this memory is not (wholly) registered; register it first");
}

std::byte* SimDevice::resolve(const RemoteSpan& span, Access wanted) const {
    for (const SimRegion& one : regions_) {
        if (one.key != span.key) continue;
        if (!allows(one.access, wanted) || span.address < one.address) return nullptr;
        const uint64_t offset = span.address - one.address;
        if (offset > one.bytes.size() || span.length_bytes > one.bytes.size() - offset) {
            return nullptr;
        }
        return one.bytes.data() + offset;
    }
    return nullptr;
}

}  // namespace weir::transport::sim

// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/device.h"

#include <cstring>
#include <mutex>

#include "transport/net/own_address.h"
#include "transport/tcp/endpoint.h"

namespace weir::transport::tcp {

Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options) {
    const SocketAddress reached_at =
        options.reached_at.family() != 0 ? options.reached_at : own_address();
    // Of the family that peers get.
    const char* const all = reached_at.family() == AF_INET6 ? "::" : "0.0.0.0";
    const bool any = options.bind_address.empty();
    WEIR_ASSIGN(const SocketAddress bind_to,
                SocketAddress::parse_host(any ? all : options.bind_address, 0));
    return std::unique_ptr<Device>(
        std::make_unique<TcpDevice>(options, bind_to, bind_to.is_any() ? reached_at : bind_to));
}

Result<RegionId> TcpDevice::register_memory(const MemoryBlock& block, Access access) {
    if (block.bytes.empty()) {
        return Error(Errc::kInvalidArgument, "cannot register an empty block of memory");
    }
    Region region;
    region.begin = reinterpret_cast<uint64_t>(block.bytes.data());
    region.end = region.begin + block.bytes.size();
    const auto random = random_bytes();  // so that no key can be guessed
    std::memcpy(&region.remote_key, random.data(), sizeof region.remote_key);
    region.access = access;
    // relaxed: only a number that nobody else has
    region.id = regions_made_.fetch_add(1, std::memory_order_relaxed) + 1;
    regions_.add(region);
    return region.id;
}

void TcpDevice::deregister_memory(RegionId region) {
    const std::unique_lock nobody_moves(in_use_);
    regions_.remove(region);
}

Result<std::unique_ptr<Endpoint>> TcpDevice::make_endpoint(const EndpointOptions& options) {
    // relaxed: only a number that nobody else has
    const uint32_t number = endpoints_made_.fetch_add(1, std::memory_order_relaxed);
    SocketAddress address = bind_to_;
    if (options_.port != 0) {
        if (number > 0xffffU - options_.port) {
            return Error(Errc::kInvalidArgument,
                         "tcp: there is no port left above the first one (WEIR_PORT): choose a "
                         "lower one");
        }
        address.set_port(static_cast<uint16_t>(options_.port + number));
    }
    WEIR_ASSIGN(auto endpoint, TcpEndpoint::make(*this, options, address));
    return std::unique_ptr<Endpoint>(std::move(endpoint));
}

}  // namespace weir::transport::tcp

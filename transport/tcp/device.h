// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TcpDevice: the memory that peers of its endpoints may read and write.

#include <atomic>
#include <shared_mutex>

#include "lib/base/clock.h"
#include "transport/net/socket_address.h"
#include "transport/regions.h"
#include "transport/tcp/tcp.h"

namespace weir::transport::tcp {

/// Thread: any.
class TcpDevice final : public Device {
public:
    TcpDevice(const DeviceOptions& options, const SocketAddress& bind_to,
              const SocketAddress& reached_at)
        : options_(options),
          clock_(options.clock != nullptr ? options.clock : &steady_clock_),
          bind_to_(bind_to),
          reached_at_(reached_at) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "tcp"; }

    [[nodiscard]] bool pins_memory() const noexcept override { return false; }

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override;
    /// Waits until no endpoint is moving bytes from or to the memory.
    void deregister_memory(RegionId region) override;
    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override;

    [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }

    [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }

    [[nodiscard]] const RegionTable& regions() const noexcept { return regions_; }

    /// Where peers of other hosts reach this one.
    [[nodiscard]] const SocketAddress& reached_at() const noexcept { return reached_at_; }

    /// Endpoints hold it, shared, while a system call moves bytes that a peer reads or writes:
    /// from the look at regions() to the end of the call.
    [[nodiscard]] std::shared_mutex& in_use() noexcept { return in_use_; }

private:
    DeviceOptions options_;
    SteadyClock steady_clock_;
    const Clock* clock_;
    SocketAddress bind_to_;
    SocketAddress reached_at_;
    RegionTable regions_;
    std::shared_mutex in_use_;
    std::atomic<uint64_t> regions_made_{0};
    std::atomic<uint32_t> endpoints_made_{0};
};

}  // namespace weir::transport::tcp

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimDevice: the registrations of one simulated process.

#include <string_view>
#include <vector>

#include "transport/sim/core.h"

namespace weir::transport::sim {

struct SimRegion {
    RegionId id = 0;
    std::span<std::byte> bytes;
    Access access = Access::kLocal;
    uint64_t address = 0;  ///< simulated, so that histories do not depend on real addresses
    uint64_t key = 0;
};

class SimDevice final : public Device {
public:
    SimDevice(Core& core, HostId host);
    SimDevice(const SimDevice&) = delete;
    SimDevice& operator=(const SimDevice&) = delete;
    ~SimDevice() override;

    [[nodiscard]] std::string_view name() const noexcept override { return core_.options().name; }

    [[nodiscard]] bool pins_memory() const noexcept override { return false; }

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override;
    void deregister_memory(RegionId region) override;
    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override;

    [[nodiscard]] HostId host() const { return host_; }

    [[nodiscard]] bool killed() const { return killed_; }

    void kill() { killed_ = true; }

    [[nodiscard]] bool registered(std::span<const std::byte> memory) const;
    [[nodiscard]] Result<RemoteSpan> expose(std::span<const std::byte> memory) const;
    /// The memory of the span; nullptr if it is not wholly in a region that allows `wanted`.
    [[nodiscard]] std::byte* resolve(const RemoteSpan& span, Access wanted) const;

private:
    Core& core_;
    const HostId host_;
    bool killed_ = false;
    RegionId last_region_ = 0;
    std::vector<SimRegion> regions_;
};

}  // namespace weir::transport::sim

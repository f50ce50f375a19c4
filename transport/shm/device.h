// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmDevice: what the endpoints of one device share: registered regions, the hub, quiescence.

#include <memory>
#include <string>

#include "transport/shm/hub.h"
#include "transport/shm/memory/far_memory.h"
#include "transport/shm/memory/quiescence.h"
#include "transport/shm/memory/regions.h"
#include "transport/shm/shm.h"

namespace weir::transport::shm {

/// Thread: any.
class ShmDevice final : public Device {
public:
    ShmDevice(const DeviceOptions& options, std::string host,
              std::unique_ptr<ShmRegionTable> regions);

    [[nodiscard]] std::string_view name() const noexcept override { return "shm"; }

    [[nodiscard]] bool pins_memory() const noexcept override { return false; }

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override;
    void deregister_memory(RegionId region) override;
    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override;

    [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }

    [[nodiscard]] const std::string& host() const noexcept { return host_; }

    [[nodiscard]] bool has_membarrier() const noexcept { return has_membarrier_; }

    [[nodiscard]] ShmRegionTable& regions() noexcept { return *regions_; }

    [[nodiscard]] FarProcesses& far_processes() noexcept { return far_processes_; }

    [[nodiscard]] Hub& hub() noexcept { return hub_; }

    [[nodiscard]] Quiescence& quiescence() noexcept { return quiescence_; }

private:
    const DeviceOptions options_;
    const std::string host_;
    const bool has_membarrier_;
    const std::unique_ptr<ShmRegionTable> regions_;
    FarProcesses far_processes_;
    Hub hub_;
    Quiescence quiescence_;
};

}  // namespace weir::transport::shm

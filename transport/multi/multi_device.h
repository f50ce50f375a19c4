// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MultiDevice: registers memory with each of its children.

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transport/multi/multi.h"

namespace weir::transport {

class MultiDevice final : public Device {
public:
    explicit MultiDevice(std::vector<std::unique_ptr<Device>> children)
        : children_(std::move(children)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "multi"; }

    /// True if any child pins memory.
    [[nodiscard]] bool pins_memory() const noexcept override;

    /// Registers with all children or, on an error, with none.
    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override;
    void deregister_memory(RegionId region) override;
    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override;

private:
    const std::vector<std::unique_ptr<Device>> children_;
    std::mutex mutex_;  ///< guards what follows; never held while a child works
    RegionId last_region_ = 0;
    std::unordered_map<RegionId, std::vector<RegionId>> regions_;
};

}  // namespace weir::transport

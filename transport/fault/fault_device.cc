// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <utility>

#include "transport/fault/fault.h"
#include "transport/fault/fault_endpoint.h"

namespace weir::transport {

namespace {

class FaultDevice final : public Device {
public:
    FaultDevice(std::unique_ptr<Device> inner, std::shared_ptr<Faults> faults)
        : inner_(std::move(inner)), faults_(std::move(faults)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }

    [[nodiscard]] bool pins_memory() const noexcept override { return inner_->pins_memory(); }

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override {
        return inner_->register_memory(block, access);
    }

    void deregister_memory(RegionId region) override { inner_->deregister_memory(region); }

    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override {
        WEIR_ASSIGN(auto endpoint, inner_->make_endpoint(options));
        return std::unique_ptr<Endpoint>(
            std::make_unique<FaultEndpoint>(std::move(endpoint), faults_));
    }

private:
    std::unique_ptr<Device> inner_;
    std::shared_ptr<Faults> faults_;
};

}  // namespace

std::unique_ptr<Device> inject_faults(std::unique_ptr<Device> inner,
                                      std::shared_ptr<Faults> faults) {
    return std::make_unique<FaultDevice>(std::move(inner), std::move(faults));
}

}  // namespace weir::transport

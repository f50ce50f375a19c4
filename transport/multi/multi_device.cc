// SPDX-License-Identifier: Apache-2.0
#include "transport/multi/multi_device.h"

#include <algorithm>

#include "transport/multi/multi_endpoint.h"

namespace weir::transport {

Result<std::unique_ptr<Device>> combine(std::vector<std::unique_ptr<Device>> children) {
    if (children.empty()) {
        return Error(Errc::kInvalidArgument, "no transport to combine; name at least one");
    }
    if (children.size() > kMultiChildrenMax) {
        return Error(Errc::kInvalidArgument, "cannot combine " + std::to_string(children.size()) +
                                                 " transports; at most " +
                                                 std::to_string(kMultiChildrenMax));
    }
    if (children.size() == 1) return std::move(children.front());
    return std::unique_ptr<Device>(std::make_unique<MultiDevice>(std::move(children)));
}

bool MultiDevice::pins_memory() const noexcept {
    return std::ranges::any_of(children_, [](const auto& child) { return child->pins_memory(); });
}

Result<RegionId> MultiDevice::register_memory(const MemoryBlock& block, Access access) {
    std::vector<RegionId> ids;
    for (const auto& child : children_) {
        auto id = child->register_memory(block, access);
        if (!id) {
            for (size_t i = 0; i < ids.size(); ++i)
                children_[i]->deregister_memory(ids[i]);
            return std::move(id).error();
        }
        ids.push_back(*id);
    }
    const std::lock_guard lock(mutex_);
    regions_.emplace(++last_region_, std::move(ids));
    return last_region_;
}

void MultiDevice::deregister_memory(RegionId region) {
    std::vector<RegionId> ids;
    {
        const std::lock_guard lock(mutex_);
        const auto found = regions_.find(region);
        if (found == regions_.end()) return;
        ids = std::move(found->second);
        regions_.erase(found);
    }
    for (size_t i = 0; i < ids.size(); ++i)
        children_[i]->deregister_memory(ids[i]);
}

Result<std::unique_ptr<Endpoint>> MultiDevice::make_endpoint(const EndpointOptions& options) {
    std::vector<MultiEndpoint::Child> endpoints;
    for (const auto& child : children_) {
        WEIR_ASSIGN(auto endpoint, child->make_endpoint(options));
        endpoints.push_back({std::move(endpoint), child->name()});
    }
    WEIR_ASSIGN(auto endpoint, MultiEndpoint::make(std::move(endpoints)));
    return std::unique_ptr<Endpoint>(std::move(endpoint));
}

}  // namespace weir::transport

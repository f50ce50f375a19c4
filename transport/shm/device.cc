// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/device.h"

#include "lib/base/log.h"
#include "transport/shm/address.h"
#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

namespace {

/// How long deregister_memory() waits for other threads. A copy takes far less.
constexpr uint64_t kDeregisterTimeoutNs = 200 * kMillisecond;

}  // namespace

ShmDevice::ShmDevice(const DeviceOptions& options, std::string host,
                     std::unique_ptr<ShmRegionTable> regions)
    : options_(options),
      host_(std::move(host)),
      has_membarrier_(register_for_membarrier()),
      regions_(std::move(regions)) {}

Result<RegionId> ShmDevice::register_memory(const MemoryBlock& block, Access access) {
    return regions_->add(block, access);
}

void ShmDevice::deregister_memory(RegionId region) {
    const std::optional<Access> was = regions_->remove(region);
    if (!was || *was == Access::kLocal) return;  // only its owner ever copied from or to it
    if (!quiescence_.wait(kDeregisterTimeoutNs)) {
        log(LogLevel::kWarning,
            "shm: memory was deregistered while an endpoint of another thread had peers' memory "
            "mapped and did not poll for {} ms",
            kDeregisterTimeoutNs / kMillisecond);
    }
}

Result<std::unique_ptr<Endpoint>> ShmDevice::make_endpoint(const EndpointOptions& options) {
    return ShmEndpoint::make(*this, options);
}

Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options) {
    WEIR_ASSIGN(std::string host, host_id());
    WEIR_ASSIGN(auto regions, ShmRegionTable::make());
    return std::unique_ptr<Device>(
        std::make_unique<ShmDevice>(options, std::move(host), std::move(regions)));
}

}  // namespace weir::transport::shm

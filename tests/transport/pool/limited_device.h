// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LimitedDevice: records the memory that is registered with it, and refuses more than a limit,
/// as an RDMA device does when the locked-memory limit is low.

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>

#include "lib/base/machine/os_limits.h"
#include "transport/transport.h"

namespace weir::transport::test {

class LimitedDevice final : public Device {
public:
    explicit LimitedDevice(uint64_t limit_bytes = kUnlimited, Errc refusal = Errc::kNoMemory)
        : limit_bytes_(limit_bytes), refusal_(refusal) {}

    struct Region {
        MemoryBlock block;
        Access access = Access::kLocal;
    };

    [[nodiscard]] std::string_view name() const noexcept override { return "fake"; }

    [[nodiscard]] bool pins_memory() const noexcept override { return pins; }

    bool pins = true;  ///< as an RDMA device does

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override {
        const std::lock_guard lock(mutex_);
        if (registered_bytes() + block.bytes.size() > limit_bytes_) {
            return Error(refusal_, locked_memory_advice(locked_memory_limit(), block.bytes.size()),
                         ENOMEM);
        }
        regions_[++last_] = {block, access};
        return last_;
    }

    void deregister_memory(RegionId region) override {
        if (on_deregister) on_deregister();
        const std::lock_guard lock(mutex_);
        WEIR_CHECK(regions_.erase(region) == 1);
    }

    std::function<void()> on_deregister;

    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& /*options*/) override {
        return Error(Errc::kUnavailable, "a fake device has no endpoints");
    }

    /// Call these two only while no other thread uses the device.
    [[nodiscard]] uint64_t registered_bytes() const {
        uint64_t bytes = 0;
        for (const auto& [id, region] : regions_)
            bytes += region.block.bytes.size();
        return bytes;
    }

    [[nodiscard]] const std::map<RegionId, Region>& regions() const { return regions_; }

    void set_limit(uint64_t limit_bytes) { limit_bytes_ = limit_bytes; }

private:
    uint64_t limit_bytes_;
    Errc refusal_;
    std::mutex mutex_;
    RegionId last_ = 0;
    std::map<RegionId, Region> regions_;
};

}  // namespace weir::transport::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The shm backend in the conformance suite: "shm" with two devices, whose endpoints connect as two
/// processes do (socket, handshake, memfds), and "shm-direct" with one device, whose endpoints
/// connect directly.

#include "lib/base/check.h"
#include "tests/transport/conformance.h"
#include "transport/shm/shm.h"

namespace weir::transport::conformance {

namespace {

class ShmFabric : public Fabric {
public:
    ShmFabric(std::unique_ptr<Device> first, std::unique_ptr<Device> second,
              std::unique_ptr<Device> stranger)
        : first_(std::move(first)), second_(std::move(second)), stranger_(std::move(stranger)) {}

    [[nodiscard]] Device& device(size_t process) override {
        return process == 0 || second_ == nullptr ? *first_ : *second_;
    }

    [[nodiscard]] Device* stranger() override { return stranger_.get(); }

    [[nodiscard]] std::string nobody() override {
        auto endpoint = first_->make_endpoint({});
        WEIR_CHECK(endpoint.has_value());
        const std::string address = (*endpoint)->address();
        return address.substr(0, address.size() - 32) + std::string(32, '0');
    }

    [[nodiscard]] bool has_threads() const override { return true; }

private:
    std::unique_ptr<Device> first_;
    std::unique_ptr<Device> second_;  ///< nullptr: the first is both
    std::unique_ptr<Device> stranger_;
};

Result<std::unique_ptr<Fabric>> make_fabric(bool two_devices) {
    shm::DeviceOptions options;
    options.secret = random_bytes();
    shm::DeviceOptions other_job;
    other_job.secret = random_bytes();
    WEIR_ASSIGN(auto first, shm::make_device(options));
    std::unique_ptr<Device> second;
    if (two_devices) {
        WEIR_ASSIGN(second, shm::make_device(options));
    }
    WEIR_ASSIGN(auto stranger, shm::make_device(other_job));
    return std::unique_ptr<Fabric>(
        std::make_unique<ShmFabric>(std::move(first), std::move(second), std::move(stranger)));
}

const Registration kShm{"shm", [] { return make_fabric(true); }};
const Registration kShmDirect{"shm-direct", [] { return make_fabric(false); }};

}  // namespace

}  // namespace weir::transport::conformance

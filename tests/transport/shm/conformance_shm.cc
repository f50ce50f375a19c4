// SPDX-License-Identifier: Apache-2.0
/// \file
/// The shm backend in the conformance suite: "shm" with two devices, whose endpoints connect as two
/// processes do (socket, handshake, memfds), and "shm-direct" with one device, whose endpoints
/// connect directly.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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

    ~ShmFabric() override {
        for (const MemoryBlock& block : made_) {
            munmap(block.bytes.data(), block.bytes.size());
            ::close(block.fd);
        }
    }

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

    /// As the suite's own, and sealed, so that peers map it.
    [[nodiscard]] MemoryBlock make_memory(size_t /*process*/, size_t length_bytes) override {
        const int fd = memfd_create("weir-conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        WEIR_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(length_bytes)) == 0);
        WEIR_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
        void* const start = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        WEIR_CHECK(start != MAP_FAILED);
        made_.push_back({{static_cast<std::byte*>(start), length_bytes}, fd, 0});
        return made_.back();
    }

    [[nodiscard]] bool has_threads() const override { return true; }

private:
    std::vector<MemoryBlock> made_;
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

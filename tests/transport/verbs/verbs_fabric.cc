// SPDX-License-Identifier: Apache-2.0
/// \file
/// The verbs backend in the conformance suite: two devices of one job on the same RDMA device.
/// Skipped with a message where there is none.

#include "tests/transport/conformance.h"
#include "transport/verbs/verbs.h"

namespace {

using namespace weir;
using namespace weir::transport;

class VerbsFabric final : public conformance::Fabric {
public:
    static Result<std::unique_ptr<Fabric>> make() {
        auto fabric = std::make_unique<VerbsFabric>();
        verbs::DeviceOptions options;
        options.secret = random_bytes();
        for (auto& device : fabric->devices_) {
            WEIR_ASSIGN(device, verbs::make_device(options));
        }
        options.secret = random_bytes();
        WEIR_ASSIGN(fabric->stranger_, verbs::make_device(options));
        return std::unique_ptr<Fabric>(std::move(fabric));
    }

    Device& device(size_t process) override { return *devices_[process]; }

    Device* stranger() override { return stranger_.get(); }

    std::string nobody() override { return "verbs:127.0.0.1:1"; }

    bool has_threads() const override { return true; }

private:
    std::unique_ptr<Device> devices_[2];
    std::unique_ptr<Device> stranger_;
};

const conformance::Registration kVerbs{"verbs", [] { return VerbsFabric::make(); }};

}  // namespace

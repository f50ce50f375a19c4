// SPDX-License-Identifier: Apache-2.0
/// \file
/// The tcp backend in the conformance suite: two devices of one job on the loopback interface.

#include "tests/transport/conformance.h"
#include "transport/tcp/tcp.h"

namespace {

using namespace weir;
using namespace weir::transport;

class TcpFabric final : public conformance::Fabric {
public:
    static Result<std::unique_ptr<Fabric>> make() {
        auto fabric = std::make_unique<TcpFabric>();
        tcp::DeviceOptions options;
        options.bind_address = "127.0.0.1";
        options.silence_ms_max = conformance::kSilenceMsMax;
        options.secret = random_bytes();
        for (auto& device : fabric->devices_) {
            WEIR_ASSIGN(device, tcp::make_device(options));
        }
        options.secret = random_bytes();
        WEIR_ASSIGN(fabric->stranger_, tcp::make_device(options));
        return std::unique_ptr<Fabric>(std::move(fabric));
    }

    Device& device(size_t process) override { return *devices_[process]; }

    Device* stranger() override { return stranger_.get(); }

    std::string nobody() override { return "tcp:127.0.0.1:1"; }

    bool has_threads() const override { return true; }

private:
    std::unique_ptr<Device> devices_[2];
    std::unique_ptr<Device> stranger_;
};

const conformance::Registration kTcp{"tcp", [] { return TcpFabric::make(); }};

}  // namespace

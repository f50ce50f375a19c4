// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimFabric: the simulated network as surroundings of the conformance cases, with devices as they
/// are or wrapped into others.

#include <functional>

#include "tests/transport/conformance.h"
#include "transport/sim/network.h"

namespace weir::transport::conformance {

class SimFabric final : public Fabric {
public:
    using Wrap = std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)>;

    SimFabric(const sim::Options& options, uint64_t seed, const Wrap& wrap);

    [[nodiscard]] Device& device(size_t process) override { return *devices_[process]; }

    [[nodiscard]] std::string nobody() override { return "sim:4711"; }

    void advance() override;

    [[nodiscard]] uint64_t now_ns() const override { return clock_.now_ns(); }

    bool kill_other() override;

private:
    ManualClock clock_;
    sim::Network network_;
    std::unique_ptr<Device> devices_[2];
};

/// Makes SimFabrics, seeded by WEIR_SEED. `wrap` may be empty.
[[nodiscard]] FabricFactory sim_fabrics(const sim::Options& options, SimFabric::Wrap wrap = {});

}  // namespace weir::transport::conformance

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimFabric: the simulated network as surroundings of the conformance cases.

#include "tests/transport/conformance.h"
#include "transport/sim/network.h"

namespace weir::transport::conformance {

class SimFabric : public Fabric {
public:
    explicit SimFabric(const sim::Options& options, uint64_t seed);

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

}  // namespace weir::transport::conformance

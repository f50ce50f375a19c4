// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MultiFabric: two processes. Each combines a network of its own ("near0", "near1") with one
/// that connects both ("far"). As with shm and verbs, connections within a process use the first
/// child, those between the processes use the second.

#include "tests/transport/conformance.h"
#include "transport/sim/network.h"

namespace weir::transport::conformance {

class MultiFabric final : public Fabric {
public:
    explicit MultiFabric(uint64_t seed);

    [[nodiscard]] Device& device(size_t process) override { return *devices_[process]; }

    [[nodiscard]] std::string nobody() override { return "elsewhere:1;far:4711"; }

    void advance() override;

    [[nodiscard]] uint64_t now_ns() const override { return clock_.now_ns(); }

    bool kill_other() override;

private:
    ManualClock clock_;
    sim::Network far_;
    std::unique_ptr<sim::Network> near_[2];
    std::unique_ptr<Device> devices_[2];
};

}  // namespace weir::transport::conformance

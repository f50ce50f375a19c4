// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/sim/sim_fabric.h"

#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

SimFabric::SimFabric(const sim::Options& options, uint64_t seed, const Wrap& wrap)
    : network_(seed, clock_, options) {
    for (sim::HostId host = 0; host < 2; ++host) {
        auto device = network_.make_device(host);
        devices_[host] = wrap ? wrap(std::move(device)) : std::move(device);
    }
}

void SimFabric::advance() {
    const uint64_t soon_ns = clock_.now_ns() + 100 * kMicrosecond;
    network_.advance_to(std::min(network_.next_event_ns().value_or(soon_ns), soon_ns));
}

bool SimFabric::kill_other() {
    network_.kill(1);
    return true;
}

FabricFactory sim_fabrics(const sim::Options& options, SimFabric::Wrap wrap) {
    return [options, wrap = std::move(wrap)]() -> Result<std::unique_ptr<Fabric>> {
        return std::unique_ptr<Fabric>(
            std::make_unique<SimFabric>(options, number_from_environment("WEIR_SEED", 1), wrap));
    };
}

namespace {

sim::Options mapping() {
    sim::Options options;
    options.maps_memory = true;
    return options;
}

/// Every tenth try is lost, and never so often in a row that a connection breaks.
sim::Options lossy() {
    sim::Options options;
    options.loss = 0.1;
    options.tries_max = 100;
    return options;
}

const Registration kSim{"sim", sim_fabrics({})};
const Registration kSimMapping{"sim-mapping", sim_fabrics(mapping())};
const Registration kSimLossy{"sim-lossy", sim_fabrics(lossy())};

}  // namespace

}  // namespace weir::transport::conformance

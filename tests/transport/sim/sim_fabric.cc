// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/sim/sim_fabric.h"

#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

SimFabric::SimFabric(const sim::Options& options, uint64_t seed)
    : network_(seed, clock_, options), devices_{network_.make_device(0), network_.make_device(1)} {}

void SimFabric::advance() {
    const uint64_t soon_ns = clock_.now_ns() + 100 * kMicrosecond;
    network_.advance_to(std::min(network_.next_event_ns().value_or(soon_ns), soon_ns));
}

bool SimFabric::kill_other() {
    network_.kill(1);
    return true;
}

namespace {

FabricFactory with(const sim::Options& options) {
    return [options]() -> Result<std::unique_ptr<Fabric>> {
        return std::unique_ptr<Fabric>(
            std::make_unique<SimFabric>(options, number_from_environment("WEIR_SEED", 1)));
    };
}

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

const Registration kSim{"sim", with({})};
const Registration kSimMapping{"sim-mapping", with(mapping())};
const Registration kSimLossy{"sim-lossy", with(lossy())};

}  // namespace

}  // namespace weir::transport::conformance

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fault injection that stays within the contract must keep it.

#include "tests/transport/conformance/stage.h"
#include "tests/transport/sim/sim_fabric.h"
#include "transport/fault/fault.h"

namespace weir::transport::conformance {

namespace {

/// A third of all posts is answered with kNotNow, and completions come late.
const Registration kSimFaults{
    "sim-faults", sim_fabrics({}, [](std::unique_ptr<Device> device) {
        auto faults = std::make_shared<Faults>(number_from_environment("WEIR_SEED", 1));
        faults->not_now = 0.3;
        faults->delay_polls_max = 5;
        return inject_faults(std::move(device), faults);
    })};

}  // namespace

}  // namespace weir::transport::conformance

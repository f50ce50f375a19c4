// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/multi/multi_fabric.h"

#include <algorithm>

#include "lib/base/check.h"
#include "tests/transport/conformance/stage.h"
#include "transport/multi/multi.h"

namespace weir::transport::conformance {

namespace {

sim::Options named(const std::string& name) {
    sim::Options options;
    options.name = name;
    return options;
}

}  // namespace

MultiFabric::MultiFabric(uint64_t seed) : far_(seed, clock_, named("far")) {
    for (uint32_t process = 0; process < 2; ++process) {
        near_[process] = std::make_unique<sim::Network>(seed + process, clock_,
                                                        named("near" + std::to_string(process)));
        std::vector<std::unique_ptr<Device>> children;
        children.push_back(near_[process]->make_device(process));
        children.push_back(far_.make_device(process));
        auto device = combine(std::move(children));
        WEIR_CHECK(device.has_value());
        devices_[process] = std::move(device).value();
    }
}

void MultiFabric::advance() {
    uint64_t until_ns = clock_.now_ns() + 100 * kMicrosecond;
    sim::Network* const all[] = {&far_, near_[0].get(), near_[1].get()};
    for (const sim::Network* const network : all) {
        until_ns = std::min(until_ns, network->next_event_ns().value_or(until_ns));
    }
    for (sim::Network* const network : all)
        network->advance_to(until_ns);
}

bool MultiFabric::kill_other() {
    far_.kill(1);
    near_[1]->kill(1);
    return true;
}

namespace {

const Registration kMulti{"multi", []() -> Result<std::unique_ptr<Fabric>> {
                              return std::unique_ptr<Fabric>(std::make_unique<MultiFabric>(
                                  number_from_environment("WEIR_SEED", 1)));
                          }};

}  // namespace

}  // namespace weir::transport::conformance

// SPDX-License-Identifier: Apache-2.0
/// \file
/// shm between two processes.

#include "tests/transport/conformance/forked.h"
#include "transport/shm/shm.h"

namespace weir::transport::conformance {

namespace {

Result<std::unique_ptr<Device>> make_shm(const Secret& secret) {
    shm::DeviceOptions options;
    options.secret = secret;
    return shm::make_device(options);
}

/// The address of an endpoint that was destroyed.
std::string nobody(Device& device) {
    auto endpoint = device.make_endpoint({});
    WEIR_CHECK(endpoint.has_value());
    return (*endpoint)->address();
}

ForkedOptions shm_options() {
    return {[secret = random_bytes()] { return make_shm(secret); },
            [] { return make_shm(random_bytes()); }, nobody};
}

const Registration kShmForked{"shm-forked", forked(shm_options())};

}  // namespace

}  // namespace weir::transport::conformance

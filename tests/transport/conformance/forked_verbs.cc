// SPDX-License-Identifier: Apache-2.0
/// \file
/// verbs between two processes.

#include "tests/transport/conformance/forked.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::conformance {

namespace {

Result<std::unique_ptr<Device>> make_verbs(const Secret& secret) {
    verbs::DeviceOptions options;
    options.secret = secret;
    return verbs::make_device(options);
}

ForkedOptions verbs_options() {
    return {[secret = random_bytes()] { return make_verbs(secret); },
            [] { return make_verbs(random_bytes()); },
            [](Device& /*device*/) { return std::string("verbs:127.0.0.1:1"); }};
}

const Registration kVerbsForked{"verbs-forked", forked(verbs_options())};

}  // namespace

}  // namespace weir::transport::conformance

// SPDX-License-Identifier: Apache-2.0
/// \file
/// tcp between two processes.

#include "tests/transport/conformance/forked.h"
#include "transport/tcp/tcp.h"

namespace weir::transport::conformance {

namespace {

Result<std::unique_ptr<Device>> make_tcp(const Secret& secret) {
    tcp::DeviceOptions options;
    options.bind_address = "127.0.0.1";
    options.silence_ms_max = kSilenceMsMax;
    options.secret = secret;
    return tcp::make_device(options);
}

ForkedOptions tcp_options() {
    return {[secret = random_bytes()] { return make_tcp(secret); },
            [] { return make_tcp(random_bytes()); },
            [](Device& /*device*/) { return std::string("tcp:127.0.0.1:1"); }};
}

const Registration kTcpForked{"tcp-forked", forked(tcp_options())};

}  // namespace

}  // namespace weir::transport::conformance

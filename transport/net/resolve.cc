// SPDX-License-Identifier: Apache-2.0
#include "transport/net/resolve.h"

#include <memory>
#include <string>

#include <fmt/core.h>
#include <netdb.h>

namespace weir::transport {

Result<std::vector<SocketAddress>> resolve(const HostPort& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int code =
        getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &found);
    if (code != 0) {
        return Error(Errc::kNotFound,
                     fmt::format("host {} of {}: {}; give a name or address that this machine can "
                                 "look up",
                                 name.host, name.text(), gai_strerror(code)));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
    std::vector<SocketAddress> addresses;
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6) {
            addresses.push_back(SocketAddress::from(a->ai_addr));
        }
    }
    if (addresses.empty()) {
        return Error(Errc::kNotFound, fmt::format("host {} has no IP address", name.host));
    }
    return addresses;
}

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "transport/net/reserved_port.h"

#include <cerrno>

#include <sys/socket.h>

#include "transport/net/socket_address.h"

namespace weir::transport {

Result<ReservedPort> ReservedPort::make() {
    WEIR_ASSIGN(const SocketAddress any_port, SocketAddress::parse_host("127.0.0.1", 0));
    Descriptor fd(::socket(any_port.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(fd.get(), any_port.raw(), any_port.raw_bytes()) != 0) {
        return Error(Errc::kIo, "cannot reserve a TCP port of 127.0.0.1", errno);
    }
    const uint16_t number = SocketAddress::own(fd.get()).port();
    return ReservedPort(std::move(fd), number);
}

}  // namespace weir::transport

// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/open_rendezvous.h"

#include <fmt/core.h>

namespace weir::boot {

Status OpenRendezvous::check(const RendezvousHello& hello) {
    if (hello.role == RendezvousHello::Role::kNewcomer) return {};
    return Error(
        Errc::kRefused,
        fmt::format("rank {} comes too late: all ranks of this job are there, and it runs; "
                    "`weir server --join HOST:PORT` adds a server to it",
                    hello.rank));
}

/// It is not kept: it has nothing else to do here, and goes.
void OpenRendezvous::admitted(Connection& connection) {
    RendezvousMessage contact{.kind = RendezvousKind::kContact};
    contact.text = contact_.manager_address;
    if (!is_secured_) contact.secret = contact_.secret;
    connection.link.queue(contact);
}

Status OpenRendezvous::take(Connection& /*connection*/, const RendezvousMessage& /*message*/) {
    return Error(Errc::kProtocol, "a newcomer sends nothing after the handshake");
}

}  // namespace weir::boot

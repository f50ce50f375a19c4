// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap without a launcher: rank 0 listens on HOST:PORT, the others come to it.

#include <memory>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/socket.h"
#include "transport/net/secret.h"

namespace weir::boot {

struct RendezvousOptions {
    HostPort at = {};
    uint32_t rank = 0;
    uint32_t size = 1;
    std::optional<transport::Secret> secret = {};  ///< none: whoever can connect may join
    std::string host_id = {};  ///< equal on ranks of one host; see this_host_id()
};

/// Rank 0 listens from here on; the others connect in their first exchange().
/// Errors:  a rank outside of the size; those of tcp_listen
[[nodiscard]] Result<std::unique_ptr<Bootstrap>> make_rendezvous(RendezvousOptions options,
                                                                 const Clock& clock);

/// Host name and boot identifier: the same in all processes of a host, another one elsewhere.
[[nodiscard]] std::string this_host_id();

}  // namespace weir::boot

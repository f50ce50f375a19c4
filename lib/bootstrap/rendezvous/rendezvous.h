// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap without a launcher: rank 0 listens on HOST:PORT, the other ranks connect to it.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/host_port.h"
#include "lib/bootstrap/bootstrap.h"
#include "transport/net/secret.h"

namespace weir::boot {

struct RendezvousOptions {
    HostPort at = {};
    uint32_t rank = 0;
    uint32_t size = 1;
    std::optional<transport::Secret> secret = {};  ///< none: any process that can connect may join
};

/// Makes a rank of a rendezvous. Rank 0 listens from here on; the others connect in their first
/// exchange().
/// Errors:  kInvalidArgument if the rank is not below the size; those of tcp_listen()
[[nodiscard]] Result<std::unique_ptr<Bootstrap>> make_rendezvous(RendezvousOptions options,
                                                                 const Clock& clock);

/// Host name and boot identifier: equal in all processes of a host, different on other hosts.
[[nodiscard]] std::string this_host_id();
/// Of a host's id: its name, for people.
[[nodiscard]] std::string_view host_name(std::string_view host_id) noexcept;

}  // namespace weir::boot

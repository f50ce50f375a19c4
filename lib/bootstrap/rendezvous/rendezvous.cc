// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous.h"

#include <fstream>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/bootstrap/rendezvous/rendezvous_client.h"
#include "lib/bootstrap/rendezvous/rendezvous_server.h"

namespace weir::boot {

Result<std::unique_ptr<Bootstrap>> make_rendezvous(RendezvousOptions options, const Clock& clock) {
    if (options.rank >= options.size) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("rank {} of a job of {}: ranks are 0 to {}", options.rank,
                                 options.size, options.size - 1));
    }
    if (options.rank != 0) {
        return std::unique_ptr<Bootstrap>(
            std::make_unique<RendezvousClient>(std::move(options), clock));
    }
    WEIR_ASSIGN(auto server, RendezvousServer::open(std::move(options), clock));
    return std::unique_ptr<Bootstrap>(std::move(server));
}

std::string this_host_id() {
    char name[64] = {};
    if (::gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
    std::string boot_id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
    return fmt::format("{} {}", name, boot_id.substr(0, 40));
}

std::string_view host_name(std::string_view host_id) noexcept {
    return host_id.substr(0, host_id.find(' '));
}

}  // namespace weir::boot

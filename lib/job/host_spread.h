// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a job is spread over hosts: which ranks have managers, so that the loss of one host leaves most of them,
/// and what is to be said if its servers are on too few hosts for that.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// The ranks with managers, in ascending order: `count` of those with servers, or all of them if there are
/// fewer. First the first server of each host, then the second of each, and so on, those of the lower ranks first.
/// So rank 0 is one of them.
/// `server_hosts`: of the ranks with servers, which are the first ranks
[[nodiscard]] std::vector<uint32_t> choose_manager_ranks(std::span<const std::string> server_hosts,
                                                         uint32_t count);

/// What one of several hosts would take with it, for people: most managers of several, or all copies of
/// something. Nothing for a job on one host.
/// `hosts`: of all ranks, as boot::this_host_id(); servers are the first `server_count`
[[nodiscard]] std::vector<std::string> spread_warnings(std::span<const std::string> hosts,
                                                       uint32_t server_count,
                                                       std::span<const uint32_t> manager_ranks,
                                                       uint32_t replicas);

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobIdentity: what every rank knows after the bootstrap: its number, the secret, where the
/// manager is.

#include <cstdint>
#include <string>

#include "lib/bootstrap/bootstrap.h"
#include "transport/net/secret.h"

namespace weir {

struct JobIdentity {
    uint32_t rank = 0;
    uint32_t size = 1;
    uint32_t local_rank = 0;
    transport::Secret secret{};
    std::string manager_address = {};  ///< as rank 0 gave it
};

/// Hands rank 0's address and the job's secret to everybody, in one exchange; then the bootstrap
/// has done its work: finish() it.
///
/// `manager_address` counts on rank 0 only. With `secret_file` (WEIR_SECRET_FILE) every rank reads
/// the secret from its own copy and nothing secret travels; without, rank 0 makes one and hands it
/// out.
///
/// Errors:  those of exchange() and read_secret_file(); kRefused if this rank's secret is not rank
/// 0's
[[nodiscard]] Result<JobIdentity> exchange_identity(Bootstrap& bootstrap,
                                                    std::string manager_address,
                                                    uint64_t deadline_ns,
                                                    const std::string& secret_file = {});

}  // namespace weir

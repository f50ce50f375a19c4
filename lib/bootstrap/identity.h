// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobIdentity: what every rank knows after the bootstrap: its number, the job's secret and the
/// manager's address.

#include <cstdint>
#include <string>

#include "lib/bootstrap/bootstrap.h"
#include "transport/net/secret.h"

namespace weir {

struct JobIdentity {
    uint32_t rank = 0;
    transport::Secret secret{};
    std::string manager_address = {};  ///< as rank 0 passed it to exchange_identity()
};

/// Gives rank 0's `manager_address` and the job's secret to every rank, in one exchange. The
/// bootstrap is not needed afterwards: finish() it. The other ranks' `manager_address` is
/// ignored.
///
/// With `secret_file` (WEIR_SECRET_FILE) every rank reads the secret from its own copy of the
/// file, and the secret is not sent. Without it, rank 0 makes one and sends it to the others.
///
/// Errors:  those of exchange() and read_secret_file(); kRefused if this rank's secret is not
///          rank 0's
[[nodiscard]] Result<JobIdentity> exchange_identity(Bootstrap& bootstrap,
                                                    std::string manager_address,
                                                    uint64_t deadline_ns,
                                                    const std::string& secret_file = {});

}  // namespace weir

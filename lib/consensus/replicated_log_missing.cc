// SPDX-License-Identifier: Apache-2.0
/// \file
/// The replicated log of a build without libraft: there is none.

#include "lib/consensus/replicated_log.h"

namespace weir::consensus {

bool have_replicated_log() noexcept {
    return false;
}

Result<std::unique_ptr<ReplicatedLog>> start_replicated_log(
    const ReplicatedLogOptions& /*options*/, std::unique_ptr<transport::Endpoint> /*endpoint*/,
    const Clock& /*clock*/, Replicated& /*replicated*/) {
    return Error(Errc::kUnavailable,
                 "this program was built without libraft; install libraft-dev and build it again");
}

}  // namespace weir::consensus
